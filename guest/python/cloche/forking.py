"""Forks this interpreter into a box of its own, when the host orders it; see guest/fork/fork.c for how.

What a copy must not share with its parent is exchanged here: randomness, thread numbers, descriptors (the library closes
all that are not the new box's own)."""
import ctypes
import gc
import os
import pkgutil
import signal
import sys
import threading

PR_GET_TID_ADDRESS = 40
_library = None
_libc = None


class Refused(Exception):
    """What cannot be forked, by name."""


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
    _library.cloche_confine.restype = ctypes.c_long
    _library.cloche_confine.argtypes = [ctypes.c_int]
    _library.cloche_zygote.restype = ctypes.c_long
    _library.cloche_zygote.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    _library.cloche_fork.restype = ctypes.c_long
    _library.cloche_fork.argtypes = [ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    return _library


def _thread_id_address():
    """Where the C library keeps the number of this thread: the kernel writes the copy's there."""
    address = ctypes.c_void_p()
    if _libc.prctl(PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) != 0:
        return None
    return address.value


def check():
    """Threads and children cannot be copied; they are named."""
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    if threads:
        raise Refused(f"{len(threads)} threads are running: {', '.join(threads[:5])}; end them first")
    tasks = os.listdir("/proc/self/task")
    if len(tasks) > 1:
        names = []
        for task in tasks:
            with open(f"/proc/self/task/{task}/comm", encoding="utf-8", errors="replace") as file:
                names.append(file.read().strip())
        raise Refused(f"{len(tasks) - 1} threads of a library are running ({', '.join(names[1:6])}); a library that "
                      "computes in threads can be told to use one (OPENBLAS_NUM_THREADS=1, OMP_NUM_THREADS=1)")
    children = _children()
    if children:
        raise Refused(f"child processes are running: {', '.join(children[:5])}; end them first")


def _children():
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        pids = file.read().split()
    found = []
    for pid in pids:
        if int(pid) in _forked:
            continue
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                found.append(f"{file.read().strip()} ({pid})")
        except OSError:
            pass
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


def fork(fds, landlock_abi):
    """True in the copy."""
    prepare()
    address = _thread_id_address()
    array = (ctypes.c_int * len(fds))(*fds)
    ctypes.pythonapi.PyOS_BeforeFork()
    result = _library.cloche_fork(array, len(fds), address, landlock_abi)
    if result == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        _forked.clear()
        renew_randomness()
        return True
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if result < 0:
        raise Refused(f"the copy could not be made: {os.strerror(-result)}")
    _forked.add(result)
    return False


def serve_as_zygote(channel_fd, landlock_abi):
    """Returns in a copy; in the zygote itself only when the host is gone."""
    library = prepare()
    address = _thread_id_address()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # copies that end are nobody's to ask about
    ctypes.pythonapi.PyOS_BeforeFork()
    is_over = library.cloche_zygote(channel_fd, address, landlock_abi)
    if is_over:
        os._exit(0)
    ctypes.pythonapi.PyOS_AfterFork_Child()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    renew_randomness()


def confine(ruleset_fd):
    """Puts the box's file rules on, for good, and proves it on a place that only they forbid."""
    status = _library.cloche_confine(ruleset_fd)
    if status < 0:
        raise Refused(f"the rules could not be put on: {os.strerror(-status)}")
    try:
        os.close(os.open("/run/landlock-proof", os.O_WRONLY | os.O_CREAT, 0o600))
    except PermissionError:
        return
    raise Refused("a file could be made outside the rules")


def renew_randomness():
    """`random` and `ssl` renew themselves after a fork, `secrets` and `uuid` ask the kernel; these do not."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random:
        numpy_random.seed()
    tempfile = sys.modules.get("tempfile")
    if tempfile:
        tempfile._name_sequence = None
    torch = sys.modules.get("torch")
    if torch:
        torch.seed()


def freeze():
    """Before the first of many forks: what is there now is not looked at by the collector again, in any copy."""
    gc.collect()
    gc.freeze()
