"""Which pages of memory a fork uses, found out in one that is made for it.

Each page that a fork shares with its zygote is copied at its first write, in a fault that takes longer than most of what
is written. They are nearly the same in every fork, so they are made ready ahead, in few calls: guest/fork/pages.c."""
import ctypes
import gc
import mmap
import os

STRETCHES_MAX = 8192
STRETCH = 24  # bytes
SYS_FORK = 57
_list = None  # the library's, as long as we live; each fork has a copy of its own


def learn(library, act):
    """`act` is what a fork does; it is done once in a copy of this process, and ends with os._exit."""
    global _list
    shared = mmap.mmap(-1, 8 + STRETCHES_MAX * STRETCH)  # with the copy, which writes into it
    address = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    count, stretches = ctypes.c_long.from_address(address), ctypes.c_void_p(address + 8)
    library.cloche_pages_list.restype = ctypes.c_long
    library.cloche_pages_list.argtypes = [ctypes.c_void_p, ctypes.c_long]
    library.cloche_pages_remember.restype = None
    library.cloche_pages_remember.argtypes = [ctypes.c_void_p, ctypes.c_long]
    gc.freeze()  # as forks find it
    pid = ctypes.PyDLL(None).syscall(SYS_FORK)  # no hooks: see seeds.py
    if pid == 0:
        leave = os._exit

        def take_down(_code):
            count.value = library.cloche_pages_list(stretches, STRETCHES_MAX)
            leave(0)

        os._exit = take_down
        try:
            act()
        finally:
            leave(1)
    os.waitpid(pid, 0)
    found = min(count.value, STRETCHES_MAX)
    _list = ctypes.create_string_buffer(shared[8:8 + found * STRETCH])
    shared.close()  # or every fork could write what the next one reads
    library.cloche_pages_remember(_list, found)
