"""A program in a page: what the runner does in a box, with messages to the page instead of a socket. Beside the modules of
the runner, in the package `cloche` of the page's interpreter."""
import builtins
import json
import sys

from pyodide.ffi import run_sync, to_js

from . import execute, reporting, rich

NAME = "main.py"
namespace = None
show_in_page = None


class PageNamespace(execute.Namespace):
    """The page's event loop runs already: its end is awaited by switching stacks."""

    def wait_for(self, coroutine):
        return run_sync(coroutine)


def show(kind, bundle):
    show_in_page(kind == "value", to_js(list(bundle.items())))


def prepare(show_function, tell):
    global namespace, show_in_page
    show_in_page = show_function
    rich.connect(show)
    reporting.connect(lambda fraction, text: tell(to_js({"kind": "progress", "fraction": fraction, "text": text})))
    builtins.display = rich.display
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=True)  # as it comes
    sys.argv = [NAME]
    namespace = PageNamespace()


def without_loader_frames(trace):
    """An error that comes through a promise has frames of the interpreter's own JavaScript in its middle."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("blob:"):
        trace = trace.tb_next
    if trace is not None:
        trace.tb_next = without_loader_frames(trace.tb_next)
    return trace


def run(source):
    """How it ended, as JSON."""
    return json.dumps(execute_program(source))


def execute_program(source):
    try:
        execute.run(namespace, source, NAME, show=lambda value: show("value", rich.bundle(value)))
        return {"status": "ok"}
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return {"status": "exit", "exit_code": (error.code or 0) & 0xFF}
        print(error.code, file=sys.stderr)
        return {"status": "exit", "exit_code": 1}
    except BaseException as error:
        error.__traceback__ = without_loader_frames(execute.without_own_frames(error.__traceback__))
        described = execute.describe(error)
        if isinstance(error, ModuleNotFoundError):
            described["traceback"] += "\nOnly the standard library is in this page; on the server there is more.\n"
        return {"status": "error", "error": described}
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
