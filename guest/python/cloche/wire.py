"""Messages between the runner and the host, see docs/runner-protocol.md.

A frame is two little-endian 32-bit lengths, a header of JSON and a body of bytes. The host does not trust the runner;
the runner trusts the host, which made it."""
import array
import json
import os
import re
import socket
import struct

LENGTHS = struct.Struct("<II")
HEADER_MAX = 1 << 20
BODY_MAX = 64 << 20
DESCRIPTORS_SPACE = socket.CMSG_SPACE(16 * array.array("i").itemsize)


def without_nul(text):
    """The host takes no JSON with a NUL in it (nor with half a character, which becomes '?')."""
    return re.sub(r"\\(u0000|.)", lambda escape: "\ufffd" if escape[1] == "u0000" else escape[0], text)


class Closed(Exception):
    """The host is gone."""


class Channel:
    """One end of the socket. Frames are written whole: signals may come, other threads may write too."""

    def __init__(self, fd, lock):
        self.fd = fd
        self.lock = lock
        self.socket = socket.socket(fileno=fd)
        self.received_fds = array.array("i")  # with the message that was read last

    def send(self, header, body=b""):
        head = without_nul(json.dumps(header, ensure_ascii=False, separators=(",", ":"))).encode("utf-8", "replace")
        frame = memoryview(LENGTHS.pack(len(head), len(body)) + head + body)
        with self.lock:
            while frame:
                frame = frame[os.write(self.fd, frame):]

    def receive(self):
        head_length, body_length = LENGTHS.unpack(self._read(LENGTHS.size))
        if head_length > HEADER_MAX or body_length > BODY_MAX:
            raise Closed("the host sent a frame that is too large")
        return json.loads(self._read(head_length)), self._read(body_length)

    def close(self):
        self.socket.close()

    def take_fds(self):
        """The descriptors that came; the caller closes them."""
        taken, self.received_fds = list(self.received_fds), array.array("i")
        return taken

    def _read(self, length):
        parts = bytearray()
        while len(parts) < length:
            part, ancillary, _flags, _address = self.socket.recvmsg(length - len(parts), DESCRIPTORS_SPACE)
            for _level, _type, data in ancillary:
                self.received_fds.frombytes(data[:len(data) - len(data) % self.received_fds.itemsize])
            if not part:
                raise Closed("the host is gone")
            parts += part
        return bytes(parts)
