"""What is done before there is a program: imports, and a first use of what is imported. A zygote does it once, so that its
forks need not, and then brings order into its memory."""
import ctypes
import importlib
import importlib.util
import os
import shutil
import sys
import time

from . import endings, forking, script

prctl = ctypes.CDLL(None).prctl
OWN = ("script", "rich", "streams", "execute", "reporting", "figures")

WARM_UP = {
    "numpy": "import numpy; numpy.arange(8.0).mean()",
    "pandas": """
import pandas
frame = pandas.DataFrame({"a": [1, 2, 3, 1], "b": [1.5, 2.5, 3.5, 4.5], "c": list("xyxz")})
frame.groupby("c").agg({"a": "sum", "b": "mean"}).sort_values("b").to_string()
frame.describe().to_html()
pandas.to_datetime(["2024-01-01", "2024-02-01"])
""",
    "matplotlib.pyplot": """
import io, matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
figure, axes = pyplot.subplots()
axes.plot([1, 2, 3], label="x"); axes.set_title("t"); axes.legend()
figure.savefig(io.BytesIO(), format="png")
pyplot.close("all")
# Its fonts hold open files, which a fork closes, and its own at-fork hook then falls over them.
matplotlib.font_manager._get_font.cache_clear()
""",
}


class ArenaAllocator(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("take", ctypes.c_void_p), ("give", ctypes.c_void_p)]


def take_arenas():
    """CPython's own call for this; interpreters that do without it keep what they have."""
    library = forking.prepare()
    install = getattr(ctypes.pythonapi, "PyObject_SetArenaAllocator", None)
    if install and library.cloche_arenas_begin():
        address = lambda function: ctypes.cast(function, ctypes.c_void_p).value
        install(ctypes.byref(ArenaAllocator(None, address(library.cloche_arena_take), address(library.cloche_arena_give))))


def load(modules, for_forks):
    """What the image lacks is left out: the code that wants it is told so by its own import."""
    if for_forks:
        take_arenas()
    import_all(modules)
    if for_forks:
        settle()
    else:
        script.leave = say_farewell
        hold_figures()
        clear_places()
        forking.freeze()


held_figures = None


def hold_figures():
    """Our archive goes before there is a program. All of it is imported but this, which would import matplotlib."""
    global held_figures
    held_figures = importlib.util.find_spec("cloche.figures").loader.get_code("cloche.figures")


def import_all(modules):
    for name in modules:
        try:
            importlib.import_module(name)
            exec(WARM_UP.get(name, ""), {})
        except Exception as error:
            print(f"preload: {name}: {error}", file=sys.stderr)


PR_SET_NAME = 15
HEARD_S = 0.02


def say_farewell(code):
    """As guest/fork/farewell.c does it in a fork. A kernel that is a program takes our memory apart before it lets anybody else
    read our name: who hears it ends the box, and so we wait for that first."""
    prctl(PR_SET_NAME, b"cloche-end %03d" % code, 0, 0, 0)
    os.close(1)
    os.close(2)
    time.sleep(HEARD_S)
    os._exit(code)


def clear_places():
    """A fork has a file system of its own; what a program is to find here must be as empty as at the start."""
    for variable in ("TMPDIR", "HOME", "CLOCHE_OUTPUT"):
        place = os.environ.get(variable)
        for entry in list(os.scandir(place)) if place else []:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def settle():
    """All that forks may need of us, and memory in the order that they are cheapest from."""
    for name in OWN:
        try:
            importlib.import_module(f"cloche.{name}")
        except ImportError:
            pass  # figures without matplotlib
    practise()
    endings.prepare()
    forking.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
    collapse()
    join_mappings()
    enlarge_text()
    forking.prepare().cloche_arenas_end()


PRACTICE = 20  # by then the interpreter has specialised the code, which it does in place


def practise():
    """What every fork does, for the first time, when much is made; and that OpenSSL reads its configuration."""
    forking.renew_randomness()
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_bytes(1)
    script.prepare_streams()
    for _ in range(PRACTICE):
        script.rehearse()
    script.lay_out_module()


MADV_COLLAPSE = 25
HUGE = 2 << 20
PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4


class Mapping:
    """A line of /proc/self/maps."""

    def __init__(self, line):
        addresses, self.rights, offset, _device, _inode, *name = line.split(None, 5)
        self.start, self.end = (int(number, 16) for number in addresses.split("-"))
        self.offset = int(offset, 16)
        self.name = name[0].strip() if name else ""

    def is_followed_by(self, other):
        return (self.name.startswith("/") and other.name == self.name and other.start == self.end
                and other.offset == self.offset + self.end - self.start)


def mappings():
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return [Mapping(line) for line in file]


def collapse():
    """Huge pages for memory that is there to stay: a fork copies an entry for each page, and its end takes them away."""
    madvise = ctypes.CDLL(None).madvise
    for mapping in mappings():
        if mapping.rights != "rw-p" or mapping.name not in ("", "[heap]"):
            continue
        first, last = -(-mapping.start // HUGE) * HUGE, mapping.end // HUGE * HUGE
        if last > first:
            madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), MADV_COLLAPSE)


def enlarge_text():
    """The interpreter's own code, be it in its program or in a library of its own."""
    for mapping in mappings():
        if mapping.rights == "r-xp" and os.path.basename(mapping.name).startswith(("python", "libpython")):
            forking.prepare().cloche_text_enlarge(ctypes.c_void_p(mapping.start), ctypes.c_void_p(mapping.end))


def join_mappings():
    """A fork copies every mapping, and its end takes each away. A library has five: headers, code, constants; relocated
    constants, variables. With the same rights the first three are one for the kernel, and the last two are. Whoever runs
    code here can change such rights anyway; they guard against mistakes, and nothing of a box rests on them."""
    mprotect = ctypes.CDLL(None).mprotect
    groups, last = [], None
    for mapping in mappings():
        begins_variables = last and last.rights == "r--p" and mapping.rights == "rw-p" and groups[-1][-1:] == [last]
        if begins_variables and last.is_followed_by(mapping):
            groups[-1].pop()  # relocated: it goes with what follows, whatever came before
            groups.append([last, mapping])
        elif last and last.is_followed_by(mapping) and {last.rights, mapping.rights} == {"r--p", "r-xp"}:
            groups[-1].append(mapping)
        else:
            groups.append([mapping])
        last = mapping
    for group in groups:
        if len(group) > 1:
            rights = PROT_READ | (PROT_WRITE if group[-1].rights == "rw-p" else PROT_EXEC)
            mprotect(ctypes.c_void_p(group[0].start), ctypes.c_size_t(group[-1].end - group[0].start), rights)
