"""The first filter: what a program would do, told from its syntax before a line of it runs.

    python3 -I ARCHIVE < (one line of JSON: the order, then the code)        a report on stdout, as JSON

Theory of operation. The words of a program (names, modules, texts) stand in its compiled form, which is made anyway: if
none of them is a word of a rule, there is nothing to find, and that is most programs. Otherwise the syntax tree says where
and how a word is used: all of it where something hangs on it (`thorough`), else only the statements that the words stand in.

A finding is a `warning`, for which code is blocked, or a `note`, which only tells: of what is sure to fail, or of what most
programs do for good reasons.

This is no boundary. Python can build any name at run time, and no reading of it can tell all of them: what holds is the
box. So findings inform, and stop what is plainly not wanted; docs/vet.md says what gets past."""
import re
import sys

from .vet_names import below, own_uses
from .vet_needs import PARTS, Needs

ONLY_TREE = 0x400  # ast.PyCF_ONLY_AST; the tree comes from the interpreter itself, the module is not needed for it
CODE_MAX = 512 << 10  # larger code is not looked at, and says so
FINDINGS_MAX = 50
NAMES_MAX = 100

TOPICS = {
    "network": ("needs the network, which a box does not have",
                "give the data as an input file, which is read from /data/input"),
    "processes": ("starts other programs",
                  "do it in Python itself: pathlib, shutil, zipfile and the like need no program"),
    "memory": ("reaches memory past the language", "use plain Python or numpy"),
    "execution": ("runs code that is not there to be read", "write the code itself, or a function for each case"),
    "installation": ("installs packages, which needs the network", "use a package that the image has"),
}

MODULES = {  # that are found by default, by topic
    "network": "socket socketserver ssl asyncore asynchat requests httpx aiohttp urllib.request urllib3 http.client "
               "http.server ftplib smtplib poplib imaplib nntplib telnetlib xmlrpc websocket websockets paramiko pycurl "
               "grpc boto3 botocore _socket _ssl",
    "processes": "subprocess pty pexpect _posixsubprocess posix",
    "memory": "ctypes cffi _ctypes _cffi_backend",
    "execution": "builtins code codeop runpy marshal imp",
    "installation": "pip ensurepip",
}

CALLS = {
    "execution": "eval exec compile __import__ breakpoint",
    "processes": "os.system os.popen os.fork os.forkpty os.posix_spawn os.posix_spawnp os.kill os.killpg "
                 "os.execl os.execle os.execlp os.execlpe os.execv os.execve os.execvp os.execvpe "
                 "os.spawnl os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve os.spawnvp os.spawnvpe "
                 "asyncio.create_subprocess_exec asyncio.create_subprocess_shell",
    "memory": "sys._getframe sys.settrace sys.setprofile",
}

ATTRIBUTES = frozenset(
    "__class__ __base__ __bases__ __mro__ __subclasses__ __globals__ __builtins__ __code__ __closure__ __getattribute__ "
    "__reduce__ __reduce_ex__ __self__ __loader__ __import__ f_globals f_locals f_builtins f_back f_code gi_frame gi_code "
    "cr_frame cr_code ag_frame ag_code tb_frame tb_next".split())
TEXT_MARKS = ("__", "f_", "_frame", "_code")  # one of them is in every attribute's name, but for one
IN_TEXT = re.compile(r"(?<!\w)(?:%s)(?!\w)" % "|".join(sorted(ATTRIBUTES)))
IN_FIELD = re.compile(r"\{[^{}]*\.(?:%s)(?!\w)" % "|".join(sorted(ATTRIBUTES)))  # of str.format
BY_NAME = frozenset(("getattr", "setattr", "delattr"))
GETTERS = BY_NAME | {"hasattr", "attrgetter", "methodcaller", "__getattribute__"}
IMPORTERS = frozenset(("importlib.import_module", "importlib.__import__", "importlib.util.find_spec"))
FETCHES = frozenset("get post put patch delete head options request stream urlopen urlretrieve".split())  # of network modules
URL = re.compile(r"\b(?:https?|wss?|ftp)://([A-Za-z0-9.-]{1,253})")

