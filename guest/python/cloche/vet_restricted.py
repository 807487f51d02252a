"""For the first filter: what RestrictedPython has against a program, see restricted.py, which runs it."""
import re

from .vet_names import below

# The same as in restricted.py, which lets no other be imported.
MODULES = frozenset(
    "base64 bisect calendar collections collections.abc copy csv dataclasses datetime decimal difflib enum fractions functools "
    "hashlib heapq html html.entities html.parser io itertools json json.decoder json.encoder math numbers operator random re "
    "statistics string struct textwrap time typing unicodedata uuid zlib".split())


def look_at_imports(tree, report):
    stack = [tree]
    while stack:
        node = stack.pop()
        kind = type(node).__name__
        names = [alias.name for alias in node.names] if kind == "Import" else [node.module or "."] if kind == "ImportFrom" else ()
        for name in names:
            if name not in MODULES:
                report.add(node.lineno, node.col_offset + 1, "restricted", f"restricted code may not import {name}",
                           "use a module without effects, such as math, json or datetime; see docs/vet.md")
        stack.extend(below(node))


def look(source, tree, report):
    """What RestrictedPython has against it."""
    try:
        from RestrictedPython import compile_restricted_exec
    except ImportError:
        report.add(1, 1, "restricted", "the image has no RestrictedPython", "use an image with the package RestrictedPython, or vet: block")
        return
    try:
        errors = compile_restricted_exec(source.decode("utf-8", "replace"), "<code>").errors
    except Exception as error:  # of an old one with a new Python, say
        errors = [f"RestrictedPython failed: {type(error).__name__}: {error}"]
    for error in errors or ():
        place = re.match(r"Line (\d+): (.*)", error, re.S)
        report.add(int(place[1]) if place else 1, 1, "restricted", place[2] if place else error, "write it without this; see docs/vet.md")
    look_at_imports(tree, report)
