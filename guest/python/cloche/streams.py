"""sys.stdout, sys.stderr and sys.stdin of a run.

What Python writes goes over the channel, so that both streams keep their order and belong to their run. What other
programs and C code write goes to descriptors 1 and 2, which are pipes to the host. The host hears the channel first when it
finds something in both: so we wait until the pipes are empty before we say anything, and everything comes in its order."""
import array
import fcntl
import io
import os
import stat
import termios
import time

CHUNK_MAX = 1 << 20  # a frame holds more, but its reader should not have to wait for so much
DRY_S = 0.05
DRY_STEP_S = 0.0001
_pipes = ()  # of descriptors 1 and 2
_waiting = array.array("i", [0])


def find_pipes():
    """At the beginning of a run; its code may give these numbers to something else."""
    global _pipes
    _pipes = tuple(fd for fd in (1, 2) if is_pipe(fd))


def is_pipe(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


def let_pipes_dry():
    """What other programs have written by now is for the host to read before it hears from us. It does so at once, but for
    when it waits itself: then so do we, for a moment."""
    deadline = None
    for fd in _pipes:
        while True:
            try:
                fcntl.ioctl(fd, termios.FIONREAD, _waiting)
            except OSError:
                break
            if not _waiting[0]:
                break
            now = time.monotonic()
            deadline = deadline or now + DRY_S
            if now >= deadline:
                return
            time.sleep(DRY_STEP_S)


class Output(io.TextIOBase):
    """Text, sent line by line, as a terminal shows it: a print is one message and not two. What waits for its line's
    end goes before anything of the other stream, and when it is flushed."""

    encoding = "utf-8"
    errors = "replace"
    PENDING_MAX = 8192

    def __init__(self, name, fd, send, lock):
        self.name, self._fd, self._send, self._lock = f"<{name}>", fd, send, lock
        self._pending = bytearray()
        self.other = None
        self.buffer = OutputBytes(self)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.take(text.encode("utf-8", "replace"))
        return len(text)

    def take(self, data):
        with self._lock:
            if self.other:
                self.other.flush()
            self._pending += data
            if b"\n" in data or len(self._pending) > self.PENDING_MAX:
                self.flush()

    def flush(self):
        with self._lock:
            if self._pending:
                data, self._pending = bytes(self._pending), bytearray()
                let_pipes_dry()
                for at in range(0, len(data), CHUNK_MAX):
                    self._send(data[at:at + CHUNK_MAX])

    def writable(self):
        return True

    def fileno(self):
        return self._fd


class OutputBytes(io.RawIOBase):
    def __init__(self, text):
        self._text = text

    def write(self, data):
        self._text.take(bytes(data))
        return len(data)

    def flush(self):
        self._text.flush()

    def writable(self):
        return True

    def fileno(self):
        return self._text.fileno()


def make_outputs(send, lock):
    """stdout and stderr; `send(name, data)` takes what is written."""
    out = Output("stdout", 1, lambda data: send("stdout", data), lock)
    err = Output("stderr", 2, lambda data: send("stderr", data), lock)
    out.other, err.other = err, out
    return out, err


class NothingToRead(EOFError):
    pass


class Input(io.StringIO):
    """The stdin that came with the run. Without one, a program that asks gets a clear answer."""

    def __init__(self, text):
        super().__init__(text or "")
        self._given = text is not None

    def readline(self, size=-1):
        line = super().readline(size)
        if not line and not self._given:
            raise NothingToRead("this run was given no stdin: pass the answers as stdin, or as values in the code")
        return line

    def fileno(self):
        raise io.UnsupportedOperation("fileno")


def read_answer(prompt=""):
    """input(): the prompt is shown, and a line of stdin is the answer."""
    import sys
    sys.stdout.write(str(prompt))
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError("the stdin of this run has no more lines")
    return line[:-1] if line.endswith("\n") else line
