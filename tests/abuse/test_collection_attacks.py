"""/data/output as an attacker leaves it: only regular files come out, and the caller's disk is never written elsewhere."""
import base64
import os
import pathlib
import stat
import subprocess
import time

import attack
import box
import pytest


@pytest.fixture
def canary(tmp_path):
    """A file of the host that every attack would like to have or to change."""
    path = tmp_path / "canary"
    path.write_text("CANARY-OF-THE-HOST")
    os.chmod(path, 0o644)
    os.chmod(tmp_path, 0o755)
    yield path
    assert path.read_text() == "CANARY-OF-THE-HOST"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def collected(out):
    """Everything below the output directory: relative path (bytes) to its lstat."""
    found = {}
    for top, directories, files in os.walk(os.fsencode(out)):
        for name in directories + files:
            path = os.path.join(top, name)
            found[os.path.relpath(path, os.fsencode(out))] = os.lstat(path)
    return found


def only_regular(out):
    entries = collected(out)
    for path, status in entries.items():
        assert stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode), path
        assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX), path
        assert status.st_uid == 0 and status.st_nlink == 1 or stat.S_ISDIR(status.st_mode), path
        assert b"\n" not in path and b"\x1b" not in path
    return {path for path, status in entries.items() if stat.S_ISREG(status.st_mode)}


def omitted(result):
    return {item["path"]: item["reason"] for item in result.not_collected}


def test_symlinks_are_left_out(engine, out, canary):
    code = (f"import os\nos.symlink({str(canary)!r}, 'absolute'); os.symlink('../../../../../..{canary}', 'relative'); os.symlink('nowhere', 'dangling')\n"
            "os.symlink('/etc/shadow', 'shadow'); os.symlink('/proc/self/environ', 'environ'); os.symlink('self', 'self'); os.symlink('/', 'root')\n"
            "os.mkdir('d'); os.symlink('/etc', 'd/etc'); open('real', 'w').write('1')")
    result = box.python(code, "--output", out, engine=engine)
    assert only_regular(out) == {b"real"}
    assert set(omitted(result)) == {"absolute", "relative", "dangling", "shadow", "environ", "self", "root", "d/etc"}
    assert all("regular" in reason for reason in omitted(result).values())


def test_directory_loops_end(engine, out):
    code = "import os\nos.mkdir('a'); os.symlink('..', 'a/up'); os.symlink('.', 'a/here'); os.symlink('../a', 'a/again'); open('a/f', 'w').write('1')"
    result, seconds = attack.timed(box.python, code, "--output", out, engine=engine)
    assert only_regular(out) == {b"a/f"} and seconds < 3
    assert len(result.not_collected) == 3


def test_fifo_does_not_hold_the_collection(engine, out):
    code = "import os\nos.mkfifo('pipe'); os.mkfifo('.hidden'); open('f', 'w').write('1')"
    result, seconds = attack.timed(box.python, code, "--output", out, engine=engine)
    assert only_regular(out) == {b"f"} and seconds < 3 and set(omitted(result)) == {"pipe", ".hidden"}


def test_fifo_with_a_writer_that_lives_on(engine, out):
    """A daemon holds the pipe open; it is dead before the collection looks."""
    code = "import os, time\nos.mkfifo('pipe')\nif os.fork() == 0:\n  os.setsid(); fd = os.open('pipe', os.O_RDWR); os.write(fd, b'x' * 60000); time.sleep(60)\ntime.sleep(0.3)"
    result, seconds = attack.timed(box.python, code, "--output", out, engine=engine)
    assert only_regular(out) == set() and seconds < 3 and result.cause == "exit"


def test_socket_is_left_out(out):
    code = "import socket\ns = socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen(); open('f', 'w').write('1')"
    result = box.python(code, "--output", out)
    assert only_regular(out) == {b"f"} and set(omitted(result)) == {"sock"}, result


