"""For the first filter: whose a name is. A program that defines `compile` itself does not mean Python's."""

SCOPES = frozenset(("FunctionDef", "AsyncFunctionDef", "Lambda", "ClassDef"))
ASSIGNMENTS = frozenset(("Assign", "AnnAssign", "AugAssign", "NamedExpr"))
ARGUMENTS = ("posonlyargs", "args", "vararg", "kwonlyargs", "kwarg")


def below(node, leave_out=()):
    for field in node._fields:
        value = getattr(node, field, None)
        if field not in leave_out:
            yield from (item for item in (value if type(value) is list else [value]) if hasattr(item, "_fields"))


class Scope:
    """One function, class or module: what is given a name in it, and which names are used there."""

    def __init__(self, kind, nodes, above):
        self.is_function, self.is_class, self.above = kind not in ("Module", "ClassDef"), kind == "ClassDef", above
        self.bound, self.lost, self.uses, self.inner = {}, set(), [], []
        stack = [(node, 0) for node in nodes]
        while stack:
            node, end = stack.pop()
            kind = type(node).__name__
            if kind in SCOPES:
                self.inner.append(node)
                if kind != "Lambda":
                    self.bind(node.name, node.lineno)
                stack.extend((item, 0) for item in below(node, ("body", "args")))
                stack.extend((item, 0) for item in (below(node.args, ARGUMENTS) if kind != "ClassDef" else ()))
                continue
            if kind in ASSIGNMENTS:
                end = node.end_lineno  # what is right of it is read before
            elif kind == "Name":
                self.take_name(node, end)
            elif kind == "arg":
                self.bind(node.arg, 0)
            elif kind == "Global" or kind == "Nonlocal":
                self.lost.update(node.names)
            stack.extend((item, end) for item in below(node))

    def take_name(self, node, end):
        context = type(node.ctx).__name__
        if context == "Load":
            self.uses.append(node)
        elif context == "Del":
            self.lost.add(node.id)
        else:
            self.bind(node.id, max(end, node.lineno))

    def bind(self, name, line):
        self.bound[name] = min(line, self.bound.get(name, line))

    def is_own(self, node):
        if node.id in self.above:
            return True
        is_bound = node.id in self.bound and node.id not in self.lost
        return is_bound and (self.is_function or self.bound[node.id] < node.lineno)


def own_uses(tree, names):
    """ids of nodes: the uses of `names` that mean what the program has so called, and not what Python has."""
    own, waiting = set(), [("Module", list(below(tree)), frozenset())]
    while waiting:
        scope = Scope(*waiting.pop())
        own.update(id(node) for node in scope.uses if node.id in names and scope.is_own(node))
        seen = scope.above if scope.is_class else scope.above | {name for name in names if name in scope.bound and name not in scope.lost}
        for node in scope.inner:
            arguments = [] if type(node).__name__ == "ClassDef" else [item for item in below(node.args) if type(item).__name__ == "arg"]
            waiting.append((type(node).__name__, arguments + (node.body if type(node.body) is list else [node.body]), seen))
    return own
