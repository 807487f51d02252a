"""A context whose runner is in the guest's hands attacks while it is forked.

The library that forks is compiled anew with the attack in it, and put in the place of ours inside the box: from there it has
all that a fork gives to a runner, the descriptors, the two clones, and for a moment every capability in the new user namespace."""
import base64
import os
import pathlib
import subprocess

import box
import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="forks need control groups of their own")

NOTE = r"""
static void note(const char *path)
{
    raw_call(SYS_close, raw_call(SYS_open, RAW(path), 0101, 0666, 0, 0), 0, 0, 0, 0);
}
/* The copy, before it is let back into the interpreter. */"""

BEFORE_SETTLING = "    if (raw_call(SYS_setsid, 0, 0, 0, 0, 0) < 0 ||"
WHEN_THERE = "    char order = 0;\n    if (status >= 0)\n        status = raw_call(SYS_read, control,"

ATTACKS = {  # what is in the library, and what stands there instead
    "a child of the program keeps all capabilities": [(BEFORE_SETTLING, r"""
    if (raw_call(SYS_clone, 17, 0, 0, 0, 0) == 0)
        for (;;) {
            long second[2] = {1, 0};
            raw_call(SYS_nanosleep, RAW(second), 0, 0, 0, 0);
            if (raw_call(SYS_setresuid, 65536 + 7, 65536 + 7, 65536 + 7, 0, 0) == 0)
                note("/tmp/another-uid");
        }
""" + BEFORE_SETTLING)],
    "the first process does not become init": [
        ("    raw_call(SYS_execveat, 5,", "    for (;;)\n        raw_call(SYS_pause, 0, 0, 0, 0, 0);\n    raw_call(SYS_execveat, 5,"),
        (WHEN_THERE, r"""
    message.kind = INIT_VERIFIED;
    raw_call(SYS_write, control, RAW(&message), sizeof message, 0, 0);
""" + WHEN_THERE)],
    "the runner names its own scratch space": [(WHEN_THERE, r"""
    long directory = raw_call(SYS_open, RAW("/tmp"), 0200000, 0, 0, 0);
    struct { unsigned long length; int level, type, fd, none; } rights = {20, 1, 1, (int)directory, 0};
    struct { void *base; unsigned long length; } vector = {&message, sizeof message};
    struct { void *name; long name_length; void *vectors; unsigned long count; void *rights; unsigned long length; long flags; }
        header = {0, 0, &vector, 1, &rights, sizeof rights, 0};
    message.kind = INIT_SCRATCH;
    raw_call(SYS_sendmsg, control, RAW(&header), 0, 0, 0);
    message.kind = INIT_VERIFIED;
    raw_call(SYS_write, control, RAW(&message), sizeof message, 0, 0);
""" + WHEN_THERE), ('|| raw_call(SYS_chdir, RAW("/data/output"), 0, 0, 0, 0) < 0', "")],
}

HIJACK = """
import ctypes, cloche.forking as forking
forking.check = lambda: None
ours = forking.prepare()
theirs = ctypes.PyDLL("/data/input/hijacked.so")
theirs.cloche_fork.restype, theirs.cloche_fork.argtypes = ctypes.c_long, ours.cloche_fork.argtypes
forking._library = theirs
"""


def line(code):
    return f"exec(__import__('base64').b64decode('{base64.b64encode(code.encode()).decode()}'))\n"


def session(text, *options):
    return subprocess.run([box.CLOCHE, "repl", *map(str, options)], input=text, text=True, timeout=60, capture_output=True)


def hijacked(directory, changes):
    source = (box.ROOT / "guest/fork/fork.c").read_text()
    for there, instead in [("/* The copy, before it is let back into the interpreter. */", NOTE), *changes]:
        assert source.count(there) == 1, there
        source = source.replace(there, instead)
    (directory / "hijacked.c").write_text(source)
    subprocess.run(["cc", "-std=gnu17", "-O2", "-w", "-shared", "-fPIC", "-nostdlib", "-ffreestanding", "-fno-stack-protector",
                    "-mno-red-zone", f"-I{box.ROOT}/src", f"-I{box.ROOT}/guest/init", "-o", directory / "hijacked.so",
                    directory / "hijacked.c"], check=True)
    return directory / "hijacked.so"


def fork(library):
    return session(line(HIJACK) + ":fork\n:back\nimport time; time.sleep(1.5)\nimport os; os.listdir('/tmp')\n",
                   "--input", library)


def test_the_library_works_without_an_attack(tmp_path):
    done = fork(hijacked(tmp_path, []))
    assert done.returncode == 0 and "kept" in done.stderr and "no point" not in done.stderr, done


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_fork_is_refused(tmp_path, attack):
    done = fork(hijacked(tmp_path, ATTACKS[attack]))
    assert done.returncode == 0 and "no point is kept" in done.stderr, done
    assert "another-uid" not in done.stdout, done


def test_an_interpreter_that_dies_while_it_is_forked_takes_nobody_along():
    for delay in (0.02, 0.03, 0.04, 0.05, 0.06, 0.07):
        done = session(line(f"""
import os, time, cloche.forking as forking
open("/tmp/large", "wb").write(bytes(90 << 20))
fork = forking.fork
def dying(*arguments):
    own = os.getpid()
    if os.fork() == 0:
        if os.fork():
            os._exit(0)
        os.closerange(3, 300)
        time.sleep({delay})
        os.kill(own, 9)
    os.wait()
    return fork(*arguments)
forking.fork = dying
""") + ":fork\nprint('alive')\n")
        assert done.returncode >= 0, done
