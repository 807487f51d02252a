"""Rich values: what a notebook would show, as pairs of media type and bytes."""
import base64
import io
import json
import sys
import weakref

TEXT_MAX = 1 << 20
PLAIN_MAX = 8 << 20  # in bytes, and of what is its own text
MEDIA_MAX, TYPE_MAX = 16, 100  # of the protocol
BODY_MAX = 48 << 20
TABLE_ROWS_MAX = 1000
TABLE_COLUMNS_MAX = 200
TABLE_TYPE = "application/vnd.cloche.table+json"
REPR_MAX = 60

_show = None
shown_figures = weakref.WeakSet()

# The methods by which objects say how they look, as IPython has them.
METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
)


def connect(show):
    """`show(kind, bundle)` sends a bundle to the host."""
    global _show
    _show = show


def as_bytes(kind, value):
    if isinstance(value, tuple):  # data and metadata
        value = value[0]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if kind.endswith("json"):
        return json.dumps(value, ensure_ascii=False, default=str).encode()
    if kind in ("image/png", "image/jpeg") and isinstance(value, str):
        return base64.b64decode(value)
    return str(value).encode("utf-8", "replace")


def plain_text(value):
    try:
        text = repr(value)
    except Exception as error:  # its own affair: the run has succeeded
        text = f"<{type(value).__name__} whose repr() failed: {type(error).__name__}: {error}>"
    if len(text) > TEXT_MAX:
        text = text[:TEXT_MAX] + f" … ({len(text) - TEXT_MAX} more characters)"
    return text


def fitting(bundle):
    """What a frame of the protocol holds: the largest are left out, by name. The text always fits."""
    left_out = [kind[:TYPE_MAX] for kind in bundle if len(kind) > TYPE_MAX]
    kept = {kind: content for kind, content in bundle.items() if len(kind) <= TYPE_MAX}
    if len(kept.get("text/plain", b"")) > PLAIN_MAX:
        kept["text/plain"] = kept["text/plain"][:PLAIN_MAX] + " …".encode()
    for kind in sorted(kept, key=lambda kind: (kind != "text/plain", len(kept[kind])))[::-1]:
        if len(kept) <= MEDIA_MAX and sum(map(len, kept.values())) <= BODY_MAX:
            break
        left_out.append(f"{kind} ({len(kept.pop(kind))} bytes)")
    return kept, left_out


def is_data_frame(value):
    return type(value).__module__.startswith("pandas.") and type(value).__name__ == "DataFrame"


def is_figure(value):
    """Of matplotlib, which has no method for it: notebooks know figures by their type."""
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def picture(figure):
    """As it is now; it counts as shown until it changes."""
    buffer = io.BytesIO()
    try:
        figure.savefig(buffer, format="png", bbox_inches="tight")
    finally:
        figure.stale = False
        shown_figures.add(figure)
    return buffer.getvalue()


def table(frame):
    """The head of a DataFrame as data, for those who would rather compute with it than look at it."""
    head = frame.iloc[:TABLE_ROWS_MAX, :TABLE_COLUMNS_MAX]
    content = json.loads(head.to_json(orient="split", date_format="iso", default_handler=str))
    return {"columns": content["columns"], "types": [str(kind) for kind in head.dtypes], "index": content["index"],
            "rows": content["data"], "row_count": len(frame), "column_count": len(frame.columns)}


def bundle(value):
    """All ways in which the value can be shown, text/plain first."""
    found = {"text/plain": plain_text(value).encode("utf-8", "replace")}
    if isinstance(value, type):
        return found
    own = getattr(value, "_repr_mimebundle_", None)
    ways = []
    if callable(own):
        ways.append(lambda: own())
    for kind, method in METHODS:
        if callable(getattr(value, method, None)):
            ways.append(lambda kind=kind, method=getattr(value, method): {kind: method()})
    if is_data_frame(value):
        ways.append(lambda: {TABLE_TYPE: table(value)})
    if is_figure(value):
        ways.append(lambda: {"image/png": picture(value)})
    for way in ways:
        try:
            shown = way()
            shown = shown[0] if isinstance(shown, tuple) else shown
            for kind, content in (shown or {}).items():
                if content is not None:
                    found[kind] = as_bytes(kind, content)
        except Exception:  # one way that fails leaves the others
            continue
    return found


def display(*values, **_options):
    """Shows values richly, at once; the value of the last expression is shown by itself."""
    for value in values:
        if _show:
            _show("display", bundle(value))


class Shown:
    """Data with a media type. `data` may be text or bytes; `filename` reads it from a file."""

    kind = "text/plain"

    def __init__(self, data=None, filename=None):
        if data is None and filename is None:
            raise TypeError(f"{type(self).__name__} needs data or a filename")
        if data is None:
            with open(filename, "rb") as file:
                data = file.read()
        self.data = data

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self.kind: self.data}

    def __repr__(self):
        if isinstance(self.data, (bytes, bytearray, memoryview)):
            return f"<{type(self).__name__}: {len(self.data)} bytes>"
        text = repr(self.data)
        return f"{type(self).__name__}({text if len(text) <= REPR_MAX else text[:REPR_MAX] + '…'})"


class Readable(Shown):
    """Whose source is what people read where nothing draws it."""

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": as_bytes(self.kind, self.data), self.kind: self.data}


class HTML(Shown):
    kind = "text/html"


class Markdown(Readable):
    kind = "text/markdown"


class SVG(Shown):
    kind = "image/svg+xml"


class Latex(Readable):
    kind = "text/latex"


class JSON(Readable):
    kind = "application/json"


class Image(Shown):
    """PNG or JPEG, by its first bytes."""

    @property
    def kind(self):
        return "image/jpeg" if bytes(self.data[:2]) == b"\xff\xd8" else "image/png"
