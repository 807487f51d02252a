"""One run in a context: compile, execute, and say how it ended."""
import ast
import asyncio
import builtins
import inspect
import linecache
import os
import sys
import traceback

from .surroundings import Refused

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))
TRACEBACK_MAX = 100_000
FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class Namespace:
    """The variables of a context, which are those of its __main__."""

    def __init__(self):
        import types
        self.module = types.ModuleType("__main__")
        self.variables = self.module.__dict__
        self.variables["__builtins__"] = builtins
        self.loop = None
        sys.modules["__main__"] = self.module

    def wait_for(self, coroutine):
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(coroutine)

    def check_idle(self):
        """A copy has a loop of its own: what waits in this one would wait there for ever."""
        if self.loop is None or self.loop.is_closed():
            return
        tasks = [task.get_name() for task in asyncio.all_tasks(self.loop)]
        if tasks:
            raise Refused(f"{len(tasks)} tasks of asyncio are pending: {', '.join(tasks[:5])}; await or cancel them first")
        calls = [repr(call) for call in getattr(self.loop, "_scheduled", ()) if not call.cancelled()]
        if calls:
            raise Refused(f"calls of asyncio are pending: {', '.join(calls[:5])}; cancel them first")

    def leave_loop(self):
        """In a copy: what the loop was made of is not there."""
        loop, self.loop = self.loop, None
        if loop is not None and not loop.is_closed():
            loop.close()

    def evaluate(self, code):
        value = eval(code, self.variables)
        return self.wait_for(value) if inspect.iscoroutine(value) and code.co_flags & inspect.CO_COROUTINE else value


def remember_source(name, source):
    """So that tracebacks and inspect find the lines of code that is in no file."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)


def split_last_expression(tree):
    """Statements, and the expression at the end whose value is the result; a semicolon behind it asks for silence."""
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        return tree.body[:-1], ast.Expression(tree.body[-1].value)
    return tree.body, None


def ends_with_semicolon(source):
    import io
    import tokenize
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.DEDENT)
    try:
        tokens = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type not in skipped]
    except (tokenize.TokenError, SyntaxError):
        return False
    return bool(tokens) and tokens[-1].string == ";"


def completeness(source):
    """Of what was typed so far: complete, incomplete (ask for another line), or invalid (run it, and see why)."""
    import codeop
    import warnings
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = codeop.compile_command(source, "<input>", "exec")
    except (SyntaxError, OverflowError, ValueError):
        return "invalid"
    last = source.rsplit("\n", 1)[-1]
    is_inside_a_block = last[:1].isspace() and last.strip()  # only an empty line ends it
    return "incomplete" if compiled is None or is_inside_a_block else "complete"


def run(namespace, source, name):
    """Executes the source; returns the value of its last expression, or None."""
    remember_source(name, source)
    tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | FLAGS, dont_inherit=True)
    statements, last = split_last_expression(tree)
    if statements:
        module = ast.Module(statements, tree.type_ignores)
        namespace.evaluate(compile(module, name, "exec", FLAGS, dont_inherit=True))
    if last is None:
        return None
    value = namespace.evaluate(compile(last, name, "eval", FLAGS, dont_inherit=True))
    if value is not None:
        namespace.variables["_"] = value
    return None if ends_with_semicolon(source) else value


def is_own(frame):
    return os.path.dirname(os.path.abspath(frame.tb_frame.f_code.co_filename)) == OWN_FOLDER


def without_own_frames(trace):
    """Our frames stand at the beginning of a traceback, and at its end where input() or display() failed."""
    while trace is not None and is_own(trace):
        trace = trace.tb_next
    first = last = trace
    while last is not None and last.tb_next is not None:
        if all(is_own(frame) for frame in frames_from(last.tb_next)):
            last.tb_next = None
            break
        last = last.tb_next
    return first


def frames_from(trace):
    while trace is not None:
        yield trace
        trace = trace.tb_next


def clean(error, seen=None):
    """Hides our frames in an exception and in all that led to it."""
    seen = seen if seen is not None else set()
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    error.__traceback__ = without_own_frames(error.__traceback__)
    clean(error.__cause__, seen)
    clean(error.__context__, seen)


def describe(error):
    """Name, value and traceback as text."""
    clean(error)
    try:
        value = str(error)
    except Exception:
        value = "<its text cannot be made>"
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        text = f"{type(error).__name__}: {value}\n"
    if len(text) > TRACEBACK_MAX:
        text = text[:TRACEBACK_MAX // 2] + "\n …\n" + text[-TRACEBACK_MAX // 2:]
    return {"name": type(error).__name__, "value": value[:TRACEBACK_MAX], "traceback": text}
