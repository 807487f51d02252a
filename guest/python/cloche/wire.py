"""Messages between the runner and the host, see docs/runner-protocol.md.

A frame is two little-endian 32-bit lengths, a header of JSON and a body of bytes. The host does not trust the runner;
the runner trusts the host, which made it."""
import json
import os
import re
import struct
import threading

LENGTHS = struct.Struct("<II")
HEADER_MAX = 1 << 20
BODY_MAX = 64 << 20


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
        self.writer = None  # the thread that writes a frame: an interrupt must not cut it
        self.written = lambda: None

    def send(self, header, body=b""):
        head = without_nul(json.dumps(header, ensure_ascii=False, separators=(",", ":"))).encode("utf-8", "replace")
        frame = memoryview(LENGTHS.pack(len(head), len(body)) + head + body)
        with self.lock:
            self.writer = threading.get_ident()
            while frame:
                frame = frame[os.write(self.fd, frame):]
            self.writer = None
        self.written()

    def receive(self):
        head_length, body_length = LENGTHS.unpack(self._read(LENGTHS.size))
        if head_length > HEADER_MAX or body_length > BODY_MAX:
            raise Closed("the host sent a frame that is too large")
        return json.loads(self._read(head_length)), self._read(body_length)

    def _read(self, length):
        parts = bytearray()
        while len(parts) < length:
            part = os.read(self.fd, length - len(parts))
            if not part:
                raise Closed("the host is gone")
            parts += part
        return bytes(parts)
