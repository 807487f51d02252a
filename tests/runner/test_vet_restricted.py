"""The world of `restricted` code, without a box: what ordinary code finds there, and what no code does."""
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORLD = ROOT / "guest/python/restricted.py"
PYTHON = "/usr/bin/python3"

sys.path.insert(0, str(ROOT / "guest/python"))

from cloche import vet, vet_restricted


@pytest.fixture(scope="module", autouse=True)
def package():
    if subprocess.run([PYTHON, "-I", "-c", "import RestrictedPython"], capture_output=True).returncode != 0:
        pytest.skip("RestrictedPython is not here: setup/install-restricted")


def run(code, stdin=""):
    """As the host has it run: our world as the program, and a line that calls it."""
    program = WORLD.read_text() + f"\n\nrun(bytes.fromhex(\"{code.encode().hex()}\"), \"main.py\")\n"
    return subprocess.run([PYTHON, "-I", "-c", program], input=stdin, capture_output=True, text=True, timeout=60)


ORDINARY = {
    "class A:\n    def __init__(self):\n        self.x = 1\na = A()\na.x = a.x + 1\nA.count = 3\nprint(a.x, A.count, a.count)": "2 3 3",
    "class A:\n    pass\na = A()\nsetattr(a, 'x', 4)\nprint(getattr(a, 'x'), hasattr(a, 'y'), getattr(a, 'y', 5))\ndelattr(a, 'x')\nprint(hasattr(a, 'x'))": "4 False 5\nFalse",
    "from datetime import datetime\nprint(datetime.strptime('2024-02-03', '%Y-%m-%d').day)": "3",
    "import time\nprint(time.strptime('2024', '%Y').tm_year)": "2024",
    "import datetime\nprint(datetime.datetime(2024, 2, 3).strftime('%d.%m.'))": "03.02.",
    "print(type(1) == int, type('x') is str)": "True True",
    "print(input() + '!')": "typed!",
    "print('{} {0!r:>5} {x[k]} {y.real}'.replace('{}', '-').format('a', x={'k': 2}, y=3), str.format('{}', 4))": "-   'a' 2 3 4",
    "print('{a:.2f}'.format_map({'a': 1}), f'{1.5:.1f}')": "1.00 1.5",
    "from collections.abc import Mapping\nimport collections.abc\nprint(isinstance({}, Mapping), isinstance([], collections.abc.Sequence))": "True True",
    "from html import parser\nprint(parser.HTMLParser().rawdata)": "",
    "import collections\nc = collections.Counter('aab')\nc['z'] = 1\nd = collections.deque([1, 2])\nd[0] = 5\nprint(c['a'], d[0])": "2 5",
    "import decimal\ndecimal.getcontext().prec = 5\nprint(decimal.Decimal(1) / 3)": "0.33333",
    "import functools\n@functools.wraps(len)\ndef f(x):\n    '''Says.'''\n    return x\nprint(f(1), functools.reduce(max, [1, 3, 2]))": "1 3",
    "from enum import Enum\nclass C(Enum):\n    RED = 1\nprint(C.RED.value)": "1",
    "print(*[1, 2], sep='-')\nprint(max(*[3, 4]), len(range(5000)), isinstance((), tuple))": "1-2\n4 5000 True",
    "import json, re, operator, io, random, string\nprint(json.loads('[1]'), re.sub('a', 'b', 'aa'), operator.itemgetter(1)([5, 6]), io.StringIO('x').read(), string.digits)": "[1] bb 6 x 0123456789",
    "class A:\n    @property\n    def two(self):\n        return 2\n    @staticmethod\n    def three():\n        return 3\nprint(A().two, A.three())": "2 3",
}


@pytest.mark.parametrize("code", ORDINARY, ids=range(len(ORDINARY)))
def test_ordinary_code_runs(code):
    done = run(code, stdin="typed")
    assert (done.stdout.strip(), done.returncode) == (ORDINARY[code], 0), done.stderr


WAYS_OUT = [
    'import json\njson.codecs.builtins.open("/etc/hostname").read()',
    'import re\nre.enum.sys.modules.get("os").system("echo out")',
    'import operator\nprint(operator.attrgetter("__cl" + "ass__")(1))',
    'import operator\nprint(operator.methodcaller("__reduce__")(1))',
    'from operator import attrgetter',
    'from json import codecs',
    'from json import tool',
    'import json.tool',
    'from re import enum',
    'import io\nprint(io.open("/etc/hostname").read())',
    'from io import FileIO',
    'print("{0.__class__}".format(1))',
    'print(str.format("{0.__class__}", 1))',
    'print("{a.__class__}".format_map({"a": 1}))',
    'import string\nprint(string.Formatter().format("{0.__class__}", 1))',
    'import collections\nprint(collections.UserString("{0.__class__}").format(1))',
    'import functools\nclass A:\n    pass\nfunctools.update_wrapper(A(), len, assigned=("__self__",))',
    'import functools\nclass A:\n    pass\nfunctools.wraps(len, ("__self__",))(A())',
    'import functools\nf = functools.singledispatch(len)',
    'import typing\ndef f(x: "().__class__.__base__.__subclasses__()"):\n    pass\nprint(typing.get_type_hints(f))',
    'import dataclasses\ndataclasses.make_dataclass("A", [], namespace={"__reduce__": len})',
    'import enum\nclass C(enum.Enum):\n    MODULES = 1\nenum.global_enum(C)',
    'print(type(int)("A", (), {}))',
    'print(type("A", (), {}))',
    'print(getattr(1, "__class__"))',
    'print(getattr(1, "__cl" + "ass__"))',
    'setattr(len, "x", 1)',
    'import json\njson.dumps = 1',
    'import json\nsetattr(json, "dumps", 1)',
    'import random\nrandom.os',
    'random.seed(1)',
    'print((i for i in [1]).gi_frame)',
    'import os',
    'import datetime\nprint(datetime.sys)',
    'open("/etc/hostname")',
]


@pytest.mark.parametrize("code", WAYS_OUT, ids=range(len(WAYS_OUT)))
def test_there_is_no_way_past_the_guards_that_is_known(code):
    done = run(code)
    assert done.returncode == 1 and done.stdout == "", done
    # And it was no error of another kind that stopped it.
    kind = done.stderr.strip().splitlines()[-1].split(":")[0]
    assert kind in ("AttributeError", "ImportError", "NameError", "TypeError", "NotImplementedError") or "invalid attribute name" in done.stderr \
        or "restricted name" in done.stderr, done.stderr


def imports_found(code):
    report = vet.Report()
    vet_restricted.look(code.encode(), vet.parse(code), report)
    return sorted((line, column) for line, column, rule, *_rest in report.findings if rule == "restricted")


def world_modules():
    names = {}
    exec(compile(WORLD.read_text().split("# For the interpreter's own use")[0], "world", "exec"), names)
    return names["MODULES"]


def test_imports_are_looked_at_before_it_runs():
    assert imports_found("import math\nfrom collections.abc import Mapping\nfrom html import parser") == []
    assert imports_found("x = 1\nimport pandas as pd\nif x:\n    from os import path\nimport json.tool, math") == [(2, 1), (4, 5), (5, 1)]
    assert vet_restricted.MODULES == world_modules()
