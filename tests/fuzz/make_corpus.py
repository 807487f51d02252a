#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets (those of oci_import_fuzz: make_oci_corpus.py).

usage: make_corpus.py [DIRECTORY]      (default: corpus beside this file)
"""
import json
import pathlib
import struct
import sys

SPECS = {
    "code": {"language": "python", "code": "print(1)", "args": ["a", ""], "env": {"A": "1", "B": "x=y"}},
    "command": {"command": ["make", "-C", "src"], "reads": ["/usr"], "writes": ["/tmp"], "cwd": "/tmp"},
    "limits": {"code": "1", "limits": {"memory": "256M", "cpus": 0.5, "pids": 32, "wall": "1.5s"},
               "compile_limits": {"disk": "1G", "inodes": 100}},
    "files": {"code": "", "inputs": ["/etc/hostname", "/etc:names"], "output": "out", "stdin": "a\0b"},
    "fetch": {"language": "wasm", "code": "(module)", "host": ["wasi", "fetch"], "fetch": ["a.test", "*.b.test:8080", "127.0.0.1=x"]},
    "choices": {"code": "1", "isolation": "process", "image": "data", "accept": ["memory"]},
    "unknown": {"langauge": "python"},
    "types": {"code": 5, "args": "x", "limits": [1]},
    "forbidden": {"code": "1", "reads": ["/proc", "/sys/kernel", "/"]},
    "names": {"code": "1", "inputs": ["/etc:.."], "env": {"A=B": "C"}},
}

LINES = {
    "code": ["-e", "print(1)", "--json", "-q"],
    "cluster": ["-jqm256M", "-t", "10s", "--cpus=50%", "file.py", "-x"],
    "command": ["--read", "./src", "--write", "./build", "--", "make", "-C", "src"],
    "limits": ["--memory", "1.5G", "--wall", "500ms", "--pids", "64", "--disk=100M", "--cpu", "1h", "--output-limit", "0"],
    "wrong": ["--memroy", "lots", "--json=1", "-Z"],
    "numbers": ["0", "1", ".5", "1.", "1e9", "-1", "9223372036854775807", "9223372036854775808", "99999999999999999999"],
    "units": ["1K", "1KiB", "1kb", "1T", "8388607T", "100B", "1ms", "2min", "1h", "50%", "0.001"],
    "fields": ["--input", "a:b", "--env", "A=1", "--cwd", "/x", "--isolation", "process", "--accept", "memory"],
}

CONFIGS = {
    "all": "# comment\n\nmemory = 1G\nmemory.max = 8G\nimage = data\nimage_store = /srv\nisolation = container\n"
           "isolation.min = process\nvet = warn\nvet.min = off\nvet.block_modules = os, shutil\nvet.allow_calls=eval\nfetch.hosts = a.test, *.b.test:80=10.0.0.1\nfetch.wall = 5s\nfetch.ca = /etc/ca.pem\nlanguages = /etc/ruby.json\nlanguages = /etc/perl.json\n",
    "ceilings": "memory.max=100M\nwall.max = 5s\r\npids.max = 10\n\tcpus.max = 50%",
    "contradiction": "memory = 2G\nmemory.max = 1G\n",
    "wrong-line": "memory = 1G\nwall\n",
    "wrong-key": "memory.maximum = 5\n",
    "wrong-value": "isolation = jail\n",
    "zero": "memory = 256M\n\0isolation.min = container\n",
    "no-value": "memory =\n= 5\n",
}

ROW = {"name": "ruby", "extensions": ["rb"], "find": ["/usr/bin/ruby"], "file": "main.rb",
       "run": ["{runtime}", "{code}", "{unknown}", "{", "{tmp}{home}{output}{input}{cpus}"],
       "environment": {"RUBYOPT": "-W0", "T": "{tmp}"}, "missing": "install it", "probe": ["{runtime}", "-v"]}
COMPILED = {"name": "d", "file": "main.d", "run": ["{code}"],
            "compile": {"find": ["/usr/bin/dmd"], "run": ["{compiler}", "-of={artifact}", "{code}"],
                        "artifact": "program", "environment": {"D": "1"}}}
TABLES = {
    "row": ROW, "rows": [ROW, COMPILED], "empty": [], "same-name": [dict(ROW, name="python"), ROW],
    "wrong-key": dict(ROW, fnid=[]), "wrong-file": dict(ROW, file="../x"), "wrong-type": dict(ROW, run="x"),
    "no-artifact": dict(COMPILED, compile={"run": ["x"]}), "not-rows": [5, None],
}

TEXTS = {
    "plain": b"hello, world\n\ttab\r\n",
    "utf8": "é€😀\u00a0".encode(),
    "escapes": b"\x1b[31mred\x1b[0m\x1b]0;title\x07\x7f\x08",
    "c1": b"\xc2\x9b31m\xc2\x85 \x9b31m",
    "cut": b"\xe2\x82 \xf0\x9f\x98 \xc3",
    "overlong": b"\xc0\x9b \xe0\x80\x9b \xf0\x80\x80\x9b",
    "surrogate": b"\xed\xa0\x80 \xf4\x90\x80\x80 \xf8\x88\x80\x80\x80 \xff\xfe",
    "zero": b"a\0b\0",
    "key": b'"stdout_base64',
}


def step(what, name=b"", more=0):
    return bytes([what + 8 * more]) + name + b"\0"


FILE, SPARSE, LINK, FIFO, HARD, ENTER, LEAVE = 0, 1, 2, 3, 4, 5, 7
TREES = {
    "plain": [step(FILE, b"a"), step(ENTER, b"d"), step(FILE, b"b", 4), step(LEAVE), step(FILE, b"set-id", 16)],
    "links": [step(LINK, b"l%d" % i, i) for i in range(6)] + [step(FIFO, b"fifo"), step(HARD, b"hard")],
    "names": [step(FILE, name) for name in (b"a\nb", b"\x1b[31m", b"\xff\xfe", b" ", b"-rf", b"...", b"\xc2\x9b", b"x" * 255)],
    "many": [step(FILE, b"%d" % i, 5) for i in range(20)],
    "sparse": [step(SPARSE, b"large", 30), step(SPARSE, b"small", 1)],
    "deep": [step(ENTER, b"d") for _ in range(9)] + [step(FILE, b"bottom")],
    "temporary": [step(FILE, b".cloche-%d-%d" % (pid, n)) for pid in (1, 2) for n in range(12)],
}
TRAPS = {  # what stands in the caller's directory before: up to seven steps
    "link-at-file": ([step(LINK, b"a", 0)], [step(FILE, b"a")]),
    "link-at-directory": ([step(LINK, b"d", 3)], [step(ENTER, b"d"), step(FILE, b"canary")]),
    "directory-at-file": ([step(ENTER, b"a"), step(FILE, b"kept"), step(LEAVE)], [step(FILE, b"a")]),
    "file-at-directory": ([step(FILE, b"d")], [step(ENTER, b"d"), step(FILE, b"x")]),
    "fifo-at-file": ([step(FIFO, b"a")], [step(FILE, b"a")]),
}

FAILED, SCRATCH, LISTENER, VERIFIED, EXEC_FAILED, CHDIR_FAILED, ENDED = range(1, 8)


def message(kind, code=0, wait_status=0, abi=7, scopes=3, is_layer=0, subject=b"", flags=0, extra=b""):
    body = struct.pack("<IiiiII", kind, code, wait_status, abi, scopes, is_layer) + subject.ljust(64, b"\0")
    return bytes([flags, kind, len(body)]) + extra + body


def conversation(made, ran, inspect_fails=0, listener=1):
    return bytes([inspect_fails, len(made) - 1]) + b"".join(made) + bytes([listener]) + b"".join(ran)


GOOD = [message(SCRATCH, flags=1), message(LISTENER, flags=1), message(VERIFIED)]
CONVERSATIONS = {
    "success": conversation(GOOD, [message(ENDED)]),
    "exit-3": conversation(GOOD, [message(ENDED, wait_status=3 << 8)]),
    "signal": conversation(GOOD, [message(ENDED, wait_status=11)]),
    "nonsense-status": conversation(GOOD, [message(ENDED, wait_status=0xff)]),
    "stopped": conversation(GOOD, [message(ENDED, wait_status=0x7f)]),
    "no-listener": conversation([message(VERIFIED)], [message(ENDED)]),
    "failed": conversation([message(FAILED, code=-1, is_layer=1, subject=b"landlock")], [message(FAILED, code=-5)]),
    "endless-text": conversation([message(FAILED, code=-1, flags=0x20)], [message(FAILED, flags=0x20)]),
    "seen-outside": conversation(GOOD, [message(ENDED)], inspect_fails=1),
    "exec-failed": conversation(GOOD, [message(EXEC_FAILED, code=-2)]),
    "chdir-failed": conversation(GOOD, [message(CHDIR_FAILED, code=-13), message(ENDED)]),
    "silence": conversation([message(9)], []),
    "wrong-size": conversation([message(VERIFIED, flags=0x80, extra=b"\5")], [message(ENDED, flags=0xc4)]),
    "many-descriptors": conversation([message(SCRATCH, flags=3), message(SCRATCH, flags=2), message(VERIFIED, flags=3)],
                                     [message(ENDED, flags=3), message(ENDED, flags=2)]),
    "twice": conversation(2 * [message(SCRATCH, flags=1)] + 2 * [message(LISTENER, flags=1)] + [message(VERIFIED)],
                          2 * [message(ENDED, flags=1)]),
    "twice-seen-outside": conversation([message(LISTENER, flags=1)] + 3 * [message(SCRATCH, flags=1)] +
                                       [message(FAILED, code=-1)], [message(ENDED)], inspect_fails=1),
    "denied": conversation(GOOD, [message(ENDED)], listener=4),
    "contradiction": conversation(GOOD, [message(ENDED, wait_status=256), message(ENDED), message(FAILED, code=-1)]),
}


def frame(header, body=b""):
    """A message of a runner: lengths, header, body."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<II", len(header), len(body)) + header + body


