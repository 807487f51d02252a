"""A program in an interpreter that is there already: what `python3 FILE` does after its start."""
import _signal
import builtins
import gc
import io
import json
import os
import resource
import signal
import sys
import traceback
import types

from . import endings, execute, vet

LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_NPROC, resource.RLIMIT_MSGQUEUE,
          resource.RLIMIT_MEMLOCK)  # as many as the host sets

_spare_module = None
leave = None  # how a program ends, given its code, by who says so first


def lay_out_module():
    """Ahead: a fork has its `__main__` from its zygote."""
    global _spare_module
    _spare_module = types.ModuleType("__main__")
    _spare_module.__dict__.update(__file__=None, __builtins__=builtins)


class Script:
    def __init__(self, order, source):
        self.path = order["path"]
        self.waits = order.get("waits", False)
        self.cell = source if order.get("results") else None  # its values are shown, as a notebook does it
        self.evaluate = None
        try:
            self.code = compile(source, self.path, "exec", execute.FLAGS if order.get("results") else 0, dont_inherit=True)
        except BaseException as error:
            self.code = error  # to be shown when it would have begun
        self.vetting = order.get("vet")
        self.source = source if self.vetting else None
        self.arguments = order.get("arguments", [])
        for setting in order.get("environment", []):
            name, _, value = setting.partition("=")
            os.environ[name] = value
        for number, value in order.get("rlimits", []):
            resource.setrlimit(number, (value, value))

    def report(self):
        """What the first filter says of it, to be sent before it begins; None: nobody asked."""
        if not self.vetting:
            return None
        source, self.source = self.source, None
        is_usual = self.vetting.keys() <= {"mode", "thorough"} and len(source) <= vet.CODE_MAX and not isinstance(self.code, BaseException)
        return is_usual and vet.report_nothing(self.code) or json.dumps(
            vet.look(source, self.code, self.vetting).as_object()).encode()

    def run(self):
        """Does not return. Of the interpreter only what the program made is taken down: with large libraries loaded all
        of it would take longer than most programs, and nothing of it is left anyway."""
        code = self.execute()
        endings.run()
        give_up(self.module.__dict__)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                code = code or 120
        if code == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        (leave or os._exit)(code & 0xFF)

    def execute(self):
        global _spare_module
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        if not _spare_module:
            lay_out_module()
        self.module = module = _spare_module
        _spare_module = None
        module.__file__ = self.path
        sys.modules["__main__"] = module
        sys.argv = [self.path, *self.arguments]
        sys.path[0] = os.path.dirname(self.path)
        try:
            if isinstance(self.code, BaseException):
                raise self.code
            if self.evaluate:
                self.evaluate(module)
            else:
                exec(self.code, module.__dict__)
        except SystemExit as error:
            return exit_code(error)
        except BaseException as error:
            if self.evaluate:
                execute.clean(error)  # of what awaits at the top level, too
            if self.evaluate and sys.excepthook is sys.__excepthook__:
                traceback.print_exception(error)  # which finds lines that are in no file
            else:
                show(error)
            return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        return 0


def give_up(variables):
    """As an interpreter does it with its `__main__`: files are closed, and what wants to know of its end is told."""
    for name in list(variables):
        if name != "__builtins__":
            variables[name] = None
    # What a short program made is young; a look at the old clears the interpreter's stores too, in memory not its own yet.
    gc.collect(2 if gc.get_count()[2] else 1)


def rehearse():
    """Runs a small program that is heard nowhere, in all the steps of a real one."""
    script = Script({"path": "/code/main.py", "vet": {"mode": "warn"}}, REHEARSAL)
    script.report()
    interrupt = signal.getsignal(signal.SIGINT)
    module = sys.modules["__main__"]
    arguments, first_path = sys.argv, sys.path[0]
    try:
        unheard(script.execute)
    finally:
        signal.signal(signal.SIGINT, interrupt)
        sys.modules["__main__"] = module
        sys.argv, sys.path[0] = arguments, first_path


def unheard(act):
    heard = os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(nowhere, fd, inheritable=True)
    try:
        act()
    finally:
        for fd, former in zip((1, 2), heard):
            os.dup2(former, fd, inheritable=True)
            os.close(former)
        os.close(nowhere)


REHEARSAL = b"""
import sys
def f(x):
    return [y * 2 for y in x]
class C:
    def __init__(self):
        self.a = {"b": f(range(3))}
try:
    print(C().a, 1.5, f"{3:>4}", sep=", ")
    [][1]
except IndexError as error:
    str(error)
raise SystemExit(0)
"""


MOST = b"""
import sys
def f(x):
    return [y * 2 for y in x]
print({"b": f(range(3))}, 1.5, f"{3:>4}")
"""  # what nearly every program does, and no more: a spare holds the pages of it


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
    error = error.with_traceback(trace)
    try:
        sys.excepthook(type(error), error, trace)
    except BaseException:
        traceback.print_exc()
