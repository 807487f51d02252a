"""The records of boxes, as src/keeper/record.h has them: a file with a byte for each number, set while it is taken
and locked by the owner of its box."""
import contextlib
import fcntl
import os
import pathlib
import struct

FILE = pathlib.Path("/run/cloche/boxes")  # of root's boxes


def taken(path=FILE):
    """The numbers that are taken."""
    try:
        return [number for number, byte in enumerate(pathlib.Path(path).read_bytes()) if byte]
    except OSError:
        return []


def is_owned(number, path=FILE):
    """Is the owner of this one alive?"""
    lock = struct.pack("hh4xqqi4x", fcntl.F_WRLCK, 0, number, 1, 0)
    try:
        with open(path, "rb+") as records:
            answer = fcntl.fcntl(records, fcntl.F_OFD_GETLK, lock)
    except OSError:
        return False
    return struct.unpack("hh4xqqi4x", answer)[0] != fcntl.F_UNLCK


@contextlib.contextmanager
def owned(number, path=FILE):
    """Takes a record for a while; at the end its owner is gone, and has left it."""
    with open(path, "rb+", buffering=0) as records:
        fcntl.fcntl(records, fcntl.F_OFD_SETLK, struct.pack("hh4xqqi4x", fcntl.F_WRLCK, 0, number, 1, 0))
        os.pwrite(records.fileno(), b"\1", number)
        yield
