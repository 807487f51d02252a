"""Files in and out: inputs, collected outputs, and grants of host paths."""
import hashlib
import os
import pathlib
import shutil
import stat
import subprocess
import threading

import box
import pytest


def show(path):
    """Python code that prints what is at a path."""
    return f"print(open({str(path)!r}).read())"


INPUT = "import os\nIN = os.environ['CLOCHE_INPUT']\n"


# inputs

def test_input_file_is_seen_by_its_name(engine, shared):
    (shared / "sales.csv").write_text("a,b\n1,2\n")
    result = box.python(INPUT + "print(os.listdir(IN), open(IN + '/sales.csv').read())", "--input", shared / "sales.csv", engine=engine)
    assert result.stdout == "['sales.csv'] a,b\n1,2\n\n", result


def test_input_is_in_data_input():
    assert box.python(INPUT + "print(IN)").stdout == "/data/input\n"


@pytest.mark.parametrize("sizes", [[4 << 20], [800 << 10, 800 << 10]], ids=["one", "together"])
def test_large_input_of_the_process_engine_is_not_copied_into_memory(shared, sizes):
    """No limit of the box is for it: the host's memory would have to hold a file of any size."""
    given = []
    for i, size in enumerate(sizes):
        (shared / f"input{i}").write_bytes(bytes(size))
        given += ["--input", shared / f"input{i}"]
    result = box.python(INPUT + "print(IN.startswith('/dev/shm/'), [os.path.getsize(f'{IN}/{name}') for name in sorted(os.listdir(IN))])", *given,
                        engine="process")
    assert result.stdout == f"False {sizes}\n", result


def test_input_can_have_another_name(engine, shared):
    (shared / "a").write_text("x")
    result = box.python(INPUT + "print(os.listdir(IN))", "--input", f"{shared}/a:b.txt", engine=engine)
    assert result.stdout == "['b.txt']\n"


def test_input_with_a_colon_in_its_path(engine, shared):
    (shared / "a:b").mkdir()
    (shared / "a:b" / "c").write_text("x")
    result = box.python(INPUT + "print(os.listdir(IN))", "--input", f"{shared}/a:b/c", engine=engine)
    assert result.stdout == "['c']\n"


def test_input_directory_is_seen_whole(engine, shared):
    (shared / "tree" / "deep").mkdir(parents=True)
    (shared / "tree" / "deep" / "leaf").write_text("green")
    (shared / "tree" / "link").symlink_to("deep/leaf")
    result = box.python(INPUT + "print(open(IN + '/tree/deep/leaf').read(), open(IN + '/tree/link').read())", "--input",
                        shared / "tree", engine=engine)
    assert result.stdout == "green green\n", result


def test_many_inputs(engine, shared):
    for i in range(40):
        (shared / f"f{i}").write_text(str(i))
    inputs = [word for i in range(40) for word in ("--input", shared / f"f{i}")]
    result = box.python(INPUT + "print(sum(int(open(f'{IN}/f{i}').read()) for i in range(40)))", *inputs, engine=engine)
    assert result.stdout == "780\n"


def test_input_that_only_root_may_read_is_readable_inside(engine, tmp_path):
    secret = tmp_path / "mine"
    secret.write_text("for you")
    os.chmod(secret, 0o600)
    result = box.python(INPUT + "print(open(IN + '/mine').read())", "--input", secret, engine=engine)
    assert result.stdout == "for you\n", result
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600 and secret.stat().st_uid == 0


def test_input_directory_that_only_root_may_enter_is_readable_inside(engine, tmp_path):
    (tmp_path / "d").mkdir(mode=0o700)
    (tmp_path / "d" / "f").write_text("for you")
    os.chmod(tmp_path / "d" / "f", 0o600)
    done = box.raw("run", "--isolation", engine, "--input", tmp_path / "d", "-e", INPUT + "print(open(IN + '/d/f').read())")
    if engine == "process" and done.returncode == box.LAYER_MISSING:  # said before anything ran, with the way out
        assert str(tmp_path / "d").encode() in done.stderr and b"--isolation container" in done.stderr
        return
    assert done.stdout == b"for you\n", done


def test_input_of_another_user_is_readable_inside(engine, tmp_path):
    path = tmp_path / "theirs"
    path.write_text("for you")
    os.chown(path, 12345, 12345)
    os.chmod(path, 0o600)
    result = box.python(INPUT + "print(open(IN + '/theirs').read())", "--input", path, engine=engine)
    assert result.stdout == "for you\n", result


