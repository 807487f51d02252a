"""Somebody who has taken a process over, as far as a test needs one: makes system calls in it, by ptrace.

    with takeover.Takeover(pid) as taken:
        taken.call(takeover.FORK)
"""
import contextlib
import ctypes
import os
import signal

CONTINUE, ATTACH, DETACH, STEP, GET_REGISTERS, SET_REGISTERS = 7, 16, 17, 9, 12, 13
ANY_CHILD = 0x40000000  # __WALL
MMAP, FORK = 9, 57  # of x86-64
NAMES = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs").split()
PRIVATE_POPULATED = 0x2 | 0x20 | 0x8000  # MAP_PRIVATE, MAP_ANONYMOUS, MAP_POPULATE


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in NAMES]


class Takeover:
    """Its first thread sleeps in a system call, so that right before where it goes on is the instruction for one."""

    def __init__(self, pid):
        self.pid, self.library = pid, ctypes.CDLL(None, use_errno=True)
        self.library.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.library.ptrace.restype = ctypes.c_long

    def ptrace(self, request, data=None):
        if self.library.ptrace(request, self.pid, None, data) < 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def await_stop(self, wanted, go_on):
        """Signals of its own clock come between, and are dropped."""
        while True:
            _, status = os.waitpid(self.pid, ANY_CHILD)
            if not os.WIFSTOPPED(status):
                raise ProcessLookupError(f"{self.pid} has ended")
            if os.WSTOPSIG(status) == wanted:
                return
            self.ptrace(go_on)

    def __enter__(self):
        self.ptrace(ATTACH)
        self.await_stop(signal.SIGSTOP, CONTINUE)
        self.found = Registers()
        self.ptrace(GET_REGISTERS, ctypes.addressof(self.found))
        return self

    def call(self, number, *arguments):
        own = Registers.from_buffer_copy(self.found)
        own.rip -= 2
        own.rax, own.orig_rax = number, 2 ** 64 - 1  # it is no call that is to be begun again
        for name, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), arguments, strict=False):
            setattr(own, name, value % 2 ** 64)
        self.ptrace(SET_REGISTERS, ctypes.addressof(own))
        self.ptrace(STEP)
        self.await_stop(signal.SIGTRAP, STEP)
        self.ptrace(GET_REGISTERS, ctypes.addressof(own))
        return ctypes.c_longlong(own.rax).value

    def touch_memory(self, size):
        """Takes so much, and uses it."""
        return self.call(MMAP, 0, size, 3, PRIVATE_POPULATED, -1, 0)

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):  # it may have been ended for what it did
            self.ptrace(SET_REGISTERS, ctypes.addressof(self.found))
            self.ptrace(DETACH)
