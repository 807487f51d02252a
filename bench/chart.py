"""The chart of one comparison: a row per contender, on a logarithmic time axis.

Dots and lines, not bars: a logarithmic axis has no zero for a bar to stand on.
Import this only when the measuring is over; numpy starts threads.
"""

import textwrap
from pathlib import Path

import measure

COLOURS = {"cloche": "#0b6e4f", "native": "#444444", "peer": "#3d6fb4"}
MISSING_COLOUR = "#999999"
TICKS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


def draw_row(axes, position, contender):
    """min to p99 as a thin line, p50 to p90 as a thick one, p50 as the dot."""
    figures = measure.summary(contender.times_ms())
    colour = COLOURS[contender.kind]
    low, p50, p90, p99 = (figures[name] for name in ("min", "p50", "p90", "p99"))
    axes.plot([low, p99], [position] * 2, color=colour, linewidth=1.5)
    axes.plot([p50, p90], [position] * 2, color=colour, linewidth=6, alpha=0.45)
    axes.plot([p99], [position], marker="|", color=colour, markersize=10)
    axes.plot([p50], [position], marker="o", color=colour, markersize=9)
    axes.annotate(
        f"{p50:.1f} ms",
        (p50, position),
        xytext=(0, 9),
        textcoords="offset points",
        ha="center",
        fontsize=10,
        fontweight="bold",
        color=colour,
    )


def draw_missing(axes, position, contender):
    reason = contender.missing or "every run failed"
    axes.text(
        0.02,
        position,
        textwrap.shorten(f"missing: {reason}", 90),
        transform=axes.get_yaxis_transform(),
        va="center",
        fontsize=9,
        style="italic",
        color=MISSING_COLOUR,
    )


def row_name(contender):
    failed = len(contender.failures())
    suffix = f", {failed} failed" if failed else ""
    return f"{contender.label}  (n={len(contender.times_ms())}{suffix})"


def label_axes(axes, contenders, title, subtitle, measured):
    axes.set_yticks(range(len(contenders)))
    axes.set_yticklabels([row_name(contender) for contender in contenders], fontsize=11)
    for label, contender in zip(axes.get_yticklabels(), contenders):
        shown = contender.times_ms()
        label.set_color(COLOURS[contender.kind] if shown else MISSING_COLOUR)
        label.set_fontweight("bold" if contender.kind == "cloche" else "normal")
    axes.set_ylim(len(contenders) - 0.4, -0.8)
    axes.set_xlabel(f"{measured} (logarithmic)", fontsize=11)
    axes.set_title(title, loc="left", fontsize=14, fontweight="bold", pad=26)
    axes.text(0, 1.02, subtitle, transform=axes.transAxes, fontsize=9.5, color="#555555")
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def scale_axis(axes, contenders):
    """A logarithmic axis a little wider than the data, with round numbers on it."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    shown = [measure.summary(contender.times_ms()) for contender in contenders]
    shown = [figures for figures in shown if figures]
    low = min(figures["min"] for figures in shown) * 0.8
    high = max(figures["p99"] for figures in shown) * 1.25
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in TICKS_MS if low <= tick <= high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def draw(contenders, title, subtitle, path_without_suffix, base_key="native", measured="milliseconds from command start to exit"):
    """Write the chart as PNG and SVG; returns the two paths."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    if not any(contender.times_ms() for contender in contenders):
        raise ValueError("nothing was measured")
    figure, axes = pyplot.subplots(figsize=(11, 1.6 + 0.62 * len(contenders)))
    for position, contender in enumerate(contenders):
        if contender.times_ms():
            draw_row(axes, position, contender)
        else:
            draw_missing(axes, position, contender)
        if contender.key == base_key and contender.times_ms():
            base_ms = measure.quantile(contender.times_ms(), 0.5)
            axes.axvline(base_ms, color=COLOURS["native"], linewidth=1, linestyle="--", alpha=0.5)
    label_axes(axes, contenders, title, subtitle, measured)
    scale_axis(axes, contenders)
    legend = "dot: p50     thick: p50 to p90     thin: min to p99     dashed: native p50"
    figure.text(0.99, 0.012, legend, ha="right", fontsize=9, color="#555555")
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    paths = [Path(f"{path_without_suffix}.{suffix}") for suffix in ("png", "svg")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return paths