ATTACKS = """
import os
def attempt(what, *args):
    try: what(*args); print('WORKED', what.__name__, args)
    except OSError as e: print('ok' if e.errno in (1, 13, 30, 95) else ('STRANGE', e, args))
f, d = IN + '/tree/f', IN + '/tree'
attempt(open, f, 'w'); attempt(open, f, 'a'); attempt(open, f, 'r+'); attempt(os.truncate, f, 0)
attempt(open, d + '/new', 'w'); attempt(os.mkdir, d + '/newdir'); attempt(os.unlink, f); attempt(os.rename, f, d + '/g')
attempt(os.chmod, f, 0o666); attempt(os.chmod, d, 0o777); attempt(os.utime, f); attempt(os.symlink, 'x', d + '/l')
attempt(os.chown, f, os.getuid(), os.getgid()); attempt(os.setxattr, f, 'user.x', b'1'); attempt(os.rmdir, d)
attempt(open, IN + '/new', 'w'); attempt(os.rename, IN, IN + '2'); attempt(os.mkfifo, d + '/p')
"""


def test_input_cannot_be_written(engine, shared):
    (shared / "tree").mkdir()
    (shared / "tree" / "f").write_text("original")
    os.chmod(shared / "tree", 0o777)
    os.chmod(shared / "tree" / "f", 0o666)
    before = (shared / "tree" / "f").stat()
    result = box.python(INPUT + ATTACKS, "--input", shared / "tree", engine=engine)
    assert set(result.stdout.splitlines()) == {"ok"}, result
    after = (shared / "tree" / "f").stat()
    assert (shared / "tree" / "f").read_text() == "original" and os.listdir(shared / "tree") == ["f"]
    assert (before.st_mode, before.st_uid, before.st_mtime_ns, before.st_ino) == (after.st_mode, after.st_uid, after.st_mtime_ns, after.st_ino)


def test_input_file_cannot_be_written_by_a_copy_to_it(engine, shared):
    (shared / "f").write_text("original")
    os.chmod(shared / "f", 0o666)
    code = INPUT + "for mode in ('w', 'a', 'r+'):\n  try: open(IN + '/f', mode).write('changed'); print('WORKED')\n  except OSError as e: print(e.errno)"
    result = box.python(code, "--input", shared / "f", engine=engine)
    assert "WORKED" not in result.stdout and (shared / "f").read_text() == "original"


def test_input_written_by_the_weakened_box():
    """The control: without the protecting step the same write succeeds."""
    path = pathlib.Path("/tmp/integration-control-input")
    path.write_text("original")
    os.chmod(path, 0o666)
    try:
        code = INPUT + "open(IN + '/integration-control-input', 'w').write('changed'); print('WORKED')"
        result = box.python(code, "--input", path, weaken="input_read_only,landlock")
        assert result.stdout == "WORKED\n" and path.read_text() == "changed", result
    finally:
        path.unlink()


def test_input_link_gives_what_it_points_to_and_no_more(engine, shared):
    (shared / "real").write_text("content")
    (shared / "link").symlink_to(shared / "real")
    result = box.python(INPUT + "print(os.listdir(IN), open(IN + '/link').read())", "--input", shared / "link", engine=engine)
    assert result.stdout == "['link'] content\n"


def test_link_inside_an_input_directory_does_not_lead_to_the_host(engine, shared):
    canary = shared / "canary"
    canary.write_text("host secret")
    (shared / "in").mkdir()
    (shared / "in" / "out").symlink_to(canary)
    (shared / "in" / "up").symlink_to("../canary")
    code = INPUT + "for n in ('out', 'up'):\n  try: print(open(IN + '/in/' + n).read())\n  except OSError: print('no')"
    result = box.python(code, "--input", shared / "in", engine=engine)
    assert result.stdout == "no\nno\n", result


def test_input_that_cannot_be_given_is_refused(shared):
    os.mkfifo(shared / "fifo")
    for path, word in ((shared / "nothing", "No such file"), (shared / "fifo", "neither"), ("/dev/null", "neither"), ("", "empty"),
                       (f"{shared}/nothing:x", "No such file")):
        done = box.raw("run", "--input", path, "-e", "print(1)")
        assert done.returncode == box.BAD_SPEC and done.stdout == b"" and b"input" in done.stderr and word.encode() in done.stderr, done


