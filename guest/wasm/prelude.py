# Python, and with it SQL, in the wasm engine: what it has done before its memory is kept (setup/wasm/snapshot), and how each run goes on from there.
import abc, atexit, bisect, builtins, calendar, collections, collections.abc, copy, csv, dataclasses, datetime, decimal, enum, fractions
import functools, gc, heapq, io, itertools, json, math, numbers, operator, os, pprint, random, re, statistics, string, struct, sys
import textwrap, time, traceback, types, typing
from importlib.machinery import SourceFileLoader


def give(words):
    """Arguments and environment of this run."""
    count = int(words[0])
    sys.orig_argv = words[1 : count + 1]
    sys.argv = [*sys.orig_argv]
    while not sys.argv[0].startswith("/code/"):  # the interpreter and its options
        del sys.argv[0]
    for entry in words[count + 1 : -1]:
        name, _, value = entry.partition("=")
        os.environ[name] = value
    try:
        os.chdir(os.environ["PWD"])
    except (KeyError, OSError):  # where the program was told another
        pass
    random.seed()  # what it has seeded itself with is in the memory that every run begins with


def tell(failure, trace):
    """As the interpreter itself does it, without our own frame."""
    failure.__traceback__ = trace
    try:
        sys.excepthook(type(failure), failure, trace)
    except BaseException as second:
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(second), second, second.__traceback__.tb_next)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(failure), failure, trace)


def exit_code(end):
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def execute(path, names):
    """The exit status."""
    try:
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    except Exception as failure:
        tell(failure, None)
        return 1
    try:
        exec(code, names)
    except SystemExit as end:
        return exit_code(end)
    except BaseException as failure:
        tell(failure, failure.__traceback__.tb_next)
        return 1
    return 0


def statements(text, is_complete):
    begin = 0
    for end in re.finditer(";", text):  # one in a text or a trigger completes nothing
        if is_complete(text[begin : end.end()]):
            yield begin, text[begin : end.end()]
            begin = end.end()
    if text[begin:].strip():
        yield begin, text[begin:]


def execute_sql(path):
    """In a database in memory, or in the file that is the first argument; rows as SQLite's own shell shows them. The exit status."""
    import sqlite3
    with open(path, encoding="utf-8") as file:
        text = file.read()
    begin = 0
    try:
        database = sqlite3.connect(sys.argv[1] if len(sys.argv) > 1 else ":memory:", isolation_level=None)
        for begin, statement in statements(text, sqlite3.complete_statement):
            for row in database.execute(statement):
                print(*("" if value is None else value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row), sep="|")
        database.close()
    except (sqlite3.Error, sqlite3.Warning) as failure:
        line = text.count("\n", 0, begin + len(text[begin:]) - len(text[begin:].lstrip())) + 1
        print(f"{path}:{line}: {failure}", file=sys.stderr)
        return 1
    return 0


def let_go(names):
    """What the code still holds ends as in any interpreter: files are written out, finalizers called."""
    for is_private in (True, False):
        for name in [*names]:
            if name != "__builtins__" and (name.startswith("_") and not name.startswith("__")) == is_private:
                names[name] = None
    gc.collect()


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, ValueError):  # there is none, or it is closed
            pass


def start(order):
    give(order.decode("utf-8", "surrogateescape").split("\0"))
    main = sys.modules["__main__"]
    names = main.__dict__
    names.clear()
    names.update(__name__="__main__", __doc__=None, __package__=None, __loader__=SourceFileLoader("__main__", sys.argv[0]), __spec__=None,
                 __annotations__={}, __builtins__=builtins, __file__=sys.argv[0], __cached__=None)
    code = execute_sql(sys.argv[0]) if sys.argv[0].endswith(".sql") else execute(sys.argv[0], names)
    try:
        atexit._run_exitfuncs()
        flush()
        let_go(names)
        flush()
    except BaseException as failure:
        tell(failure, None)
        code = 120
    os._exit(code)  # the rest of the interpreter goes with its memory


# This build has times() for it, whose unit it takes for another, and which counts from the time of the snapshot.
time.process_time, time.process_time_ns = time.perf_counter, time.perf_counter_ns
os.environ.clear()
gc.collect()
gc.freeze()  # a collection has only what the run itself has made to look at
os.write(2, b"%d" % id(start))  # says where to call, and
time.clock_getres(time.CLOCK_MONOTONIC)  # is where the snapshot is taken: this call does not come back
