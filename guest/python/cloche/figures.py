"""matplotlib's backend in a context (MPLBACKEND=module://cloche.figures): figures that are shown, or left open at the end
of a run, become image/png results.

A run is a cell of a notebook, and its figures are closed by its end. One that was typed (`typed` in its order) is one line
of several that make a figure: there figures stay open, and are shown at the end of each run that changed them."""
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

from . import rich


class FigureManager(FigureManagerBase):
    def show(self):
        send(self.canvas.figure)


class FigureCanvas(FigureCanvasAgg):
    """To draw or to save a figure is not to show it: what changed before still has to be shown."""

    manager_class = FigureManager

    def draw(self):
        was_stale = self.figure.stale
        super().draw()
        self.figure.stale = was_stale

    def print_figure(self, *arguments, **options):
        was_stale = self.figure.stale
        try:
            return super().print_figure(*arguments, **options)
        finally:
            self.figure.stale = was_stale


def send(figure):
    """Not by display(): a figure that cannot be drawn is an error of the run, and only of this one."""
    rich._show("display", {"text/plain": repr(figure).encode(), "image/png": rich.picture(figure)})


def has_something(figure):
    return bool(figure.get_axes() or figure.texts or figure.images)


def has_data(figure):
    return bool(figure.texts or figure.images or any(axes.has_data() for axes in figure.get_axes()))


def managers():
    return [manager for manager in Gcf.get_all_fig_managers() if has_something(manager.canvas.figure)]


def show(*_arguments, **_options):
    """All open figures, each once; they are closed by it, as in a notebook."""
    for manager in managers():
        send(manager.canvas.figure)
    Gcf.destroy_all()


def end_run(typed):
    """Empty axes are not worth a picture as long as somebody may still fill them."""
    for manager in managers():
        figure = manager.canvas.figure
        if (figure.stale or figure not in rich.shown_figures) and (has_data(figure) or not typed):
            send(figure)
    if not typed:
        Gcf.destroy_all()
