"""A program in an interpreter that is there already: what `python3 FILE` does after its start."""
import atexit
import builtins
import io
import os
import resource
import signal
import sys
import threading
import traceback
import types


class Script:
    def __init__(self, order):
        self.path = order["path"]
        self.arguments = order.get("arguments", [])
        for setting in order.get("environment", []):
            name, _, value = setting.partition("=")
            os.environ[name] = value
        for number, value in order.get("rlimits", []):
            resource.setrlimit(number, (value, value))

    def run(self):
        """Does not return. The interpreter is not taken down piece by piece: with large libraries loaded that takes
        longer than most programs, and nothing of it is left anyway."""
        prepare_streams()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = self._execute()
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                code = code or 120
        if code == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code & 0xFF)

    def _execute(self):
        module = types.ModuleType("__main__")
        module.__dict__.update(__file__=self.path, __builtins__=builtins)
        sys.modules["__main__"] = module
        sys.argv = [self.path, *self.arguments]
        sys.path[0] = os.path.dirname(self.path)
        try:
            with open(self.path, "rb") as file:
                code = compile(file.read(), self.path, "exec", dont_inherit=True)
            exec(code, module.__dict__)
        except SystemExit as error:
            return exit_code(error)
        except BaseException as error:
            show(error)
            return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        return 0


def prepare_streams():
    """As in an interpreter with PYTHONUNBUFFERED, which the language's table sets."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        raw = io.FileIO(number, mode, closefd=False)
        buffer = io.BufferedReader(raw) if mode == "r" else raw
        stream = io.TextIOWrapper(buffer, encoding="utf-8", write_through=True, line_buffering=mode == "w",
                                  errors="backslashreplace" if name == "stderr" else "strict")
        stream.mode = mode
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def exit_code(error):
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def show(error):
    """Through the program's own hook, without our frames."""
    trace = error.__traceback__
    while trace and os.path.dirname(trace.tb_frame.f_code.co_filename) == os.path.dirname(__file__):
        trace = trace.tb_next
    hook = sys.excepthook
    try:
        hook(type(error), error, trace)
    except BaseException:
        traceback.print_exc()