def test_device_cannot_be_made(engine, out):
    code = "import os\nfor m in (0o20666, 0o60666):\n  try: os.mknod('dev', m, os.makedev(1, 3)); print('WORKED')\n  except OSError: pass"
    result = box.python(code, "--output", out, engine=engine)
    assert result.stdout == "" and only_regular(out) == set()


def test_hardlinks_become_files_of_their_own(engine, out):
    code = "import os\nopen('one', 'w').write('same')\nos.link('one', 'two')"
    result = box.python(code, "--output", out, engine=engine)
    assert only_regular(out) == {b"one", b"two"}
    assert (out / "one").stat().st_ino != (out / "two").stat().st_ino and result.files[0]["sha256"] == result.files[1]["sha256"]


def test_hardlinks_to_files_that_are_not_the_box_own(engine, out, canary):
    code = (f"import os\nfor p in ({str(canary)!r}, '/etc/passwd', '/usr/bin/true', '/proc/self/environ', os.path.abspath(__file__), '/etc/shadow'):\n"
            "  try: os.link(p, 'l' + str(abs(hash(p)))); print('LINKED', p)\n  except OSError: pass")
    result = box.python(code, "--output", out, engine=engine)
    assert "CANARY" not in result.stdout and result.stdout == "", result
    assert only_regular(out) == set()


def test_thousand_levels(engine, out):
    code = "import os\nfor i in range(1000):\n  os.mkdir('d'); os.chdir('d')\nopen('bottom', 'w').write('1')\nos.chdir(os.environ['CLOCHE_OUTPUT']); open('top', 'w').write('1')"
    result, seconds = attack.timed(box.python, code, "--output", out, "--wall", "10s", engine=engine)
    assert seconds < 6 and (b"top" in only_regular(out) or (engine == "process" and result.cause == "disk")), result
    if result.cause != "disk":  # the process engine's watchdog does not follow that deep, and ends what it cannot count
        assert any("deep" in reason or "long" in reason for reason in omitted(result).values()), omitted(result)


def test_levels_that_are_allowed_come_out(engine, out):
    code = "import os\nfor i in range(30):\n  os.mkdir('d'); os.chdir('d')\nopen('bottom', 'w').write('1')"
    box.python(code, "--output", out, engine=engine)
    assert only_regular(out) == {b"d/" * 30 + b"bottom"}


def test_thirty_thousand_entries():
    """More than the collection wants to look at: it says so and ends soon."""
    code = "import os\nfor i in range(30000): os.close(os.open(f'{i}', os.O_CREAT | os.O_WRONLY))"
    result, seconds = attack.timed(box.python, code, "--inodes", "40000", "--wall", "20s")
    assert result.cause == "exit" and len(result.files) == 1000 and seconds < 15, (seconds, result.cause)
    assert 100 <= len(result.not_collected) <= 101
    left_out = len(result.not_collected) + result.not_collected_more
    assert left_out == 29000 or any("rest" in item["reason"] for item in result.not_collected), \
        f"{left_out} of 29000 are accounted for, and nothing says that the rest was not looked at"


def test_thirty_thousand_entries_when_they_are_wanted():
    count = 3000 if attack.SANITIZED else 30000
    code = f"import os\nfor i in range({count}): os.close(os.open(str(i), os.O_CREAT | os.O_WRONLY))"
    result, seconds = attack.timed(box.python, code, "--inodes", "40000", "--collect-files", "50000", "--wall", "20s")
    assert len(result.files) == count and result.not_collected == [] and seconds < 20


