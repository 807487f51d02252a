"""Forks this interpreter into a box of its own, when the host orders it; see guest/fork/fork.c for how.

What a copy must not share with its parent is exchanged here: randomness, thread numbers, descriptors (the library closes
all that are not the new box's own; see surroundings.py for what is opened again)."""
import array
import ctypes
import errno
import gc
import os
import pkgutil
import resource
import signal
import sys
import threading
import time

from . import script, seeds, surroundings
from .execute import Refused

PR_GET_TID_ADDRESS = 40
OPEN_FILES_MIN = 80  # numbers up to 64 are passed over while descriptors are put in their places
POOLS = (("openblas", "blas_thread_shutdown_", ()), ("libgomp", "omp_pause_resource_all", (2,)))  # 2: hard
POOLS_S = 0.2
DESCRIPTORS_MIN = 7  # of a box: control, plan, init, three streams, channel; files of groups follow
_library = None
_libc = None
_address = None


def prepare():
    """Loads what a fork needs, so that the first is not slower than others."""
    global _library
    if _library:
        return _library
    fd = os.memfd_create("fork", os.MFD_CLOEXEC)
    try:
        os.write(fd, pkgutil.get_data("cloche", "fork.so"))
        _library = ctypes.PyDLL(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
    global _libc
    _libc = ctypes.CDLL(None, use_errno=True)
    _library.cloche_zygote.restype = ctypes.c_long
    _library.cloche_zygote.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int)]
    _library.cloche_farewell.restype = None
    _library.cloche_farewell.argtypes = [ctypes.c_int]
    _library.cloche_is_alone.argtypes = [ctypes.c_long]
    _library.cloche_count_descriptors.restype = ctypes.c_long
    _library.cloche_fork.restype = ctypes.c_long
    _library.cloche_fork.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    return _library


def _thread_id_address():
    """Where the C library keeps the number of this thread: the kernel writes the copy's there."""
    global _address
    if _address is None:
        found = ctypes.c_void_p()
        _libc.prctl(PR_GET_TID_ADDRESS, ctypes.byref(found), 0, 0, 0)
        _address = found.value
    return _address


def check():
    """Threads and children cannot be copied; they are named."""
    if not is_alone():
        retire_pools()
        name_company()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most < OPEN_FILES_MIN:
        raise Refused(f"it may have {most} files open (RLIMIT_NOFILE); to be forked it needs {OPEN_FILES_MIN}")


def is_alone():
    try:
        return prepare().cloche_is_alone(len(_forked))
    except OSError:
        return False  # without the library; what is there can be named all the same


def retire_pools():
    """Libraries that compute in threads keep them for the next time: OpenBLAS, OpenMP. They can be told to end them, and start
    others when they compute again, here or in a copy."""
    if len(os.listdir("/proc/self/task")) == 1:
        return
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        paths = {line.split(None, 5)[5].strip() for line in file if line.count("/")}
    for path in paths:
        for mark, name, arguments in POOLS:
            if mark in os.path.basename(path):
                end = getattr(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW), name, None)
                if end:
                    end(*arguments)
    until = time.monotonic() + POOLS_S
    while len(os.listdir("/proc/self/task")) > 1 + threads_of_python() and time.monotonic() < until:
        time.sleep(0.001)


def threads_of_python():
    return len(threading.enumerate()) - 1


def name_company():
    """The same by other means, which can tell what is there."""
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    if threads:
        raise Refused(f"{len(threads)} threads are running: {', '.join(threads[:5])}; end them first")
    tasks = os.listdir("/proc/self/task")
    if len(tasks) > 1:
        names = []
        for task in tasks:
            try:
                with open(f"/proc/self/task/{task}/comm", encoding="utf-8", errors="replace") as file:
                    names.append(file.read().strip())
            except OSError:
                names.append("one that just ended")
        raise Refused(f"{len(tasks) - 1} threads of a library are running ({', '.join(names[1:6])}); a library that "
                      "computes in threads can be told to use one (OPENBLAS_NUM_THREADS=1, OMP_NUM_THREADS=1)")
    children = _children()
    if children:
        raise Refused(f"there are child processes: {', '.join(children[:5])}; end them, and wait for them, first")
    shared = _shared_memory()
    if shared:
        raise Refused(f"memory is shared, which a copy would go on sharing: {', '.join(shared[:5])}; close it first")


