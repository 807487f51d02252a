"""What code in a box can import from Cloche: progress, and objects that are shown richly.

    import cloche
    cloche.progress(0.4, "training")
    display(cloche.Markdown("**done**"))      # display is a builtin in a context
"""
from .rich import HTML, JSON, SVG, Image, Latex, Markdown, display
from .reporting import progress

__all__ = ["HTML", "JSON", "SVG", "Image", "Latex", "Markdown", "display", "progress"]