def test_input_names_that_cannot_be_names_are_refused(shared):
    (shared / "a").write_text("x")
    for name in (".", "..", "x" * 256):
        done = box.raw("run", "--input", f"{shared}/a:{name}", "-e", "print(1)")
        assert done.returncode == box.BAD_SPEC and b"input" in done.stderr, done


def test_two_inputs_of_one_name_are_refused(shared):
    (shared / "d").mkdir()
    for place in (shared, shared / "d"):
        (place / "same").write_text("x")
    done = box.raw("run", "--input", shared / "same", "--input", shared / "d" / "same", "-e", "print(1)")
    assert done.returncode == box.BAD_SPEC and b"same" in done.stderr and b"PATH:NAME" in done.stderr


def test_large_input_does_not_count_as_disk_or_memory(engine, shared):
    with open(shared / "big", "wb") as file:
        for _ in range(80):
            file.write(os.urandom(1 << 20))
    code = INPUT + ("import hashlib\nh = hashlib.sha256()\nwith open(IN + '/big', 'rb') as f:\n  while b := f.read(1 << 20): h.update(b)\n"
                    "print(h.hexdigest())")
    result = box.python(code, "--input", shared / "big", "--memory", "64M", "--disk", "1M", engine=engine)
    assert result.stdout.strip() == hashlib.sha256((shared / "big").read_bytes()).hexdigest(), result


# outputs

def tree_of(path):
    return {str(found.relative_to(path)): found for found in path.rglob("*") if found.is_file()}


