"""matplotlib's backend in a context (MPLBACKEND=module://cloche.figures): figures that are shown, or left open at the end
of a run, become image/png results."""
import io

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

from . import rich

FigureCanvas = FigureCanvasAgg
FigureManager = FigureManagerBase


def picture(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return buffer.getvalue()


def show(*_arguments, **_options):
    """All open figures, each once; they are closed by it, as in a notebook."""
    for manager in list(Gcf.get_all_fig_managers()):
        figure = manager.canvas.figure
        if figure.get_axes() or figure.texts or figure.images:
            rich._show("display", {"text/plain": repr(figure).encode(), "image/png": picture(figure)})
        Gcf.destroy(manager.num)
