"""A network of the test's own, with a loopback and nothing else: a server on every address of it is reached by nobody but the test.

    with private_network.entered():
        with server.Server(listen="0.0.0.0:0") as serving: …
"""
import contextlib
import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


@contextlib.contextmanager
def entered():
    """For this thread only: the network is the thread's, and what it starts."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        call("unshare", CLONE_NEWNET)
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
        yield
    finally:
        call("setns", before, CLONE_NEWNET)
        os.close(before)