RUNNER_PROTOCOL = {
    "ready": frame({"type": "ready", "run": None, "protocol": 1, "language": "python", "version": "3.11.2"}),
    "streams": frame({"type": "stdout", "run": 1}, b"out\n") + frame({"type": "stderr", "run": None}, b"\xff\0"),
    "result": frame({"type": "result", "run": 2, "kind": "value", "media": [["text/plain", 2], ["image/png", 3]]}, b"42PNG"),
    "progress": frame({"type": "progress", "run": 1, "fraction": 0.4, "text": "x"}) + frame({"type": "progress", "fraction": None}),
    "end": frame({"type": "end", "run": 1, "status": "ok", "duration_us": 5}),
    "error": frame({"type": "end", "run": 1, "status": "error", "duration_us": 5,
                    "error": {"name": "E", "value": "v", "traceback": "t"}}),
    "exit": frame({"type": "end", "run": 1, "status": "exit", "exit_code": 3, "duration_us": 5}),
    "refused": frame({"type": "refused", "text": "no"}),
    "large": struct.pack("<II", 1 << 21, 0),
    "not-json": frame(b"{") + frame(b"[]"),
    "lengths": frame({"type": "result", "kind": "display", "media": [["a/b", 9], ["c/d", -1]]}, b"xy"),
}


