"""What `restricted` code is run by: RestrictedPython's world, with the code in it.

The host appends a line that calls run() with the code. The code has seen the vetter before. It cannot import but what is
without effects, gets at no attribute that begins with an underscore, and has no open(). That is RestrictedPython's promise,
not ours: the box is around it all the same."""
import sys

MODULES = frozenset(
    "base64 bisect calendar collections copy csv dataclasses datetime decimal difflib enum fractions functools hashlib heapq "
    "html io itertools json math numbers operator random re statistics string struct textwrap time typing unicodedata uuid "
    "zlib".split())
MORE_BUILTINS = "all any ascii bytearray dict enumerate filter frozenset iter list map max min next object reversed set sum".split()


def guarded_import(name, given_globals=None, given_locals=None, fromlist=(), level=0):
    if level or name.split(".")[0] not in MODULES:
        raise ImportError(f"restricted code may not import {name}")
    return __import__(name, given_globals, given_locals, fromlist, level)


class Printer:
    """RestrictedPython collects what is printed; here it goes where print() puts it."""

    def __init__(self, _getattr_=None):
        pass

    def _call_print(self, *objects, **options):
        options.pop("file", None)
        print(*objects, **options)


def in_place(operation, value, other):
    import operator
    return getattr(operator, IN_PLACE[operation])(value, other)


IN_PLACE = {"+=": "iadd", "-=": "isub", "*=": "imul", "/=": "itruediv", "//=": "ifloordiv", "%=": "imod", "**=": "ipow",
            "<<=": "ilshift", ">>=": "irshift", "|=": "ior", "^=": "ixor", "&=": "iand", "@=": "imatmul"}


def world(path):
    import builtins
    from RestrictedPython import limited_builtins, safe_builtins, utility_builtins
    from RestrictedPython.Eval import default_guarded_getitem, default_guarded_getiter
    from RestrictedPython.Guards import full_write_guard, guarded_iter_unpack_sequence, guarded_unpack_sequence, safer_getattr
    names = {**safe_builtins, **limited_builtins, **utility_builtins, "__import__": guarded_import}
    names.update((name, getattr(builtins, name)) for name in MORE_BUILTINS if hasattr(builtins, name))
    return {"__builtins__": names, "__name__": "__main__", "__file__": path, "__metaclass__": type, "_print_": Printer,
            "_getattr_": safer_getattr, "_getitem_": default_guarded_getitem, "_getiter_": default_guarded_getiter,
            "_iter_unpack_sequence_": guarded_iter_unpack_sequence, "_unpack_sequence_": guarded_unpack_sequence,
            "_write_": full_write_guard, "_inplacevar_": in_place}


def run(source, path):
    from RestrictedPython import compile_restricted_exec
    compiled = compile_restricted_exec(source.decode("utf-8"), path)
    if compiled.errors:
        sys.exit("\n".join(compiled.errors))
    try:
        exec(compiled.code, world(path))
    except Exception as error:
        import linecache
        import traceback
        text = source.decode("utf-8")
        linecache.cache[path] = (len(text), None, text.splitlines(True), path)  # it is in no file
        traceback.print_exception(type(error), error, error.__traceback__.tb_next)
        sys.exit(1)