# For those who choose where it runs: code that uses nothing else has no effect but its output.
PURE = frozenset(
    "abc array base64 binascii bisect calendar cmath collections colorsys contextlib copy csv dataclasses datetime decimal "
    "difflib enum fractions functools graphlib hashlib heapq html io itertools json keyword math numbers operator pprint "
    "random re secrets statistics string struct textwrap time types typing unicodedata uuid zlib __future__".split())
FILE_MODULES = frozenset("pathlib shutil tempfile glob fileinput sqlite3 zipfile tarfile gzip bz2 lzma shelve dbm".split())
FILE_WORDS = frozenset(
    "open read_csv read_excel read_json read_parquet read_table to_csv to_excel to_json to_parquet savefig imread imsave "
    "listdir scandir walk makedirs mkdir remove unlink rename rmdir read_text write_text read_bytes write_bytes".split())
PROCESS_MODULES = frozenset("subprocess pty pexpect multiprocessing concurrent.futures".split())


def by_name(table):
    return {name: topic for topic, names in table.items() for name in names.split()}


class Policy:
    """What is looked for: the tables above, changed by what the operator says."""

    def __init__(self, order):
        self.modules, self.calls = by_name(MODULES), by_name(CALLS)
        for name in order.get("allow_modules", ()):
            self.modules = {own: topic for own, topic in self.modules.items()
                            if own != name and not own.startswith(name + ".")}
        for name in order.get("allow_calls", ()):
            self.calls.pop(name, None)
        self.modules.update((name, None) for name in order.get("block_modules", ()))
        self.calls.update((name, None) for name in order.get("block_calls", ()))
        self.only = frozenset(order.get("only_modules", ()))
        self.owners = {name.split(".")[0] for name in (*self.calls, *IMPORTERS) if "." in name} | {"builtins"}
        self.parents = {name.rsplit(".", 1)[0] for name in self.modules if "." in name}
        self.words = (ATTRIBUTES | BY_NAME | {name.rsplit(".", 1)[-1] for name in (*self.calls, *IMPORTERS)} | {"modules"})

    def module_topic(self, name):
        """(topic,) of a module that is not wanted, or of the package that it is in; None: it is fine."""
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            own = ".".join(parts[:length])
            if own in self.modules:
                return (self.modules[own],)
        if self.only and parts[0] not in self.only and name not in self.only:
            return (None,)
        return None


USUAL = Policy({})


class Report:
    def __init__(self):
        self.findings = []
        self.facts = {"imports": [], "missing": [], "network": [], "processes": [], "files": [], "pure": False}

    def add(self, line, column, rule, message, advice, severity="warning"):
        self.findings.append((line, column, rule, message[:250], advice[:250], severity))

    def as_object(self):
        found = sorted(set(self.findings))
        names = ("line", "column", "rule", "message", "advice", "severity")
        # Warnings first: where none is among those that are told, there is none.
        told = sorted(sorted(found, key=lambda finding: finding[5] == "note")[:FINDINGS_MAX])
        report = {"findings": [dict(zip(names, finding)) for finding in told], "facts": self.facts}
        if len(found) > FINDINGS_MAX:
            report["more"] = len(found) - FINDINGS_MAX
        return report


# ---- the compiled form

def opcode_number(name):
    try:
        import opcode
        return opcode.opmap[name]
    except (ImportError, KeyError):
        return None


IMPORT_NAME, EXTENDED_ARG = opcode_number("IMPORT_NAME"), opcode_number("EXTENDED_ARG")


def imported(code):
    raw, names = code.co_code, code.co_names
    at = raw.find(IMPORT_NAME)
    while at >= 0:
        if not at & 1:
            index, back, shift = raw[at + 1], at - 2, 8
            while back >= 0 and raw[back] == EXTENDED_ARG:
                index |= raw[back + 1] << shift
                back, shift = back - 2, shift + 8
            yield names[index]
        at = raw.find(IMPORT_NAME, at + 1)