WIRE_SPEC = {"code": True, "language": "python", "code_name": "a.py", "image": None, "cwd": "/tmp", "output": "/o", "isolation": 1,
             "command": [], "arguments": ["a", ""], "environment": ["A=1"], "accepted": ["memory"],
             "limits": {"memory": 1 << 28, "wall": 5000}, "compile_limits": {"disk": 1 << 30},
             "grants": [{"kind": 0, "path": "/etc/hostname", "name": "n"}, {"kind": 2, "path": "/tmp"}]}
WIRE = {
    "run": frame({"type": "run", "version": "0.1.0", "spec": WIRE_SPEC}, b"print(1)"),
    "result": frame({"cause": 2, "exit_code": -1, "signal": 9, "detail": "d", "stdout_dropped": 1 << 40, "left_behind": True,
                     "omissions": 3}, b"{}"),
    "error": frame({"kind": 1, "code": -22, "subject": "memory", "text": "no"}),
    "two": frame({"type": "state"}) + frame({"spec": {"isolation": 0, "command": ["ls"]}}),
    "large": struct.pack("<II", 1 << 24, 0) + b"{}",
    "larger-body": struct.pack("<II", 2, 1 << 29) + b"{}",
    "cut": frame({"type": "run"}, b"body")[:-2],
    "not-json": frame(b"{]"), "array": frame(b"[1]"), "empty": frame(b""),
    "wrong-types": frame({"spec": {"isolation": "x", "arguments": [5], "limits": [], "grants": [5]}}),
    "wrong-grants": frame({"spec": {"isolation": 1, "grants": [{"kind": 1 << 40, "path": "/"}]}}),
    "wrong-isolation": frame({"spec": dict(WIRE_SPEC, isolation=-1)}),
    "wrong-error": frame({"kind": 99, "code": 1 << 40, "cause": 99, "detail": 5}),
    "many-grants": frame({"spec": {"isolation": 1, "grants": [{"kind": 1, "path": "/usr"}] * 65}}),
}