def _shared_memory():
    """What can be written to, by us or through a file, and is not copied by a fork."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        lines = [line.split(None, 5) for line in file]
    device = os.stat("/tmp").st_dev  # a file there is the parent's, which may go on writing to it
    own = f"{os.major(device):02x}:{os.minor(device):02x}" if device != os.stat("/usr").st_dev else None
    return [fields[5].strip() if len(fields) > 5 else "without a name" for fields in lines
            if fields[1][3] == "s" and (fields[1][1] == "w" or fields[3] == own)]


def _children():
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        pids = file.read().split()
    found = []
    for pid in pids:
        if int(pid) in _forked:
            continue
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        has_ended = rest.split()[0] == "Z"
        found.append(f"{name} ({pid}{', which has ended and was not waited for' if has_ended else ''})")
    return found


_forked = set()  # first processes of boxes that came from us: ours to reap


def reap():
    for pid in list(_forked):
        try:
            ended, _status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            ended = pid
        if ended:
            _forked.discard(pid)


def look_around(fds, loop):
    """What a copy is to find again; `loop` is the one that awaits, and idle: a copy makes its own."""
    forget_fonts()
    own = (getattr(loop, "_selector", None), getattr(loop, "_ssock", None), getattr(loop, "_csock", None)) if loop else ()
    return surroundings.Surroundings(fds, {part.fileno() for part in own if part}, _library)


def fork(fds, landlock_abi, around=None):
    """True in the copy, which finds `around` again."""
    if len(fds) < DESCRIPTORS_MIN:
        raise Refused("the order came without the descriptors of a box")
    prepare()
    has_hooks = seeds.has_hooks()
    if has_hooks:
        ctypes.pythonapi.PyOS_BeforeFork()
    result = _library.cloche_fork(array.array("i", fds).tobytes(), len(fds), _thread_id_address(), landlock_abi)
    if result == 0:
        if not has_hooks:  # which opens nothing, and so need not wait until the host has looked
            seeds.settle()
            renew_randomness()
        _library.cloche_await_leave()
        if around:
            around.take()
        if has_hooks:
            ctypes.pythonapi.PyOS_AfterFork_Child()
            renew_randomness()
        _forked.clear()
        return True
    if has_hooks:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    if result < 0:
        too_deep = "namespaces cannot be nested deeper here" if -result in (errno.ENOSPC, errno.EUSERS) else None
        raise Refused(f"the copy could not be made: {too_deep or os.strerror(-result)}")
    _forked.add(result)
    return False


def forget_fonts():
    """matplotlib's hold open files, which a copy has no more, and its own at-fork hook dies of that."""
    fonts = getattr(sys.modules.get("matplotlib.font_manager"), "_get_font", None)
    if hasattr(fonts, "cache_clear"):
        fonts.cache_clear()


def forget_places():
    """Paths that libraries keep from the first time that they asked for them."""
    tempfile = sys.modules.get("tempfile")
    if tempfile:
        tempfile.tempdir = None
    matplotlib = sys.modules.get("matplotlib")
    for name in ("get_configdir", "get_cachedir"):  # whose own decorator keeps the value in a closure
        for cell in getattr(getattr(matplotlib, name, None), "__closure__", None) or ():
            if cell.cell_contents is True:
                cell.cell_contents = False


def serve_as_zygote(channel_fd, landlock_abi, is_plain, trial):
    """Returns in a copy; in the zygote itself only when the host is gone. `is_plain`: copies have no namespaces, so that each
    has other directories than we have. `trial`: both ends of the orders of a first copy, which shows what memory copies use
    (guest/fork/pages.c): all that we do before must be done by then."""
    library = prepare()
    if is_plain:
        forget_places()
    address = _thread_id_address()
    has_hooks = seeds.need_hooks(library)
    script.leave = library.cloche_farewell
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # copies that end are nobody's to ask about
    if has_hooks:
        ctypes.pythonapi.PyOS_BeforeFork()
    ends = (ctypes.c_int * 2)(*trial)
    gc.freeze()  # what we are made of by now lies everywhere: a fork's collector is to look at its own only
    is_over = library.cloche_zygote(channel_fd, address, landlock_abi, is_plain, ends)
    if is_over:
        os._exit(0)
    if has_hooks:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        renew_randomness()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    threading.main_thread()._set_native_id()  # that of a fork is its own


def renew_randomness():
    """`random` renews itself after a fork, `secrets` and `uuid` ask the kernel, and OpenSSL knows a fork by its pid, which is
    another than that of what it is a copy of (guest/fork/fork.c); these do not."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random:
        numpy_random.seed()
    seeds.forget_names()
    torch = sys.modules.get("torch")
    if torch:
        torch.seed()


def freeze():
    """Before the first of many forks, or a program: what is there now is not looked at by the collector again."""
    gc.collect()
    gc.freeze()
