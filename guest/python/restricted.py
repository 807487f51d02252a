"""What `restricted` code is run by: RestrictedPython's world, with the code in it.

The host appends a line that calls run() with the code. The code has seen the vetter before, which has refused what
RestrictedPython does not compile, and imports that are not in MODULES. Here is the rest: no open(), no attribute that begins
with an underscore, no module but the views below, and no writing to what is not the code's own.

Theory of operation. RestrictedPython turns every attribute, item and assignment of the code into a call of a guard. The
guards hold only as long as no function in reach takes the name of an attribute, evaluates a text, or writes where it is
told to. So modules are not handed out themselves, but views of them: the names that the module says are public, without
other modules, and without such functions. It is no boundary all the same: the box is around it."""
import string
import sys
import types

MODULES = frozenset(
    "base64 bisect calendar collections collections.abc copy csv dataclasses datetime decimal difflib enum fractions functools "
    "hashlib heapq html html.entities html.parser io itertools json json.decoder json.encoder math numbers operator random re "
    "statistics string struct textwrap time typing unicodedata uuid zlib".split())
# For the interpreter's own use, from C: strptime() and warnings. Such an import comes with a list, one of the code with a tuple.
OWN_IMPORTS = frozenset("_strptime copyreg time warnings".split())
WITHHELD = {  # what takes an attribute's name, runs a text, opens files, starts programs, or writes into modules
    "collections": "UserString",
    "dataclasses": "make_dataclass",
    "enum": "EnumMeta EnumType global_enum global_enum_repr global_flag_repr global_str",
    "functools": "singledispatch singledispatchmethod update_wrapper wraps",
    "io": "FileIO OpenWrapper open open_code",
    "operator": "attrgetter methodcaller",
    "string": "Formatter",
    "typing": "ForwardRef get_type_hints",
    "uuid": "getnode uuid1",
}
MORE_BUILTINS = (
    "all any ascii bytearray classmethod dict enumerate filter format frozenset input iter list map max min next object property "
    "range reversed set staticmethod sum tuple".split())
WRITABLE = frozenset(("array.array", "collections.deque", "decimal.Context"))  # data of libraries, beside dicts and lists
FORMATS = frozenset(("format", "format_map"))


class View:
    """A module as restricted code sees it. It has no name of its own, by which an import would find the module itself."""
    __module__ = "cloche"

    def __repr__(self):
        return "<a module of restricted code>"


views = {}


def view_of(module):
    name = module.__name__
    if name not in views:
        views[name] = view = View()
        withheld = WITHHELD.get(name, "").split()
        for public in getattr(module, "__all__", None) or dir(module):
            value = getattr(module, public, None)
            if not public.startswith("_") and public not in withheld and not isinstance(value, types.ModuleType):
                view.__dict__[public] = value
        if name == "functools":
            view.__dict__["wraps"] = wraps
    return views[name]


def wraps(wrapped):
    """The real one takes names of attributes."""
    def name_it(wrapper):
        for attribute in ("__name__", "__qualname__", "__doc__"):
            if isinstance(wrapper, types.FunctionType) and hasattr(wrapped, attribute):
                setattr(wrapper, attribute, getattr(wrapped, attribute))
        return wrapper
    return name_it


def guarded_import(name, given_globals=None, given_locals=None, fromlist=(), level=0):
    if type(fromlist) is list and name in OWN_IMPORTS:
        return __import__(name)
    if level or name not in MODULES:
        raise ImportError(f"restricted code may not import {name}")
    __import__(name)
    view = view_of(sys.modules[name])
    for wanted in fromlist or ():
        below = f"{name}.{wanted}"
        if below in MODULES:
            __import__(below)
            view.__dict__[wanted] = view_of(sys.modules[below])
    parent, _, own = name.rpartition(".")
    if not parent:
        return view
    top = view_of(sys.modules[parent])
    top.__dict__[own] = view
    return view if fromlist else top


class Formatter(string.Formatter):
    """str.format, whose fields get at no more than code does."""
    __module__ = "cloche"

    def get_field(self, field_name, args, kwargs):
        first, rest = __import__("_string").formatter_field_name_split(field_name)
        value = self.get_value(first, args, kwargs)
        for is_attribute, name in rest:
            value = guarded_getattr(value, name) if is_attribute else value[name]
        return value, first


def formatting(text, name):
    def format_map(template, mapping):
        return Formatter().vformat(template, (), mapping)

    def format(template, /, *values, **named):
        return Formatter().vformat(template, values, named)
    method = format_map if name == "format_map" else format
    return method if isinstance(text, type) else types.MethodType(method, text)


NOTHING = object()


def guarded_getattr(value, name, default=NOTHING):
    from RestrictedPython.Guards import safer_getattr
    if type(name) is str and name in FORMATS and (isinstance(value, str) or (isinstance(value, type) and issubclass(value, str))):
        return formatting(value, name)
    found = safer_getattr(value, name, default)
    if found is NOTHING:
        return getattr(value, name)  # for its error; a name with an underscore has not come here
    if isinstance(found, types.ModuleType):
        raise AttributeError(f"restricted code may not get at the module {name} in this way")
    return found


def guarded_hasattr(value, name):
    try:
        guarded_getattr(value, name)
    except (AttributeError, NotImplementedError):
        return False
    return True


def is_own(value):
    """A class of the code's, or an instance of one: they say that they come from where it runs."""
    kind = value if isinstance(value, type) else type(value)
    return getattr(kind, "__module__", None) == "__main__"


def guarded_write(value):
    kind = type(value)
    if is_own(value) or isinstance(value, (dict, list, bytearray)) or f"{kind.__module__}.{kind.__qualname__}" in WRITABLE:
        return value
    raise TypeError(f"restricted code may not change a {type(value).__name__}")


def check_name(name):
    if type(name) is not str or name.startswith("_"):
        raise AttributeError(f"restricted code may not change the attribute {name!r}")


def guarded_setattr(value, name, new):
    check_name(name)
    setattr(guarded_write(value), name, new)


def guarded_delattr(value, name):
    check_name(name)
    delattr(guarded_write(value), name)


def type_of(value):
    if isinstance(value, type):  # the type of a type makes classes with any names in them
        raise TypeError("restricted code may not ask for the type of a class")
    return type(value)


def apply(function, *values, **named):
    return function(*values, **named)


class Printer:
    """RestrictedPython collects what is printed; here it goes where print() puts it."""
    __module__ = "cloche"

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
    from RestrictedPython.Guards import guarded_iter_unpack_sequence, guarded_unpack_sequence
    names = {**safe_builtins, **limited_builtins}
    names.update((name, utility_builtins[name]) for name in ("same_type", "test", "reorder") if name in utility_builtins)
    names.update((name, getattr(builtins, name)) for name in MORE_BUILTINS if hasattr(builtins, name))
    names.update(__import__=guarded_import, _getattr_=guarded_getattr, getattr=guarded_getattr, hasattr=guarded_hasattr,
                 setattr=guarded_setattr, delattr=guarded_delattr, type=type_of)
    return {"__builtins__": names, "__name__": "__main__", "__file__": path, "__metaclass__": type, "_print_": Printer,
            "_getattr_": guarded_getattr, "_getitem_": default_guarded_getitem, "_getiter_": default_guarded_getiter,
            "_iter_unpack_sequence_": guarded_iter_unpack_sequence, "_unpack_sequence_": guarded_unpack_sequence,
            "_write_": guarded_write, "_inplacevar_": in_place, "_apply_": apply}


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