PROFILE = {
    "plain": b"a,b,c\n1,2.5,x\n-2,,y\n3,1e3,z\n",
    "quotes": b'a,b\n"1,2","x ""y"" z"\n"line\nbreak","tail"more\n"open',
    "crlf": b"\xef\xbb\xbfa;b\r\n1;2\r\n\r\n3;4\r5;6",
    "tabs": b"when\tok\n2024-01-31\ttrue\n2024-02-30\tFalse\n2024-12-01T10:11:12.5+01:00\tNA\n",
    "ragged": b"a,b\n1\n1,2,3,4\n,,\n",
    "numbers": b"1\n12345678\n123456789\n-1.5\n.5\n5.\n+7\n1e400\n99999999999999999999\n-inf\n1.2.3\n--1\n",
    "not-utf8": b"n\xe4me,\xff\n\xc3,\xed\xa0\x80\n" + b"\xe2\x82" * 150 + b",1\n",
    "no-newline": b"a", "newlines": b"\n\r\n\r\r", "delimiters": b",,,,\n,,,,\n", "quote": b'"', "spaces": b"a b\n 1 \n  \n",
    "wide": b",".join(b"c%d" % i for i in range(1100)) + b"\n" + b"1," * 1100,
    "lines": b'{"a":1,"b":"x"}\n{"b":"2024-01-01","a":1.5,"c":{"d":[1]}}\n{"a":null}\n{broken\n{"a":1,"a":2}\n',
    "array": b'[{"a":"\\u00e9\\ud83d\\ude00\\ud83d","b":true},\n 5, [1,2], "x", {}]',
    "object": b'{"a": {"b": "}"}, "c": [[[[', "strings": b'["\\', "escape": b'[{"\\"":"\\n\\q\\u12"}]',
    "parquet": b"PAR1....PAR1", "zero": b"a,b\n\0,1\n", "binary": bytes(range(256)),
}

# How long what is allowed may be; method; path.
ROUTES = {
    "plain": (20, b"GET", b"/a/x"), "parts": (20, b"DELETE", b"/a/x%20y/b/%41%2f%2E"), "rest": (20, b"HEAD", b"/rest/a/b/c%2fd//"),
    "four": (20, b"GET", b"/a/1/2/3/4"), "five": (20, b"GET", b"/a/1/2/3/4/5"), "allowed": (0, b"BREW", b"/a"), "zero": (9, b"GET", b"/a/%00"),
    "cut": (9, b"GET", b"/a/%4"), "percent": (9, b"GET", b"/a/%"), "no-hex": (9, b"GET", b"/a/%zz"), "empty-part": (9, b"GET", b"/a//"),
    "nothing": (9, b"", b""), "high": (9, b"GET", b"/a/\xff%ff"),
}