NAMES = {
    "newline": b"new\nline", "escape": b"\x1b[2Jx", "tab": b"a\tb", "delete": b"a\x7f", "bell": b"a\x07", "return": b"a\rb",
    "invalid": b"\xff\xfe", "latin": "é".encode("latin-1"), "overlong": b"\xc0\xaf", "half": b"\xe2\x82", "dots": b"...", "dots-space": b".. ",
    "backslash": b"..\\..\\x", "percent": b"%2e%2e%2fx", "dash": b"-rf", "tilde": b"~root", "star": b"*", "space": b" ", "long": b"n" * 255,
    "quote": b"'\"`$(id)", "hidden": b".bashrc", "unicode-slash": "a∕b".encode(), "right-to-left": "a\u202eb".encode(), "colon": b"C:x",
    "temporary": b".cloche-1-1", "null-word": b"NUL", "c1": "a\x9bb".encode(),
}


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_come_out_as_they_are_or_are_named_as_left_out(engine, out, name):
    raw = NAMES[name]
    code = f"open({raw!r}, 'w').write('1')\nopen('plain', 'w').write('2')"
    result = box.python(code, "--output", out, engine=engine)
    found = only_regular(out)
    listed = [base64.b64decode(item["path_base64"]) if "path_base64" in item else item["path"].encode() for item in (*result.files, *result.not_collected)]
    assert sorted(listed) == sorted([raw, b"plain"]), result
    assert b"plain" in found and found <= {raw, b"plain"}
    has_control = any(byte < 0x20 or byte == 0x7f for byte in raw)
    assert (raw in found) != has_control or name == "c1", (found, omitted(result))


def test_names_that_try_to_climb(engine, out):
    """A name cannot hold a slash, and . and .. cannot be made: the kernel says so, and nothing is above the directory."""
    code = ("import os\nfor n in ('..', '../escaped', './../escaped', '../../escaped', '/escaped'):\n  try: open(n, 'w').write('x'); print('WROTE', n)\n  except OSError: pass\n"
            "os.makedirs('a/b', exist_ok=True); open('a/b/../../f', 'w').write('1')")
    result = box.python(code, "--output", out, engine=engine)
    assert only_regular(out) == {b"f"} and os.listdir(out.parent) == ["out"], result
    assert "/escaped" not in result.stdout.replace("../", "") or result.stdout == ""


def test_file_that_nobody_may_read(engine, out):
    code = "import os\nopen('closed', 'w').write('1'); os.chmod('closed', 0); os.mkdir('door'); open('door/f', 'w').write('1'); os.chmod('door', 0)"
    result = box.python(code, "--output", out, engine=engine)
    # started by root, the launcher may read them; what it cannot it must name
    assert only_regular(out) | {path.encode() for path in omitted(result)} == {b"closed", b"door/f"} or \
        only_regular(out) | {path.encode() for path in omitted(result)} == {b"closed", b"door"}
    for path, status in collected(out).items():
        assert status.st_mode & 0o400


def test_output_directory_that_is_closed_or_replaced(engine, out, canary):
    """The directory itself is the attacker's: closed, renamed, removed, covered by a link."""
    code = (f"import os, shutil\no = os.environ['CLOCHE_OUTPUT']\nopen('f', 'w').write('1')\n"
            f"for act in (lambda: os.rename(o, o + '2'), lambda: os.rmdir(o), lambda: shutil.rmtree(o), lambda: os.symlink({str(canary.parent)!r}, o), lambda: os.chmod(o, 0)):\n"
            "  try: act(); print('did')\n  except OSError as e: pass")
    result = box.python(code, "--output", out, engine=engine)
    assert result.cause == "exit", result
    assert only_regular(out) <= {b"f"} and "canary" not in [file["path"] for file in result.files]


SWAP = """
import os, time
canary = {canary!r}
if os.fork() == 0:
    os.setsid()
    for n in range(1, 65):
        try: __import__('signal').signal(n, 1)
        except (OSError, ValueError): pass
    open('plain', 'w').write('plain')
    os.mkdir('dir'); os.symlink(os.path.dirname(canary), 'link'); os.symlink(canary, 'linkfile')
    libc = __import__('ctypes').CDLL(None)
    while True:
        libc.renameat2(-100, b'plain', -100, b'linkfile', 2)
        libc.renameat2(-100, b'dir', -100, b'link', 2)
time.sleep(0.3)
"""


