"""One run in a context: compile, execute, and say how it ended."""
import __future__
import ast
import asyncio
import builtins
import inspect
import json
import linecache
import os
import re
import sys
import traceback
import warnings

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))
LOOP_FOLDER = os.path.dirname(os.path.abspath(asyncio.__file__))
TRACEBACK_MAX = 100_000
NAME_MAX = 1000
DESCRIPTION_BYTES_MAX = 400_000  # of a value or traceback as JSON: both go into one header
FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class Refused(Exception):
    """What cannot be forked, by name."""


class Namespace:
    """The variables of a context, which are those of its __main__; and the loop of asyncio that its code finds.

    What awaits runs in that loop. All else runs outside of it, so that `asyncio.run()` works as in a program; but for what asks
    for a loop that runs (`create_task` …), which runs inside of it, as in a notebook."""

    def __init__(self):
        import types
        self.module = types.ModuleType("__main__")
        self.variables = self.module.__dict__
        self.variables["__builtins__"] = builtins
        self.loop = None
        self.flags = FLAGS  # of the compiler; from __future__ adds to them
        sys.modules["__main__"] = self.module

    def move_to(self, module):
        self.module, self.variables = module, module.__dict__

    def offer_loop(self):
        """What code makes for later (`ensure_future`, `gather`, a Future) belongs to the loop that it will be awaited in."""
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)  # asyncio.run() takes it away

    def wait_for(self, coroutine):
        self.offer_loop()
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
        if self.loop and needs_running_loop(code, self.variables):
            return self.wait_for(self.evaluate_inside(code))
        value = eval(code, self.variables)
        return self.wait_for(value) if inspect.iscoroutine(value) and code.co_flags & inspect.CO_COROUTINE else value

    async def evaluate_inside(self, code):
        return eval(code, self.variables)


RUNNING_LOOP = {"create_task", "get_running_loop", "current_task", "all_tasks", "timeout", "timeout_at", "to_thread"}
OWN_LOOP = {"run", "run_until_complete", "Runner"}
ASYNC_WORDS = re.compile(r"\b(await|async|asyncio)\b")


def needs_running_loop(code, variables):
    """By the names that stand in it and in functions that it may call, not in those that it defines. What awaits has one, and
    what runs a loop of its own wants none around it."""
    if code.co_flags & inspect.CO_COROUTINE:
        return False
    called = [getattr(variables.get(name), "__code__", code) for name in code.co_names]
    names = {name for each in (code, *called) if not each.co_flags & inspect.CO_COROUTINE for name in each.co_names}
    return not RUNNING_LOOP.isdisjoint(names) and OWN_LOOP.isdisjoint(names)


def remember_source(name, source):
    """So that tracebacks and inspect find the lines of code that is in no file. All have an end, as those of files: where
    an error is marked below a line, Python counts on it. Returns them without."""
    lines = re.split("\r\n?|\n", source)
    linecache.cache[name] = (len(source), None, [line + "\n" for line in lines], name)
    return lines


def pieces(tree, lines, typed):
    """(statements, expression) one after the other: the value of the expression is shown. That is the last, or with `typed`
    every one at the top level, as Python's own prompt does it; a semicolon behind it asks for silence."""
    statements = []
    for node in tree.body:
        if isinstance(node, ast.Expr) and (node is tree.body[-1] or typed and not (node is tree.body[0] and is_text(node))):
            yield statements, node.value, not has_semicolon(node, lines)
            statements = []
        else:
            statements.append(node)
    if statements:
        yield statements, None, False


def is_text(node):
    """At the head of a file it is what the file says of itself."""
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def future_flags(tree):
    """What `from __future__ import …` asks the compiler for: pieces are compiled one by one, and it is for all."""
    names = [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__" for alias in node.names]
    return sum({getattr(__future__, name).compiler_flag for name in names if hasattr(__future__, name)})


def compile_pieces(namespace, source, name, lines, typed):
    """All before any is executed: what cannot be compiled is not run by half. Where there may be something to await, one
    statement after the other: it is for each to be inside of the loop or not."""
    tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | FLAGS, dont_inherit=True)
    namespace.flags |= future_flags(tree)
    is_apart = ASYNC_WORDS.search(source)
    made = []
    for statements, expression, is_shown in pieces(tree, lines, typed):
        for group in [[statement] for statement in statements] if is_apart else [statements] if statements else []:
            made.append((compile(ast.Module(group, tree.type_ignores), name, "exec", namespace.flags, dont_inherit=True), None, False))
        if expression:
            made.append((None, compile(ast.Expression(expression), name, "eval", namespace.flags, dont_inherit=True), is_shown))
    return made


def has_semicolon(node, lines):
    line = lines[node.end_lineno - 1].encode()  # columns are counted in bytes
    return line[node.end_col_offset:].lstrip().startswith(b";")


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


def run(namespace, source, name, typed=False, show=lambda value: None):
    """Executes the source, and shows the values of its expressions, where they have one."""
    lines = remember_source(name, source)
    namespace.variables.pop("__warningregistry__", None)  # lines of another run have the same numbers
    if "asyncio" in source or namespace.loop:
        namespace.offer_loop()
    for statements, expression, is_shown in compile_pieces(namespace, source, name, lines, typed):
        if statements:
            namespace.evaluate(statements)
        value = namespace.evaluate(expression) if expression else None
        if value is not None:
            namespace.variables["_"] = value
            if is_shown:
                show(value)


def warner(warn, variables):
    """warnings.warn for code that may believe that somebody has called it (`stacklevel`): above its own outermost frame are
    ours, which must neither be named nor remember that it has warned already."""
    def warn_user(message, category=None, stacklevel=1, source=None, **options):
        frame, depth, outermost = sys._getframe(1), 1, 0
        while frame is not None and depth <= stacklevel:
            if in_folder(frame, OWN_FOLDER):
                if not outermost:  # it is in none of its lines, as of a coroutine that nobody awaited
                    warnings.warn_explicit(message, category or UserWarning, "<run>", 0, source=source)
                    return
                stacklevel = outermost or stacklevel
                break
            if frame.f_globals is variables:
                outermost = depth
            frame, depth = frame.f_back, depth + 1
        warn(message, category, 1 + stacklevel, source, **options)
    return warn_user


def text_of(value):
    try:
        return str(value)
    except Exception:
        return "<its text cannot be made>"


def in_folder(frame, folder):
    return os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == folder


def is_own(trace):
    return in_folder(trace.tb_frame, OWN_FOLDER)


def without_own_frames(trace):
    """Our frames stand at the beginning of a traceback, with those of the event loop behind them, and at its end where
    input() or display() failed."""
    while trace is not None and is_own(trace):
        trace = trace.tb_next
        while trace is not None and in_folder(trace.tb_frame, LOOP_FOLDER):
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


def shortened(text, most):
    """To so many bytes of JSON, by what stands in the middle."""
    while (length := len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace"))) > most:
        keep = min(len(text) * most // length, len(text) - 2) // 2
        text = text[:keep] + "…" + text[len(text) - keep:]
    return text


def describe(error):
    """Name, value and traceback as text."""
    clean(error)
    value = text_of(error)
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        text = f"{type(error).__name__}: {value}\n"
    if len(text) > TRACEBACK_MAX:
        text = text[:TRACEBACK_MAX // 2] + "\n …\n" + text[-TRACEBACK_MAX // 2:]
    return {"name": shortened(str(type(error).__name__)[:NAME_MAX], NAME_MAX), "value": shortened(value[:TRACEBACK_MAX], DESCRIPTION_BYTES_MAX),
            "traceback": shortened(text, DESCRIPTION_BYTES_MAX)}