SERVER_TEXTS = {
    "range": "bytes=0-99", "range-open": "bytes=5-", "range-end": "bytes=-10", "range-wrong": "bytes=9-1", "range-several": "bytes=0-1,3-4",
    "range-large": "bytes=18446744073709551615-18446744073709551616", "range-signs": "bytes=--5", "range-blanks": "bytes= 5 - 7",
    "content": "bytes 0-99/300", "content-star": "bytes */300", "content-large": "bytes 0-9223372036854775806/9223372036854775807",
    "content-wrong": "bytes 5-1/3", "content-negative": "bytes -1-1/3", "content-more": "bytes 0-1/2 x", "base64": "YWJj", "base64-padding": "YQ==",
    "base64-inside": "YQ==YQ==", "base64-loose": "YR==", "base64-blank": "YWJ ", "base64-dashes": "byte----", "id": "run_0123456789abcdefghijAB", "name": "data.csv", "name-up": "..",
    "name-slash": "a/b", "key": "order-17", "key-control": "a\x01",
}

KEY = {"key": "key_0123456789", "tenant": "acme", "sha256": "ab" * 32, "created_at": 1700000000}
ACCEPTED = {"event": "accepted", "at": 1700000000, "tenant": "acme", "key": "cd" * 32, "hash": "ab" * 32}
OUTCOME = {"event": "outcome", "key": "cd" * 32, "status": 200, "type": "application/json", "bytes": 2, "body": "{}"}


def lines(*objects):
    return b"".join(json.dumps(line).encode() + b"\n" for line in objects)


SERVER_FILES = {
    "keys": b"\0" + lines({"tenant": "acme", "limits": {"runs": 3}}, KEY), "keys-empty": b"\0", "keys-no-limits": b"\0" + lines({"tenant": "a", "limits": {}}), "keys-torn": b"\0" + lines(KEY)[:40],
    "keys-twice": b"\0" + lines(KEY, KEY), "keys-name": b"\0" + lines(dict(KEY, tenant="../x")), "keys-hash": b"\0" + lines(dict(KEY, sha256="zz")),
    "keys-types": b"\0" + lines(dict(KEY, key=5), [1], "x", None), "keys-limits": b"\0" + lines({"tenant": "a", "limits": {"runs": -1, "x": "y"}}),
    "journal": b"\1" + lines(ACCEPTED, OUTCOME), "journal-lost": b"\1" + lines(ACCEPTED), "journal-torn": b"\1" + lines(ACCEPTED, OUTCOME)[:-20],
    "journal-released": b"\1" + lines(ACCEPTED, {"event": "released", "key": "cd" * 32}), "journal-strange": b"\1" + lines(OUTCOME, {"event": "x"}, 5, {}),
    "journal-twice": b"\1" + lines(ACCEPTED, ACCEPTED, OUTCOME, OUTCOME), "journal-zero": b"\1" + b"\0\n" + lines(ACCEPTED),
    "sandboxes": b"\2+ sbx_0123456789012345678901 99999999999999 local\n~ sbx_0123456789012345678901 99999999999998\n- sbx_0123456789012345678901\n",
    "sandboxes-lost": b"\2+ sbx_0123456789012345678901 99999999999999 local\n! sbx_9 1 acme\n", "sandboxes-torn": b"\2+ sbx_01234\n-\n~\n+",
    "sandboxes-long": b"\2+ " + b"s" * 100 + b" 5 " + b"t" * 200 + b"\n", "sandboxes-zero": b"\2+ a 1 b\0\n- a\n",
}