def test_files_swapped_while_they_are_collected(engine, tmp_path, canary):
    """A daemon exchanges files for links as fast as it can; whatever is caught, it is never the host's."""
    for attempt in range(6):
        out = tmp_path / f"out{attempt}"
        result = box.python(SWAP.format(canary=str(canary)), "--output", out, "--wall", "4s", engine=engine)
        assert result.cause == "exit", result
        for path in out.rglob("*") if out.exists() else ():
            assert not path.is_symlink()
            assert not path.is_file() or b"CANARY" not in path.read_bytes()
        assert "canary" not in {pathlib.Path(file["path"]).name for file in result.files}


def test_existing_links_in_the_caller_directory_are_not_followed(engine, tmp_path, canary):
    """Two runs into the same directory: the first cannot leave a link for the second to fall into."""
    out = tmp_path / "out"
    box.python(f"import os\nos.symlink({str(canary)!r}, 'x'); os.symlink({str(canary.parent)!r}, 'd')", "--output", out, engine=engine)
    box.python("import os\nopen('x', 'w').write('second')\nos.mkdir('d'); open('d/canary', 'w').write('overwritten')", "--output", out, engine=engine)
    assert (out / "x").read_text() == "second" and canary.read_text() == "CANARY-OF-THE-HOST"


def test_directory_in_place_of_a_file_and_the_other_way_round(engine, out):
    out.mkdir()
    (out / "d").write_text("a file of the caller's")
    (out / "f").mkdir()
    result = box.python("import os\nos.mkdir('d'); open('d/x', 'w').write('1'); open('f', 'w').write('2'); open('fine', 'w').write('3')", "--output", out,
                        engine=engine)
    assert result.cause == "exit" and (out / "fine").read_text() == "3", result
    assert set(omitted(result)) == {"d/x", "f"} and (out / "d").read_text() == "a file of the caller's" and (out / "f").is_dir()


def test_setuid_and_sticky_bits_do_not_come_out(engine, out):
    code = "import os\nopen('x', 'w').write('#!/bin/sh')\nfor m in (0o1777, 0o4755, 0o2755, 0o777):\n  try: os.chmod('x', m)\n  except OSError: pass"
    box.python(code, "--output", out, engine=engine)
    assert only_regular(out) == {b"x"} and not (out / "x").stat().st_mode & 0o7022


def test_file_that_grows_while_it_is_read_cannot_be(engine, out):
    """Its writer is dead by then: the size that is told is the size that was read."""
    code = "import os, time\nif os.fork() == 0:\n  os.setsid(); f = open('grows', 'wb')\n  while True: f.write(bytes(4096)); f.flush()\ntime.sleep(0.3)"
    result = box.python(code, "--output", out, "--disk", "500M", "--memory", "1G", "--collect", "500M", "--wall", "4s", engine=engine)
    for file in result.files:
        assert (out / file["path"]).stat().st_size == file["size"]


def test_only_the_names_are_shown_to_a_caller_who_wants_no_files(engine):
    """Without --output nothing is written anywhere."""
    here = set(os.listdir("."))
    result = box.python("open('x', 'w').write('1')", engine=engine)
    assert [file["path"] for file in result.files] == ["x"] and set(os.listdir(".")) == here


def test_caller_who_is_interrupted_while_collecting_gets_no_half_files(tmp_path, engine):
    """kill -9 in the middle of it: under the final names there are only whole files."""
    code = "import os\nfor i in range(60): open(f'{i}', 'wb').write(os.urandom(1) * (1 << 20))"
    for delay in (0.15, 0.25, 0.35):
        out = tmp_path / str(delay)
        process = subprocess.Popen([box.CLOCHE, "run", "-q", "--isolation", engine, "--output", out, "-e", code])
        time.sleep(delay)
        process.kill()
        process.wait()
        for path in out.rglob("*") if out.exists() else ():
            assert path.name.startswith(".cloche-") or path.stat().st_size == 1 << 20, path
    assert box.raw("reap").returncode == 0