def test_output_is_collected_with_sizes_and_hashes(engine, tmp_path):
    code = ("import os\nos.makedirs('a/b/c')\nopen('top.bin', 'wb').write(bytes(range(256)) * 100)\nopen('a/b/c/deep.txt', 'w').write('deep')\n"
            "open('empty', 'w')\nopen('näme ✓.txt', 'w').write('u')\nopen('.hidden', 'w').write('h')")
    result = box.python(code, "--output", tmp_path / "out", engine=engine)
    found = tree_of(tmp_path / "out")
    assert set(found) == {"top.bin", "a/b/c/deep.txt", "empty", "näme ✓.txt", ".hidden"}
    assert {file["path"] for file in result.files} == set(found)
    for file in result.files:
        content = found[file["path"]].read_bytes()
        assert (file["size"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert result.not_collected == []


def test_output_without_a_directory_is_hashed_all_the_same(engine):
    result = box.python("open('x', 'w').write('abc')", engine=engine)
    assert result.files[0]["sha256"] == hashlib.sha256(b"abc").hexdigest()


def test_output_directory_is_made_with_its_parents(engine, tmp_path):
    box.python("open('x', 'w').write('1')", "--output", tmp_path / "a" / "b" / "c", engine=engine)
    assert (tmp_path / "a" / "b" / "c" / "x").read_text() == "1"


def test_output_belongs_to_the_caller_and_keeps_the_exec_bit(engine, tmp_path):
    code = ("import os\nfor n, m in (('plain', 0o600), ('tool', 0o755), ('readonly', 0o444)):\n  open(n, 'w').write('#!/bin/sh\\n'); os.chmod(n, m)")
    box.python(code, "--output", tmp_path, engine=engine)
    for name, executable in (("plain", False), ("tool", True), ("readonly", False)):
        status = (tmp_path / name).stat()
        assert (status.st_uid, status.st_gid) == (0, 0)
        assert bool(status.st_mode & 0o111) == executable
        assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID | 0o022)


def test_output_replaces_what_was_there(engine, tmp_path):
    (tmp_path / "x").write_text("old and longer")
    box.python("open('x', 'w').write('new')", "--output", tmp_path, engine=engine)
    assert (tmp_path / "x").read_text() == "new" and os.listdir(tmp_path) == ["x"]


def test_output_does_not_follow_links_that_were_there(engine, tmp_path):
    (tmp_path / "precious").write_text("untouched")
    (tmp_path / "elsewhere").mkdir()
    out = tmp_path / "out"
    out.mkdir()
    (out / "x").symlink_to(tmp_path / "precious")
    (out / "d").symlink_to(tmp_path / "elsewhere")
    result = box.python("import os\nopen('x', 'w').write('new')\nos.mkdir('d')\nopen('d/y', 'w').write('1')", "--output", out, engine=engine)
    assert (tmp_path / "precious").read_text() == "untouched" and os.listdir(tmp_path / "elsewhere") == []
    assert (out / "x").read_text() == "new" and not (out / "x").is_symlink()
    assert [(item["path"], "place" in item["reason"]) for item in result.not_collected] == [("d/y", True)], result


def test_output_of_a_failed_run_is_collected_too(engine, tmp_path):
    result = box.python("open('x', 'w').write('so far'); raise SystemExit(3)", "--output", tmp_path / "a", engine=engine)
    assert result.exit_code == 3 and (tmp_path / "a" / "x").read_text() == "so far"
    result = box.python("open('x', 'w').write('so far'); import time; time.sleep(9)", "--wall", "500ms", "--output", tmp_path / "b",
                        engine=engine)
    assert result.cause == "wall_time" and (tmp_path / "b" / "x").read_text() == "so far"


def test_partial_collection_by_number_says_what_is_left_out(engine, tmp_path):
    code = "for i in range(10): open(f'{i}', 'w').write('x')"
    result = box.python(code, "--collect-files", "4", "--output", tmp_path, engine=engine)
    assert len(result.files) == len(os.listdir(tmp_path)) == 4
    assert len(result.not_collected) == 6 and all("collect_files" in item["reason"] for item in result.not_collected)
    assert {file["path"] for file in result.files} | {item["path"] for item in result.not_collected} == set("0123456789")


def test_partial_collection_by_size_says_what_is_left_out(engine, tmp_path):
    code = "open('big', 'wb').write(bytes(3 << 20)); open('small', 'wb').write(bytes(1000))"
    result = box.python(code, "--collect", "1M", "--output", tmp_path, engine=engine)
    assert os.listdir(tmp_path) == ["small"]
    assert [(item["path"], "collect" in item["reason"]) for item in result.not_collected] == [("big", True)]
    done = box.raw("run", "--isolation", engine, "--collect", "1M", "-e", code)
    assert b"big" in done.stderr and b"not collected" in done.stderr and done.returncode == 0


def test_sizes_are_counted_together(engine, tmp_path):
    code = "for i in range(5): open(f'{i}', 'wb').write(bytes(400 << 10))"
    result = box.python(code, "--collect", "1M", "--output", tmp_path, engine=engine)
    assert len(result.files) == 2 and len(result.not_collected) == 3


def test_collecting_nothing_is_possible(engine, tmp_path):
    result = box.python("open('x', 'w').write('1')", "--collect-files", "0", "--output", tmp_path, engine=engine)
    assert result.files == [] and len(result.not_collected) == 1


def test_many_omissions_are_counted(engine):
    result = box.python("import os\nfor i in range(250): os.symlink('x', f'l{i}')", engine=engine)
    assert len(result.not_collected) + result.not_collected_more == 250


def test_output_directory_that_cannot_be_written_is_an_error_and_not_a_success(engine, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    done = box.raw("run", "--isolation", engine, "--output", tmp_path / "file", "-e", "open('x', 'w').write('1')")
    assert done.returncode in (box.HOST_FAILURE, box.BAD_SPEC) and b"file" in done.stderr
    done = box.raw("run", "--isolation", engine, "--output", "/proc/nothing", "-e", "print('ran')")
    assert done.returncode in (box.HOST_FAILURE, box.BAD_SPEC) and b"/proc/nothing" in done.stderr


def test_user_storage_is_not_written_by_the_box_itself(engine, tmp_path):
    """The output directory exists on the host from the start; the box cannot see it."""
    (tmp_path / "out").mkdir()
    code = f"import os\nprint(os.access({str(tmp_path / 'out')!r}, os.W_OK))\ntry: open({str(tmp_path / 'out' / 'x')!r}, 'w'); print('WORKED')\nexcept OSError: print('no')"
    assert box.python(code, "--output", tmp_path / "out", engine=engine).stdout == "False\nno\n"


# grants

def test_read_grant_shows_a_path_at_its_own_place(engine, shared):
    (shared / "d").mkdir()
    (shared / "d" / "f").write_text("granted")
    (shared / "other").write_text("not granted")
    code = show(shared / "d" / "f") + f"\ntry: {show(shared / 'other')}\nexcept OSError: print('no')\ntry: open({str(shared / 'd' / 'f')!r}, 'w')\nexcept OSError: print('read-only')"
    result = box.python(code, "--read", shared / "d", engine=engine)
    assert result.stdout == "granted\nno\nread-only\n", result


def test_read_grant_of_a_single_file(engine, shared):
    (shared / "f").write_text("granted")
    (shared / "g").write_text("not granted")
    code = show(shared / "f") + f"\ntry: {show(shared / 'g')}\nexcept OSError: print('no')"
    assert box.python(code, "--read", shared / "f", engine=engine).stdout == "granted\nno\n"


def test_read_grant_of_what_only_root_may_read(engine, tmp_path):
    """Either it works or the run is refused with words; a box that meets a closed door in silence is neither."""
    (tmp_path / "f").write_text("granted")
    os.chmod(tmp_path / "f", 0o600)
    done = box.raw("run", "--isolation", engine, "--read", tmp_path / "f", "-e", show(tmp_path / "f"))
    if engine == "container":
        assert done.stdout == b"granted\n", done
    else:
        assert done.stdout == b"granted\n" or (done.returncode >= 249 and str(tmp_path).encode() in done.stderr), done


def test_write_grant_lets_write_and_the_owner_of_the_directory_owns(shared):
    (shared / "mine").mkdir()
    os.chown(shared / "mine", 4321, 4322)
    (shared / "mine" / "old").write_text("old")
    os.chown(shared / "mine" / "old", 4321, 4322)
    code = (f"import os\nos.chdir({str(shared / 'mine')!r})\nopen('new', 'w').write('new')\nos.mkdir('dir')\nopen('dir/x', 'w').write('x')\n"
            "open('old', 'a').write('er')\nos.rename('new', 'newer')\nprint(os.stat('.').st_uid == os.getuid(), os.stat('old').st_uid == os.getuid())")
    result = box.python(code, "--write", shared / "mine")
    assert result.stdout == "True True\n", result
    assert (shared / "mine" / "old").read_text() == "older" and (shared / "mine" / "newer").read_text() == "new"
    for path in ("newer", "dir", "dir/x"):
        status = (shared / "mine" / path).stat()
        assert (status.st_uid, status.st_gid) == (4321, 4322), path


def test_write_grant_of_roots_own_directory_does_not_make_root(shared):
    result = box.python(f"import os\nos.chdir({str(shared)!r})\nopen('f', 'w').write('1')\nprint(os.getuid(), os.stat('f').st_uid)",
                        "--write", shared)
    assert result.stdout == "1000 1000\n", result
    assert (shared / "f").stat().st_uid == 0


def test_write_grant_reaches_nothing_else(shared):
    (shared / "w").mkdir()
    (shared / "precious").write_text("untouched")
    code = (f"import os\ntried = {[str(shared / 'precious'), str(shared / 'new'), str(shared / 'w' / '..' / 'new2'), '/usr/new', '/etc/new', '/new']!r}\n"
            f"os.symlink({str(shared / 'precious')!r}, {str(shared / 'w' / 'link')!r})\ntried.append({str(shared / 'w' / 'link')!r})\n"
            "for t in tried:\n  try: open(t, 'w').write('x'); print('WORKED', t)\n  except OSError: pass\n"
            f"try: os.link({str(shared / 'precious')!r}, {str(shared / 'w' / 'hard')!r}); print('WORKED link')\nexcept OSError: pass")
    result = box.python(code, "--write", shared / "w")
    assert result.stdout == "", result
    assert (shared / "precious").read_text() == "untouched"
    assert sorted(os.listdir(shared)) == ["precious", "w"]


def test_write_grant_of_a_single_file(shared):
    (shared / "f").write_text("old")
    result = box.python(f"open({str(shared / 'f')!r}, 'w').write('new')\ntry: open({str(shared / 'g')!r}, 'w')\nexcept OSError: print('no')",
                        "--write", shared / "f")
    assert result.stdout == "no\n" and (shared / "f").read_text() == "new" and not (shared / "g").exists()


SETUID = """
import os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, what):
    try: what()
    except OSError: pass
open('a', 'w').write('x')
attempt('chmod', lambda: os.chmod('a', 0o4755))
attempt('fchmod', lambda: os.fchmod(os.open('a', os.O_RDWR), 0o6755))
attempt('open', lambda: os.open('b', os.O_CREAT | os.O_WRONLY, 0o4755))
attempt('mknod', lambda: os.mknod('c', 0o104755))
attempt('mkdir', lambda: os.mkdir('d', 0o6755))
attempt('dir', lambda: os.chmod('d', 0o2755))
attempt('chmodat', lambda: libc.syscall(268, -100, b'a', 0o4755))
attempt('fchmodat2', lambda: libc.syscall(452, -100, b'a', 0o4755, 0))
attempt('creat', lambda: libc.syscall(85, b'e', 0o4755))
attempt('device', lambda: os.mknod('null', 0o20666, os.makedev(1, 3)))
attempt('xattr', lambda: os.setxattr('a', 'security.capability', b'\\1\\0\\0\\2' + b'\\xff' * 16))
"""


def test_no_setuid_bit_can_be_made_on_the_host(shared):
    box.python(f"import os\nos.chdir({str(shared)!r})\n" + SETUID, "--write", shared)
    for path in shared.rglob("*"):
        mode = path.lstat().st_mode
        assert not mode & (stat.S_ISUID | stat.S_ISGID), path
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode), path
    assert (shared / "a").exists() and "security.capability" not in os.listxattr(shared / "a")


def test_setuid_bit_can_be_made_by_the_weakened_box(shared):
    """The control: without the filter the bit comes out on the host."""
    box.python(f"import os\nos.chdir({str(shared)!r})\n" + SETUID, "--write", shared, weaken="seccomp")
    assert (shared / "a").stat().st_mode & stat.S_ISUID


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/self", "/dev", "/dev/shm", "/sys", "/sys/kernel"])
@pytest.mark.parametrize("option", ["--read", "--write"])
def test_grants_that_would_undo_the_box_are_refused(engine, option, path):
    done = box.raw("run", "--isolation", engine, option, path, "-e", "print('started')")
    assert done.returncode == box.BAD_SPEC and done.stdout == b"" and option[2:].encode() in done.stderr, done


def test_grants_of_dangerous_places_by_a_link_are_refused(shared, engine):
    (shared / "l").symlink_to("/proc")
    done = box.raw("run", "--isolation", engine, "--read", shared / "l", "-e", "1")
    assert done.returncode == box.BAD_SPEC and b"/proc" in done.stderr


@pytest.mark.parametrize("path", ["/tmp", "/run", "/home", "/code", "/usr", "/etc"])
def test_grants_of_the_box_own_places_do_not_break_it(path):
    """A grant that covers the scratch space or the image must work or be refused; the limits hold either way."""
    done = box.raw("run", "--read", path, "--disk", "8M", "-e", "import os; s = os.statvfs('/data/output'); print(s.f_blocks * s.f_frsize)")
    assert (done.returncode, done.stdout) == (0, b"8388608\n") or (done.returncode == box.BAD_SPEC and path.encode() in done.stderr), done


def test_write_grant_of_tmp_does_not_lift_the_disk_limit():
    done = box.run("--write", "/tmp", "--disk", "4M", "--wall", "5s", "-e", "open('/data/output/x', 'wb').write(bytes(8 << 20))")
    assert done.json.get("cause") == "disk" or done.returncode == box.BAD_SPEC, done


def test_grant_that_is_not_there_is_refused(engine):
    for option in ("--read", "--write"):
        done = box.raw("run", "--isolation", engine, option, "/tmp/no-such-grant", "-e", "1")
        assert done.returncode == box.BAD_SPEC and b"/tmp/no-such-grant" in done.stderr


def test_write_grant_in_the_process_engine_says_what_it_cannot(shared):
    done = box.raw("run", "--isolation", "process", "--write", shared, "-e", "1")
    assert done.returncode in (0, box.LAYER_MISSING)
    if done.returncode:
        assert b"--isolation container" in done.stderr


def test_grants_may_be_inside_each_other(shared):
    (shared / "a" / "b").mkdir(parents=True)
    (shared / "a" / "f").write_text("f")
    code = (f"open({str(shared / 'a' / 'b' / 'new')!r}, 'w').write('1')\n" + show(shared / "a" / "f") +
            f"\ntry: open({str(shared / 'a' / 'new')!r}, 'w')\nexcept OSError: print('no')")
    for order in ((("--read", shared / "a"), ("--write", shared / "a" / "b")), (("--write", shared / "a" / "b"), ("--read", shared / "a"))):
        assert box.python(code, *order[0], *order[1]).stdout == "f\nno\n"


def test_make_is_wrapped_as_zerobox_does(shared):
    """cloche run --read ./src --write ./build -- make -C ./src"""
    (shared / "src").mkdir()
    (shared / "build").mkdir()
    (shared / "src" / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("made"); return 0; }\n')
    (shared / "src" / "Makefile").write_text("../build/hello: hello.c\n\tgcc -o $@ $<\n\t@echo stolen > ../src/stolen || true\n"
                                             "\t@cat ../secret || true\n")
    (shared / "secret").write_text("SECRET")
    done = box.raw("run", "--read", "./src", "--write", "./build", "--", "make", "-C", "./src", cwd=shared)
    assert done.returncode == 0, done
    assert subprocess.run([shared / "build" / "hello"], capture_output=True).stdout == b"made\n"
    assert not (shared / "src" / "stolen").exists() and b"SECRET" not in done.stdout + done.stderr


def test_command_stands_where_the_caller_stands_if_that_is_granted(shared, engine):
    (shared / "d").mkdir()
    assert box.raw("run", "--isolation", engine, "--read", ".", "--", "pwd", cwd=shared / "d").stdout.decode().strip() == str(shared / "d")
    assert box.raw("run", "--isolation", engine, "--read", shared, "--", "pwd", cwd=shared / "d").stdout.decode().strip() == str(shared / "d")


def test_command_stands_in_the_output_directory_if_nothing_is_granted(shared):
    assert box.raw("run", "--", "pwd", cwd=shared).stdout == b"/data/output\n"


def test_cwd_option_beats_the_place_of_the_caller(shared):
    assert box.raw("run", "--read", ".", "--cwd", "/usr", "--", "pwd", cwd=shared).stdout == b"/usr\n"


def test_relative_command_runs_from_a_granted_directory(shared, engine):
    (shared / "tool").write_text("#!/bin/sh\necho ran $1\n")
    os.chmod(shared / "tool", 0o755)
    done = box.raw("run", "--isolation", engine, "--read", ".", "--", "./tool", "x", cwd=shared)
    assert (done.returncode, done.stdout) == (0, b"ran x\n"), done


def test_places_of_the_box_are_its_own(engine):
    code = ("import os, tempfile\nfor n in ('HOME', 'TMPDIR', 'CLOCHE_OUTPUT'):\n  p = os.environ[n]\n  open(p + '/probe', 'w').write(n)\n"
            "  print(n, os.listdir(p) == ['probe'], os.path.isabs(p))\nprint(tempfile.gettempdir() == os.environ['TMPDIR'])")
    assert box.python(code, engine=engine).stdout == "HOME True True\nTMPDIR True True\nCLOCHE_OUTPUT True True\nTrue\n"


def test_second_run_sees_nothing_of_the_first(engine):
    code = "import os\nfor n in ('HOME', 'TMPDIR', 'CLOCHE_OUTPUT', 'CLOCHE_INPUT'):\n  p = os.environ[n]; print(os.listdir(p))\n  open(p + '/x', 'w')"
    for _ in range(2):
        assert box.python(code, engine=engine).stdout == "[]\n[]\n[]\n[]\n"


def test_program_that_somebody_still_writes_is_waited_for(engine, shared):
    """A descriptor that another thread's child has for a moment must not fail a run."""
    program = shared / "program"
    shutil.copy("/bin/echo", program)
    writer = open(program, "ab")
    threading.Timer(0.4, writer.close).start()
    result = box.run("--read", str(shared), "--", str(program), "executed", engine=engine)
    assert result.stdout == "executed\n" and writer.closed, result


def test_program_that_is_written_on_and_on_is_refused(engine, shared):
    program = shared / "program"
    shutil.copy("/bin/echo", program)
    with open(program, "ab"):
        done = box.raw("run", "--isolation", engine, "--read", str(shared), "--", str(program))
    assert done.returncode == box.BAD_SPEC and b"busy" in done.stderr, done


def test_what_is_written_can_be_moved_to_another_directory(engine):
    code = "import os\nos.mkdir('d'); open('a', 'w').write('x'); os.rename('a', 'd/a'); os.rename('d', 'e'); print(os.listdir('e'))"
    result = box.python(code, engine=engine)
    assert result.stdout == "['a']\n", result