FINDING = {"line": 3, "column": 5, "rule": "call", "message": "eval runs code", "advice": "write the code"}
VET_FACTS = {"imports": ["os"], "missing": [], "network": ["a.example"], "processes": [], "files": ["open"], "pure": False}
VET_REPORTS = {
    "none": {"findings": [], "facts": VET_FACTS}, "one": {"findings": [FINDING], "facts": VET_FACTS},
    "more": {"findings": [FINDING], "facts": None, "more": 3}, "missing": {"findings": [dict(FINDING, rule="missing", severity="note"), dict(FINDING, severity=7)], "facts": VET_FACTS},
    "controls": {"findings": [dict(FINDING, message="a\x1b[2J\0b\n")], "facts": VET_FACTS},
    "many": {"findings": [FINDING] * 51, "facts": VET_FACTS}, "places": {"findings": [dict(FINDING, line=0, column=-1)], "facts": VET_FACTS},
    "types": {"findings": [5, None, []], "facts": {"imports": [1]}, "more": "x"}, "no-facts": {"findings": []},
}


FETCHES = {
    "plain": ("GET", "http://a.test/x?y=1#z"), "post": ("POST", "https://x.b.test", "Content-Type: text/plain\nX: y", "body"),
    "pinned": ("PUT", "http://C.test.:8080/"), "four": ("DELETE", "http://127.0.0.1:8080/"), "six": ("HEAD", "http://[::1]:8080?q"),
    "user": ("GET", "http://a.test@evil.test/"), "back": ("GET", "http://evil.test\\@a.test/"), "octal": ("GET", "http://0177.0.0.1:8080/"),
    "short": ("GET", "http://127.1:8080/"), "hex": ("GET", "http://0x7f000001/"), "mapped": ("GET", "http://[::ffff:127.0.0.1]:8080/"),
    "percent": ("GET", "http://a%2etest/"), "wide": ("GET", "http://\uff41.test/"), "port": ("GET", "http://a.test:99999/"),
    "lines": ("GET", "http://a.test/\r\nX: y"), "own": ("GET", "http://a.test/", "Host: evil.test"), "split": ("GET", "http://a.test/", "X: a\rY: b\n Z"),
    "scheme": ("GET", "file:///etc/passwd"), "method": ("CONNECT", "http://a.test/"), "zero": ("GET", "http://a.test\0.evil/"), "dots": ("GET", "http://a.test/../..//%2e"),
}


def fetch_seed(method, url, headers="", body=""):
    parts = [part.encode() for part in (method, url, headers, body)]
    return bytes(len(part) for part in parts[:3]) + b"".join(parts)


def seeds():
    yield from (("fetch_request", name, fetch_seed(*parts)) for name, parts in FETCHES.items())
    yield from (("vet_report", name, json.dumps(report).encode()) for name, report in VET_REPORTS.items())
    yield "vet_report", "not-utf8", b'{"findings": [{"message": "\xff"}]}'
    yield from (("spec_json", name, json.dumps(spec).encode()) for name, spec in SPECS.items())
    yield "spec_json", "twice", b'{"code": "1", "code": "2"}'
    yield "spec_json", "not-utf8", b'{"code": "\xff"}'
    yield from (("option_values", name, "\0".join(line).encode()) for name, line in LINES.items())
    yield from (("config", name, text.encode()) for name, text in CONFIGS.items())
    yield from (("language_table", name, json.dumps(table).encode()) for name, table in TABLES.items())
    yield from (("terminal_text", name, text) for name, text in TEXTS.items())
    yield from (("collected_names", name, b"\0" + b"".join(steps)) for name, steps in TREES.items())
    yield from (("collected_names", name, bytes([len(before)]) + b"".join(before) + b"".join(steps))
                for name, (before, steps) in TRAPS.items())
    yield from (("init_messages", name, text) for name, text in CONVERSATIONS.items())
    yield from (("runner_protocol", name, text) for name, text in RUNNER_PROTOCOL.items())
    yield from (("wire", name, text) for name, text in WIRE.items())
    yield from (("profile", name, text) for name, text in PROFILE.items())
    yield from (("route", name, bytes([room]) + method + b"\0" + path) for name, (room, method, path) in ROUTES.items())
    yield from (("server_texts", name, bytes([200, 1]) + text.encode()) for name, text in SERVER_TEXTS.items())
    yield from (("server_files", name, text) for name, text in SERVER_FILES.items())


def main():
    top = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus"
    for target, name, content in seeds():
        path = top / target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
