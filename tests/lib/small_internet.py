#!/usr/bin/env python3
"""An internet of two machines, for what names lead to: here a resolver that is told what to say, there, at a public address, a
server that answers everything with "public". In namespaces of its own: nothing leaves.

    unshare --net --mount small_internet.py ANSWERS COMMAND…

ANSWERS is JSON: {name: [addresses of the first question, addresses of the second …]}, the last for all that follow; null: that
question gets no answer. Who is asked for IPv6 addresses of a name that begins with "half" gives no answer, either. SMALL_INTERNET_RESOLVERS: how many there are to ask; without it, one. Runs the command, and prints
{"stdout", "stderr", "returncode", "questions", "seconds"}.
"""
import http.server
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

PUBLIC, NEAR = "93.184.216.34", "93.184.216.1"
BEHIND = "93.184.217.0/24"  # this machine takes these for its own, and wears none of them
BEHIND_BY_ANOTHER = ("93.184.218.0/24", "2a00:1450:2::/64")  # … and calls them from an address that it does wear


def shell(*words):
    subprocess.run(words, check=True)


def there():
    """The other machine."""
    print("begun", flush=True)
    sys.stdin.readline()
    for words in (("link", "set", "lo", "up"), ("addr", "add", f"{PUBLIC}/24", "dev", "far"), ("link", "set", "far", "up")):
        shell("ip", *words)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"public")

        def log_message(self, *words):
            pass

    server = http.server.HTTPServer((PUBLIC, 80), Handler)
    print("ready", flush=True)
    server.serve_forever()


def answer(question, answers, counts):
    """The reply to a question of DNS, and the name that was asked for."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode())
        at += 1 + question[at]
    name, kind = ".".join(labels), struct.unpack(">H", question[at + 1:at + 3])[0]
    says = answers.get(name.lower(), [[]])
    number = counts.get((name, kind), 0)
    counts[name, kind] = number + 1
    if kind == 28 and name.startswith("half"):
        return name, None
    if says[min(number, len(says) - 1)] is None:
        return name, None
    found = [address for address in says[min(number, len(says) - 1)] if (":" in address) == (kind == 28)]
    records = b""
    for address in found if kind in (1, 28) else []:
        packed = socket.inet_pton(socket.AF_INET6 if kind == 28 else socket.AF_INET, address)
        records += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(packed)) + packed
    known = 0x8180 if name.lower() in answers else 0x8183
    head = question[:2] + struct.pack(">HHHHH", known, 1, len(found) if records else 0, 0, 0)
    return name, head + question[12:at + 5] + records


def here(answers, command):
    shell("ip", "link", "set", "lo", "up")
    other = subprocess.Popen(["unshare", "--net", sys.executable, "-B", __file__, "there"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "begun\n"
        shell("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(other.pid))
        shell("ip", "addr", "add", f"{NEAR}/24", "dev", "near")
        shell("ip", "link", "set", "near", "up")
        shell("ip", "addr", "add", "2a00:1450:1::1/64", "dev", "near", "nodad")
        shell("ip", "route", "add", "local", BEHIND, "dev", "lo")
        for network, source in zip(BEHIND_BY_ANOTHER, (NEAR, "2a00:1450:1::1")):
            shell("ip", "route", "add", "local", network, "dev", "lo", "src", source)
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "ready\n"
        resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        resolver.bind(("", 53))
        questions, counts = [], {}

        def resolve():
            while True:
                question, sender = resolver.recvfrom(4096)
                name, reply = answer(question, answers, counts)
                questions.append(name)
                if reply:
                    resolver.sendto(reply, sender)

        threading.Thread(target=resolve, daemon=True).start()
        with tempfile.TemporaryDirectory() as directory:
            servers = "".join(f"nameserver 127.0.0.{number + 1}\n" for number in range(int(os.environ.get("SMALL_INTERNET_RESOLVERS", 1))))
            for path, text in {"/etc/resolv.conf": f"{servers}search corp.test\n", "/etc/hosts": "127.0.0.1 localhost hosted.test\n"}.items():
                own = pathlib.Path(directory) / pathlib.Path(path).name
                own.write_text(text)
                own.chmod(0o644)
                shell("mount", "--bind", str(own), path)
            started = time.monotonic()
            done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
            seconds = time.monotonic() - started
            for path in ("/etc/resolv.conf", "/etc/hosts"):
                shell("umount", path)
    finally:
        other.kill()
        other.wait()
    print(json.dumps({"stdout": done.stdout.decode(), "stderr": done.stderr.decode(), "returncode": done.returncode,
                      "questions": sorted(set(questions)), "seconds": seconds}))


if __name__ == "__main__":
    there() if sys.argv[1] == "there" else here(json.loads(sys.argv[1]), sys.argv[2:])
