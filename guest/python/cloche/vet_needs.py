"""What Python code needs, for those who choose where it runs: what not every engine has (`beyond` of the first filter's facts), and
whether its work is bounded by what is written in it (`computes`).

As all that is told from syntax, this is a guess of use, and no boundary: the box is. When in doubt there is something beyond, and
the work is not bounded."""

# Of these modules not every Python here has all, or the same: the one of the engine wasm has this.
PARTS = {name: frozenset(parts.split()) for name, parts in {
    "hashlib": "md5 sha1 sha224 sha256 sha384 sha512 sha3_224 sha3_256 sha3_384 sha3_512 shake_128 shake_256 blake2b blake2s",
    "io": "StringIO BytesIO TextIOBase RawIOBase IOBase SEEK_SET SEEK_CUR SEEK_END",
    "os": "path.join path.basename path.dirname path.split path.splitext path.normpath path.isabs path.commonpath "
          "path.commonprefix sep extsep curdir pardir",
    "sys": "argv exit stdin stdout stderr byteorder float_info",
    "time": "time time_ns sleep perf_counter perf_counter_ns monotonic monotonic_ns gmtime struct_time",
    "uuid": "UUID uuid3 uuid4 uuid5 NAMESPACE_DNS NAMESPACE_URL NAMESPACE_OID NAMESPACE_X500",
}.items()}
LOCAL_TIME = frozenset("now today fromtimestamp astimezone".split())  # of datetime: wasm knows no time zone but UTC

TURNS_MAX = 10000  # of all loops multiplied: what any engine does at once
WITH_EFFECT = frozenset("os io uuid posix subprocess socket builtins importlib".split())  # beyond what is in PARTS
LEADING_OUT = WITH_EFFECT | {"sys"}  # as attributes of other modules
BY_TEXT = frozenset("getattr setattr delattr vars globals locals".split())  # get at what no name tells
ENDLESS = frozenset("permutations combinations combinations_with_replacement product count cycle repeat factorial comb perm".split())
WRAPPERS = frozenset("enumerate reversed sorted list tuple set zip iter".split())  # go over what they are given once


class Needs:
    """Of a tree. What it lists is told as it is found, names as they are written out: os.path.exists."""

    def __init__(self, tree):
        self.aliases, self.beyond, self.calls, self.turns, self.computes = {}, {}, {}, 1, None
        self.has_effect = False  # or may have, by what is in `beyond`
        nodes, handled = list(walk_in_order(tree)), set()
        for node in nodes:
            self.take_import(node)
        for node in nodes:
            kind = type(node).__name__
            if kind in ("Attribute", "Name") and id(node) not in handled:
                handled.update(id(part) for part in chain_of(node))
                self.take_name(node)
            self.take_work(node, kind)
        if not self.computes and self.calls_itself():
            self.computes = "a function that calls itself"
        if not self.computes and self.turns > TURNS_MAX:
            self.computes = f"loops of more than {TURNS_MAX} turns"

    def take_import(self, node):
        kind = type(node).__name__
        if kind == "Import":
            for alias in node.names:
                self.aliases[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
        elif kind == "ImportFrom" and not node.level:
            for alias in node.names:
                self.aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                if alias.name == "*" and node.module.split(".")[0] in PARTS:
                    self.go_beyond(f"all of {node.module}", node.module.split(".")[0])

    def go_beyond(self, name, owner):
        self.beyond[name] = True
        self.has_effect = self.has_effect or owner in WITH_EFFECT

    def take_name(self, node):
        chain = chain_of(node)
        if type(chain[-1]).__name__ != "Name":
            return
        name = ".".join([self.aliases.get(chain[-1].id, ""), *(part.attr for part in reversed(chain[:-1]))])
        owner, _, rest = name.partition(".")
        if owner in PARTS and not any(rest == part or rest.startswith(part + ".") for part in PARTS[owner]):
            self.go_beyond(name, owner)
        elif owner == "datetime" and LOCAL_TIME.intersection(rest.split(".")):
            self.go_beyond(name, owner)
        elif owner and not LEADING_OUT.isdisjoint(part.lstrip("_") for part in rest.split(".")):
            self.go_beyond(name, "os")  # random._os
        elif chain[-1].id in BY_TEXT:
            self.go_beyond(chain[-1].id, "os")

    def take_work(self, node, kind):
        if kind in ("For", "AsyncFor", "comprehension"):
            self.take_turns(node.iter, node if kind != "comprehension" else node.iter)
        elif kind == "While":
            self.may_compute(node, "a while loop")
        elif kind == "Call":
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ("map", "filter", "reduce") and len(node.args) > 1:
                self.take_turns(node.args[1], node)
            elif name == "range" and turns_of(node) is None or name in ENDLESS:
                self.may_compute(node, f"a call of {name}")
        elif kind == "Constant" and type(node.value) in (int, float) and abs(node.value) > TURNS_MAX:
            self.may_compute(node, "a large number")
        elif kind == "BinOp" and type(node.op).__name__ in ("Pow", "LShift") and not is_small(node.right):
            self.may_compute(node, "a power")
        elif kind == "Assign" and type(node.value).__name__ == "Lambda" and type(node.targets[0]).__name__ == "Name":
            self.calls.setdefault(node.targets[0].id, set()).update(getattr(part, "id", "") for part in walk_in_order(node.value))
        elif kind in ("FunctionDef", "AsyncFunctionDef"):
            below = {getattr(part, "id", getattr(part, "attr", "")) for part in walk_in_order(node)}
            self.calls.setdefault(node.name, set()).update(below)

    def take_turns(self, iterated, node):
        turns = turns_of(iterated)
        if turns is None:
            self.may_compute(node, "a loop")
        else:
            self.turns = min(self.turns * max(turns, 1), TURNS_MAX + 1)

    def may_compute(self, node, what):
        if not self.computes:
            self.computes = f"{what} in line {node.lineno}"

    def calls_itself(self):
        for start in self.calls:
            seen, waiting = set(), [start]
            while waiting:
                for name in self.calls[waiting.pop()] & self.calls.keys() - seen:
                    if name == start:
                        return True
                    seen.add(name)
                    waiting.append(name)
        return False


def walk_in_order(tree):
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        below = []
        for field in node._fields:
            value = getattr(node, field, None)
            below.extend(item for item in (value if type(value) is list else (value,)) if hasattr(item, "_fields"))
        stack.extend(reversed(below))


def chain_of(node):
    """a.b.c: its nodes, the last of which is a."""
    chain = [node]
    while type(chain[-1]).__name__ == "Attribute":
        chain.append(chain[-1].value)
    return chain


def is_small(node):
    return type(node).__name__ == "Constant" and type(node.value) in (int, float) and abs(node.value) <= 64


def turns_of(node):
    """How often a loop over this turns, where it is written out; None: it is not."""
    kind = type(node).__name__
    if kind in ("List", "Tuple", "Set"):
        return None if any(type(item).__name__ == "Starred" for item in node.elts) else len(node.elts)
    if kind == "Dict":
        return None if None in node.keys else len(node.keys)
    if kind == "Constant" and type(node.value) in (str, bytes):
        return len(node.value)
    if kind != "Call" or type(node.func).__name__ != "Name" or not node.args:
        return None
    if node.func.id in WRAPPERS:
        return turns_of(node.args[0])
    values = [getattr(item, "value", None) for item in node.args]
    if node.func.id != "range" or not all(type(value) is int for value in values):
        return None
    try:
        return len(range(*values))
    except (ValueError, TypeError, OverflowError):  # no step, too many numbers, too large ones
        return None