class Words:
    """All that a program says: names, modules that it imports, and texts."""

    def __init__(self, code):
        self.names, self.modules, self.texts = set(), {}, []
        stack = [code]
        while stack:
            code = stack.pop()
            self.names.update(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
            for name in imported(code):
                self.modules[name] = True
            self.take_constants(code.co_consts, stack)

    def take_constants(self, constants, stack):
        for constant in constants:
            kind = type(constant)
            if kind is str:
                self.texts.append(constant)
            elif kind is tuple or kind is frozenset:
                self.take_constants(constant, stack)
            elif hasattr(constant, "co_consts"):
                stack.append(constant)


def triggers(words, policy):
    """The words of the program that a rule is about, as they stand in its text. A superset of what the tree may tell."""
    found = words.names & policy.words
    has_star = "*" in words.texts  # as the list of an import from
    for module in words.modules:
        parts = module.split(".")
        if policy.module_topic(module):
            found.add(parts[0])
        elif policy.only or module in policy.parents:
            found.add(parts[0])  # from urllib import request
        if has_star and parts[0] in STARS:
            found.add(parts[0])
    for text in words.texts:
        if any(mark in text for mark in TEXT_MARKS):
            found.update(IN_TEXT.findall(text))
    if any(URL.match(text) for text in words.texts if "://" in text):
        is_networked = any(USUAL.module_topic(module) == ("network",) for module in words.modules)
        found.update(name for name in words.names if name.startswith("read_") or (is_networked and name in FETCHES))
    return found


STARS = frozenset(("os", "sys", "importlib", "asyncio"))  # from os import *


def gather_facts(words, findings_possible, facts):
    modules = [name for name in words.modules if name]
    tops = dict.fromkeys(name.split(".")[0] for name in modules)
    network = [name for name in modules if (USUAL.module_topic(name) or ("",))[0] == "network"]
    for text in words.texts:
        if "://" in text:
            network.extend(URL.findall(text))
    processes = [name for name in modules if name in PROCESS_MODULES or name.split(".")[0] in PROCESS_MODULES]
    if "os" in tops:
        processes.extend(f"os.{name}" for name in sorted(words.names & OS_PROCESSES))
    files = [name for name in tops if name in FILE_MODULES] + sorted(words.names & FILE_WORDS)
    facts["imports"] = list(tops)[:NAMES_MAX]
    facts["network"] = list(dict.fromkeys(network))[:NAMES_MAX]
    facts["processes"] = processes[:NAMES_MAX]
    facts["files"] = files[:NAMES_MAX]
    facts["pure"] = not (findings_possible or network or processes or files) and all(name in PURE for name in tops)


OS_PROCESSES = frozenset(name.split(".")[1] for name in CALLS["processes"].split() if name.startswith("os."))


# A program that says none of these has nothing to be found, and no facts but its imports.
WORDS_OF_NOTE = frozenset(USUAL.words | FILE_WORDS | OS_PROCESSES)
MODULES_OF_NOTE = frozenset({name.split(".")[0] for name in USUAL.modules} | FILE_MODULES | PROCESS_MODULES | {"concurrent"})


def report_nothing(code):
    """The report on most programs as JSON, with hardly any work: in a box that has waited no memory is in a cache, and what
    takes 10 µs elsewhere takes 150. None: there may be something to say."""
    codes, imports = [code], {}
    for code in codes:
        for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
            if not WORDS_OF_NOTE.isdisjoint(names):
                return None
        for constant in code.co_consts:
            kind = type(constant)
            if kind is str:
                if "_" in constant and any(mark in constant for mark in TEXT_MARKS) or "://" in constant:
                    return None
            elif kind is tuple:  # what is imported from a module, names of arguments, data
                if not all(type(item) is str and "_" not in item and ":" not in item and item != "*" for item in constant):
                    return None
            elif kind is frozenset:
                return None
            elif hasattr(constant, "co_consts"):
                codes.append(constant)
        if IMPORT_NAME in code.co_code:
            for name in imported(code):
                top = name.split(".")[0]
                if top in MODULES_OF_NOTE or not top.isascii() or (top not in sys.modules and is_missing(top)):
                    return None
                if top:
                    imports[top] = True
    if len(imports) > NAMES_MAX:
        return None
    names = '"' + '","'.join(imports) + '"' if imports else ""
    pure = "true" if PURE.issuperset(imports) else "false"
    return f'{{"findings":[],"facts":{{"imports":[{names}],"missing":[],"network":[],"processes":[],"files":[],"pure":{pure}}}}}'.encode()


def is_missing(name):
    """A package that the image does not have. Nothing is imported to find out."""
    if name in sys.modules or name in sys.builtin_module_names or name in getattr(sys, "stdlib_module_names", ()):
        return False
    import importlib.util
    try:
        return importlib.util.find_spec(name) is None
    except (ImportError, ValueError, AttributeError):
        return False


# What Python for wasm lacks of the standard library; it has nothing else. A test asks it.
WASM_LACKS = frozenset(
    "ctypes curses ensurepip fcntl grp lib2to3 lzma mmap msilib msvcrt multiprocessing nis nt ossaudiodev pty pwd pydoc_data readline "
    "resource rlcompleter spwd ssl syslog termios tkinter tty turtle uu venv webbrowser winreg winsound xdrlib".split())


def is_missing_in_wasm(name):
    return name in WASM_LACKS or name not in sys.stdlib_module_names


# ---- the tree

class Reader:
    """Walks trees, and applies the rules."""

    def __init__(self, policy, report, lines):
        self.policy, self.report, self.lines = policy, report, lines
        self.aliases = {}  # name in the program: module, or module.name
        self.seen = set()  # words of rules that were met
        self.interesting = []
        self.texts = []  # nodes of texts that name an attribute
        self.own = frozenset()  # nodes of names that the program itself has given
        self.gives_names = False  # that are words of rules: most programs give none
        self.built = []  # (node, name of the call) of attributes whose names are made at run time
        self.is_renamed = False  # something has a name that the words do not tell

    def column(self, line, offset):
        """Trees count bytes; people count characters."""
        try:
            return len(self.lines[line - 1].encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "replace")) + 1
        except IndexError:
            return offset + 1

    def add(self, node, rule, message, advice, severity="warning"):
        self.report.add(node.lineno, self.column(node.lineno, node.col_offset), rule, message, advice, severity)

    def add_attribute(self, node, message, advice):
        offset = max(node.end_col_offset - len(node.attr.encode()), 0)
        self.report.add(node.end_lineno, self.column(node.end_lineno, offset), "attribute", message, advice)

    def walk(self, tree):
        self.tree = tree
        stack = [tree]
        words = self.policy.words
        while stack:
            node = stack.pop()
            kind = type(node).__name__
            if kind == "Import" or kind == "ImportFrom":
                self.take_import(node, kind)
                continue
            if kind == "Name":
                if node.id in words:
                    self.interesting.append(node)
                    self.gives_names = self.gives_names or type(node.ctx).__name__ == "Store"
                continue
            if kind == "Constant":
                if type(node.value) is str:
                    self.take_text(node)
                continue
            if kind == "Attribute":
                if node.attr in words:
                    self.interesting.append(node)
            elif kind == "Call" or kind == "Subscript":
                self.interesting.append(node)
            elif kind == "Expr" and type(node.value).__name__ == "Constant":
                continue  # a documentation string, or nothing at all
            elif kind == "FunctionDef" or kind == "ClassDef" or kind == "AsyncFunctionDef":
                self.gives_names = self.gives_names or node.name in words
            elif kind == "arg":
                self.gives_names = self.gives_names or node.arg in words
            elif kind == "MatchClass":
                for name in node.kwd_attrs:
                    if name in ATTRIBUTES:
                        self.seen.add(name)
                        self.add(node, "attribute", f"a pattern looks at {name}", ATTRIBUTE_ADVICE)
            for field in node._fields:  # as below(), which as a generator takes half as long again
                held = getattr(node, field, None)
                if type(held) is list:
                    stack.extend([item for item in held if hasattr(item, "_fields")])
                elif hasattr(held, "_fields"):
                    stack.append(held)

    def take_import(self, node, kind):
        module = node.module or "" if kind == "ImportFrom" else ""
        if kind == "ImportFrom" and node.level:
            return
        for alias in node.names:
            place = alias if hasattr(alias, "lineno") else node
            name = f"{module}.{alias.name}" if kind == "ImportFrom" else alias.name
            if kind == "Import":
                self.aliases[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
            elif alias.name == "*":
                for call in (*self.policy.calls, *IMPORTERS):
                    if call.startswith(module + "."):
                        self.aliases[call[len(module) + 1:]] = call
                name = module
            else:
                self.aliases[alias.asname or alias.name] = name
                self.is_renamed = self.is_renamed or (alias.asname is not None and name in IMPORTERS)
            self.seen.update(name.split("."))
            if not self.check_module(place, name) and name in self.policy.calls:
                self.found_call(place, name)

    def check_module(self, node, name):
        topic = self.policy.module_topic(name)
        if not topic:
            return False
        what, advice = TOPICS.get(topic[0], ("is not allowed here", "use a module that the operator's policy allows"))
        self.add(node, "module", f"{name.split('.*')[0]} {what}", advice)
        return True

    def found_call(self, node, name):
        topic = self.policy.calls.get(name)
        what, advice = TOPICS.get(topic, ("is not allowed here", "the operator's policy names it: do it in another way"))
        self.add(node, "call", f"{name} {what}", advice)

    def take_text(self, node):
        names = IN_TEXT.findall(node.value) if any(mark in node.value for mark in TEXT_MARKS) else ()
        self.seen.update(names)
        if names:
            self.texts.append(node)

    def dotted(self, node):
        """What an expression stands for, as far as it can be told: os.system."""
        kind = type(node).__name__
        if kind == "Name":
            return self.aliases.get(node.id, node.id)
        if kind == "Attribute":
            owner = self.dotted(node.value)
            return f"{owner}.{node.attr}" if owner else None
        if kind == "Call":
            name = without_builtins(self.dotted(node.func))
            literal = first_text(node)
            return literal if literal and (name == "__import__" or name in IMPORTERS) else None
        if kind == "Subscript" and self.dotted(node.value) == "sys.modules":
            key = node.slice
            return key.value if type(getattr(key, "value", None)) is str else None
        return None

    def apply(self):
        called = {id(node.func) for node in self.interesting if type(node).__name__ == "Call"}
        led_on = {id(node.value) for node in self.interesting if type(node).__name__ == "Attribute" and node.attr in ATTRIBUTES}
        if self.gives_names:
            self.own = own_uses(self.tree, {node.id for node in self.interesting if type(node).__name__ == "Name"})
        for node in self.interesting:
            kind = type(node).__name__
            if kind == "Name":
                self.apply_to_name(node, id(node) in called)
            elif kind == "Attribute":
                self.apply_to_attribute(node, id(node) in led_on)
            elif kind == "Call":
                self.apply_to_call(node)
            elif kind == "Subscript" and self.dotted(node.value) == "sys.modules":
                self.add(node, "attribute", "sys.modules hands out modules without an import", "import the module")
        self.apply_to_texts()

    def apply_to_texts(self):
        """A text that is an attribute's name may be data. It is not, where it is asked for by that name; nor, most likely,
        where attributes are asked for by names that cannot be told."""
        calls = [node for node in self.interesting if type(node).__name__ == "Call"]
        asked = {id(item) for node in calls if last_name(node.func) in GETTERS for item in node.args}
        is_telling = False
        for node in self.texts:
            is_field, is_name = IN_FIELD.search(node.value), node.value in ATTRIBUTES
            if not is_field and not is_name:
                continue
            is_telling = is_telling or (is_name and node.value != "__class__")
            is_meant = is_field or id(node) in asked or (self.built and node.value != "__class__")
            name = IN_TEXT.search((is_field or IN_TEXT.search(node.value))[0])[0]
            if is_meant:
                self.add(node, "text", f"a text names {name}, by which code gets at what it was not given", ATTRIBUTE_ADVICE)
            else:
                self.add(node, "text", f"a text is {name}, the name of an attribute that ordinary code does not ask for",
                         "leave it, if it is data", "note")
        for node, name, severity in self.built:
            if is_telling or severity:
                self.add(node, "built-name", f"{name} with a name that is made at run time",
                         "write the attribute's name, or keep the values in a dict", "warning" if is_telling else severity)

    def apply_to_name(self, node, is_called):
        self.seen.add(node.id)
        name = self.dotted(node)
        if type(node.ctx).__name__ != "Load" or id(node) in self.own:
            return
        if name in self.policy.calls:
            self.found_call(node, name)
        elif node.id == "__builtins__" or node.id == "__loader__":
            self.add(node, "attribute", f"{node.id} hands out what was not imported", ATTRIBUTE_ADVICE)
        elif name in BY_NAME and not is_called:
            self.add(node, "built-name", f"{name} is handed on, so that nobody can tell what it gets at",
                     "name the attribute where it is used")

    def apply_to_attribute(self, node, leads_on):
        self.seen.add(node.attr)
        name = without_builtins(self.dotted(node))
        if name in self.policy.calls:
            self.found_call(node, name)
        elif node.attr in ATTRIBUTES and (leads_on or node.attr != "__class__"):  # which alone is only an object's class
            self.add_attribute(node, f"{node.attr} gets at what code was not given", ATTRIBUTE_ADVICE)

    def apply_to_call(self, node):
        name = without_builtins(self.dotted(node.func))
        self.look_at_addresses(node, name)
        if id(node.func) in self.own:
            return
        if name in BY_NAME and len(node.args) > 1 and type(node.args[1]).__name__ != "Constant":
            self.built.append((node, name, self.severity_of_built(*node.args[:2])))
        elif name in IMPORTERS or name == "__import__":
            literal = first_text(node)
            if literal:
                self.check_module(node, literal)
            elif name in IMPORTERS:
                self.add(node, "dynamic-import", f"{name} with a name that is made at run time", "import each module by its name")


    def severity_of_built(self, owner, name):
        """None: a name in a variable, of which most are columns or methods."""
        if self.dotted(owner) in self.policy.owners or has_dunder(name):
            return "warning"
        return "note" if type(name).__name__ in ("BinOp", "JoinedStr") else None

    def look_at_addresses(self, node, name):
        """read_csv("https://…") is sure to fail in a box without a network."""
        last = last_name(node.func)
        self.seen.add(last)
        if not last.startswith("read_") and not (name and USUAL.module_topic(name) == ("network",)):
            return
        for item in (*node.args, *(keyword.value for keyword in node.keywords)):
            value = getattr(item, "value", None)
            host = URL.match(value) if type(value) is str else None
            if host:
                self.add(item, "network", f"{last} reads from {host[1]}, and a box has no network unless it is given one",
                         TOPICS["network"][1], "note")


ATTRIBUTE_ADVICE = "use the object's own methods; no ordinary program needs this"


def without_builtins(name):
    return name[9:] if name and name.startswith("builtins.") else name


def first_text(call):
    value = getattr(call.args[0], "value", None) if call.args else None
    return value if type(value) is str else None


def last_name(node):
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""


def has_dunder(name):
    """Is a piece of this name one of an attribute that is not for ordinary code?"""
    stack = [name]
    while stack:
        node = stack.pop()
        value = getattr(node, "value", None)
        if type(value) is str and "__" in value:
            return True
        stack.extend(below(node))
    return False


def catches_imports(handler):
    def names(node):
        return [getattr(item, "id", "") for item in getattr(node, "elts", [node])]
    return handler.type is None or bool({"ImportError", "ModuleNotFoundError", "Exception"} & set(names(handler.type)))


CONTINUES = re.compile(r"(?:[ \t)\]}#]|$|(?:else|elif|except|finally)\b)")


def statements_with(words, text, lines):
    """The top-level statements that the words stand in, where they stand: all other lines are empty. None: it is not that
    simple."""
    if "\r" in text or "\f" in text:
        return None
    pattern = re.compile(r"(?<!\w)(?:%s)(?!\w)" % "|".join(map(re.escape, sorted(words))))
    kept, line, at, end = [], 0, 0, 0
    for match in pattern.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if line < end:
            continue
        start = line
        while start > end and CONTINUES.match(lines[start]):
            start -= 1
        kept.append("\n" * (start - end))
        end = line + 1
        while end < len(lines) and CONTINUES.match(lines[end]):
            end += 1
        kept.append("\n".join(lines[start:end]) + "\n")
    return "".join(kept)


CODING = re.compile(rb"\A(?:[ \t\f]*(?:#[^\n]*)?\r?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)")


def text_of(source):
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError:
        coding = CODING.match(source)
        try:
            return source.decode(coding[1].decode() if coding else "utf-8", "replace")
        except LookupError:
            return source.decode("utf-8", "replace")


def parse(source):
    return compile(source, "<code>", "exec", ONLY_TREE, dont_inherit=True)


def read_trees(source, words, modules, policy, report, thorough):
    """`words` must be met; what the `modules` are called is in their imports."""
    text = text_of(source)
    lines = text.split("\n")
    if not thorough:
        reader = Reader(policy, report, lines)
        try:
            part = statements_with(words | modules, text, lines)
            if part:
                reader.walk(parse(part))
                reader.apply()
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            reader.seen.clear()
        if words <= reader.seen and not reader.is_renamed:
            return reader
        report.findings.clear()  # a word that stands in no statement of its own: all of it, then
    reader = Reader(policy, report, lines)
    reader.walk(parse(source))
    reader.apply()
    return reader


def report_missing(report, reader_of_all, engine):
    lacks = is_missing_in_wasm if engine == "wasm" else is_missing
    missing = [name for name in report.facts["imports"] if lacks(name)]
    report.facts["missing"] = missing
    if not missing:
        return
    try:
        places = import_places(reader_of_all())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for name in missing:
        for line, column, is_expected in places.get(name, ()):
            if not is_expected:
                report.add(line, column, "missing", *MISSING.get(engine, MISSING[None])(name), "note")


MISSING = {
    None: lambda name: (f"needs package {name}, which is not in the image",
                        "use a package that the image has, or an image that has this one"),
    "wasm": lambda name: (f"needs package {name}, which Python for the engine wasm does not have",
                          "use the standard library, or another engine"),
}


def import_places(tree):
    """{top-level module: [(line, column, its failure is expected)]}"""
    places, stack = {}, [(tree, False)]
    while stack:
        node, is_expected = stack.pop()
        kind = type(node).__name__
        names = [alias.name for alias in node.names] if kind == "Import" else [node.module or ""] if kind == "ImportFrom" else []
        for name in names:
            places.setdefault(name.split(".")[0], []).append((node.lineno, node.col_offset + 1, is_expected))
        if kind == "Try":
            is_expected = is_expected or any(catches_imports(handler) for handler in node.handlers)
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            held = getattr(node, field, None)
            if type(held) is list:
                stack.extend((item, is_expected) for item in held)
    return places


# ---- for those who choose where it runs

def tell_needs(source, words, report):
    needs, facts = Needs(parse(source)), report.facts
    tops = dict.fromkeys(name.split(".")[0] for name in words.modules if name)
    known = getattr(sys, "stdlib_module_names", ())
    imports = [f"the {'module' if name in known else 'package'} {name}" for name in tops if name not in PURE and name not in PARTS]
    facts["beyond"] = [name[:250] for name in (*imports, *needs.beyond)][:NAMES_MAX]
    facts["computes"] = needs.computes or ""
    has_effect = imports or facts["network"] or facts["processes"] or facts["files"] or needs.has_effect
    facts["pure"] = not has_effect and all(finding[2] == "missing" for finding in report.findings)


def describe_failure(error, report):
    if isinstance(error, SyntaxError):
        report.add(error.lineno or 1, max(error.offset or 1, 1), "syntax", f"this is not Python: {error.msg}",
                   "correct the line; the parser stopped here")
    elif isinstance(error, (RecursionError, MemoryError)):
        report.add(1, 1, "nesting", "expressions are nested deeper than the parser goes", "take it apart into several statements")
    else:
        report.add(1, 1, "syntax", f"this is not Python: {error}", "give the code as text in UTF-8")


def look(source, code, order):
    """The report on a program. `code` is its compiled form, or the exception that compiling it raised."""
    report = Report()
    if len(source) > CODE_MAX:
        report.add(1, 1, "size", f"the code has {len(source)} bytes; more than {CODE_MAX} are not looked at",
                   "give data as an input file, and not as code")
        return report
    if isinstance(code, BaseException):
        describe_failure(code, report)
        return report
    policy = USUAL if order.keys() <= {"mode", "thorough", "engine"} else Policy(order)
    words = Words(code)
    found = triggers(words, policy)
    try:
        if found:
            owners = policy.owners & {name.split(".")[0] for name in words.modules}
            read_trees(source, found, owners, policy, report, order.get("thorough"))
        gather_facts(words, bool(report.findings), report.facts)
        report_missing(report, lambda: parse(source), order.get("engine"))
        if order.get("mode") == "only":
            tell_needs(source, words, report)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        describe_failure(error, report)
    return report


def main():
    import json
    order, source = json.loads(sys.stdin.buffer.readline()), sys.stdin.buffer.read()
    try:  # what is too large is not even compiled
        code = compile(source, "<code>", "exec", dont_inherit=True) if len(source) <= CODE_MAX else None
    except Exception as error:
        code = error
    report = look(source, code, order)
    if order.get("mode") == "restricted" and not isinstance(code, BaseException) and len(source) <= CODE_MAX:
        from . import vet_restricted
        vet_restricted.look(source, parse(source), report)
    print(json.dumps(report.as_object()))
