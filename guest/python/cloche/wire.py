"""Messages between the runner and the host, see docs/runner-protocol.md.

A frame is two little-endian 32-bit lengths, a header of JSON and a body of bytes. The host does not trust the runner;
the runner trusts the host, which made it."""
import array
import json
import os
import re
import socket
import struct
import time

LENGTHS = struct.Struct("<II")
HEADER_MAX = 1 << 20
BODY_MAX = 64 << 20
READ_AT_ONCE = 1 << 16
DESCRIPTORS_SPACE = socket.CMSG_SPACE(16 * array.array("i").itemsize)

decode = json.JSONDecoder().scan_once  # what the host sends needs no guess at its encoding, and no search for spaces


def without_nul(text):
    """The host takes no JSON with a NUL in it (nor with half a character, which becomes '?')."""
    return re.sub(r"\\(u0000|.)", lambda escape: "\ufffd" if escape[1] == "u0000" else escape[0], text)


def frame_of(header, body=b""):
    head = without_nul(json.dumps(header, ensure_ascii=False, separators=(",", ":"))).encode("utf-8", "replace")
    return LENGTHS.pack(len(head), len(body)) + head + body


class Closed(Exception):
    """The host is gone."""


class Channel:
    """One end of the socket. Frames are written whole: signals may come, other threads may write too."""

    def __init__(self, fd, lock):
        self.fd = fd
        self.lock = lock
        self.socket = socket.socket(fileno=fd)
        self.received_fds = array.array("i")  # with the message that was read last
        self.pending = b""

    def send(self, header, body=b""):
        self.write_frame(frame_of(header, body))

    def write(self, head, body):
        """The same with a header that is made already."""
        self.write_frame(LENGTHS.pack(len(head), len(body)) + head + body)

    def write_frame(self, frame):
        frame = memoryview(frame)
        with self.lock:
            while frame:
                frame = frame[os.write(self.fd, frame):]

    def receive(self):
        self._need(LENGTHS.size)
        head_length, body_length = LENGTHS.unpack_from(self.pending)
        if head_length > HEADER_MAX or body_length > BODY_MAX:
            raise Closed("the host sent a frame that is too large")
        end = LENGTHS.size + head_length
        self._need(end + body_length)
        header, _ = decode(str(self.pending[LENGTHS.size:end], "utf-8"), 0)
        body = bytes(self.pending[end:end + body_length])
        self.pending = self.pending[end + body_length:]
        return header, body

    def close(self):
        self.socket.close()

    def take_fds(self):
        """The descriptors that came; the caller closes them."""
        taken, self.received_fds = list(self.received_fds), array.array("i")
        return taken

    def expect(self, seconds):
        """A frame is on its way: it is looked for without sleep for a moment, which waking up would take longer than."""
        deadline = time.perf_counter() + seconds
        while not self.pending and time.perf_counter() < deadline:
            try:
                self._read(socket.MSG_DONTWAIT)
            except (BlockingIOError, Closed):
                pass  # who reads next is told

    def _need(self, length):
        """Reads until so much is there; a frame mostly comes in one piece, and the host sends one at a time."""
        while len(self.pending) < length:
            self._read(0)

    def _read(self, flags):
        part, ancillary, _flags, _address = self.socket.recvmsg(READ_AT_ONCE, DESCRIPTORS_SPACE, flags)
        for _level, _type, data in ancillary:
            self.received_fds.frombytes(data[:len(data) - len(data) % self.received_fds.itemsize])
        if not part:
            raise Closed("the host is gone")
        self.pending = bytearray(self.pending) + part if self.pending else part  # mostly all in one piece
