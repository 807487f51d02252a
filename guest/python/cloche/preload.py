"""What a zygote does once, so that its forks need not: imports, a first use of what is imported, and order in memory."""
import ctypes
import importlib
import sys

from . import forking

OWN = ("script", "rich", "streams", "execute", "reporting", "figures")

WARM_UP = {
    "numpy": "import numpy; numpy.arange(8.0).mean()",
    "pandas": """
import pandas
frame = pandas.DataFrame({"a": [1, 2, 3, 1], "b": [1.5, 2.5, 3.5, 4.5], "c": list("xyxz")})
frame.groupby("c").agg({"a": "sum", "b": "mean"}).sort_values("b").to_string()
frame.describe().to_html()
pandas.to_datetime(["2024-01-01", "2024-02-01"])
""",
    "matplotlib.pyplot": """
import io, matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
figure, axes = pyplot.subplots()
axes.plot([1, 2, 3], label="x"); axes.set_title("t"); axes.legend()
figure.savefig(io.BytesIO(), format="png")
pyplot.close("all")
# Its fonts hold open files, which a fork closes, and its own at-fork hook then falls over them.
matplotlib.font_manager._get_font.cache_clear()
""",
}


def load(modules):
    """What the image lacks is left out: the code that wants it is told so by its own import."""
    for name in modules:
        try:
            importlib.import_module(name)
            exec(WARM_UP.get(name, ""), {})
        except Exception as error:
            print(f"preload: {name}: {error}", file=sys.stderr)
    for name in OWN:
        try:
            importlib.import_module(f"cloche.{name}")
        except ImportError:
            pass  # figures without matplotlib
    forking.prepare()
    forking.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
