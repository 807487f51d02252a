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
/* The copy, before it is let back into the interpreter."""

BEFORE_SETTLING = "    if (raw_call(SYS_setsid, 0, 0, 0, 0, 0) < 0 ||"
WHEN_THERE = "    if (!take(state->fds[CONTROL], &order, 1, groups, &group_count) ||"
SPEAK = r"""
    int control = state->fds[CONTROL];
    struct init_message message;
    for (unsigned i = 0; i < sizeof message; i++)
        ((volatile char *)&message)[i] = 0;
"""

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
        (WHEN_THERE, SPEAK + r"""
    message.kind = INIT_VERIFIED;
    raw_call(SYS_write, control, RAW(&message), sizeof message, 0, 0);
""" + WHEN_THERE)],
    "the runner names its own scratch space": [(WHEN_THERE, SPEAK + r"""
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
    for there, instead in [("/* The copy, before it is let back into the interpreter.", NOTE), *changes]:
        assert source.count(there) == 1, there
        source = source.replace(there, instead)
    (directory / "fork.c").write_text(source)
    own = box.ROOT / "guest/fork"
    subprocess.run(["cc", "-std=gnu17", "-O2", "-w", "-shared", "-fPIC", "-nostdlib", "-ffreestanding", "-fno-stack-protector",
                    "-mno-red-zone", f"-I{box.ROOT}/src", f"-I{box.ROOT}/guest/init", f"-I{own}", "-o", directory / "hijacked.so",
                    directory / "fork.c", own / "alone.c", own / "plain.c", own / "pages.c", own / "seeds.c", box.ROOT / "guest/init/proofs.c"], check=True)
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


def test_what_cannot_be_traced_is_not_in_proc():
    """While a fork is made a process of the host's is in its pid namespace, and so in that of the box it is forked from. It is
    there too short to be met in a test; init is there always, and as untraceable."""
    code = "import os; [name for name in os.listdir('/proc') if name.isdigit() and open(f'/proc/{name}/comm').read() != 'python3\\n']\n"
    assert session(code + ":fork\n" + code + ":back\n" + code).stdout == "[]\n" * 3


def test_a_copy_has_another_number_than_what_it_is_a_copy_of():
    """OpenSSL and others tell by it that they must not go on with the same random numbers."""
    text = "import os, ssl\nssl.RAND_bytes(8);\n" + "os.getpid()\n:fork\n:back\n" * 5
    numbers = [int(number) for number in session(text).stdout.split("\n") if number.isdigit()]
    assert len(numbers) == 5 and all(one < other for one, other in zip(numbers, numbers[1:])), numbers
    done = session("import ssl\nssl.RAND_bytes(8);\n:fork\n" + ":back\nssl.RAND_bytes(16).hex()\n" * 12)
    drawn = done.stdout.split()
    assert len(drawn) == 12 and len(set(drawn)) == 12, done


def test_no_devices_of_the_network_can_be_asked_for(tmp_path):
    """Not even by the first process of a fork, which has the capability."""
    library = hijacked(tmp_path, [(WHEN_THERE, r"""
    long socket = raw_call(SYS_socket, 1, 1, 0, 0, 0);
    if (raw_call(SYS_ioctl, socket, 0x89a0 /* SIOCBRADDBR */, RAW("bridge"), 0, 0) != -1 /* EPERM */)
        leave(99);
    raw_call(SYS_close, socket, 0, 0, 0, 0);
""" + WHEN_THERE)])
    assert "no point" not in fork(library).stderr


def test_signals_do_not_reach_init_where_the_kernel_nests_no_more_scopes():
    """It is then in the same domain, and immune as the first process of its pid namespace: what is sent changes nothing."""
    attack = ("import os, signal, subprocess\n"
              "for _ in range(3):\n    for number in range(65): os.kill(1, number)\n\n"
              "subprocess.run(['sh', '-c', '(sleep 0.01; exit 3) & exit 4']).returncode\n"
              "for number in (9, 15, 17): os.kill(-1, number) if number != 9 else signal.signal(15, signal.SIG_IGN)\n\n"
              "import time; time.sleep(0.3); 'alive'\n")
    done = session("x = 0\n" + ":fork\n:back\n" * 17 + attack + ":fork\nx = 1\n:back\nx\n")
    assert done.stdout == "4\n'alive'\n0\n" and "died" not in done.stderr, done


def test_generators_that_the_code_has_of_its_own_are_seeded_where_it_asked_for_that():
    """As by os.fork(): the hook of each is that of `random` by its name, but not by its generator."""
    for code in ("import os, random\nown = random.Random(7)\nos.register_at_fork(after_in_child=own.seed)\ndraw = own.random",
                 "import importlib, random\ndraw = random.random\nimportlib.reload(random)",
                 "import random, sys\ndraw = random.random\ndel sys.modules['random']\nimport random"):
        done = session(line(code) + "draw()\n:fork\n" + "draw()\n:back\n" * 3 + ":fork\n:fork\ndraw()\n:back\ndraw()\n")
        drawn = done.stdout.split()
        assert len(drawn) == 6 and len(set(drawn)) == 6, (code, done)
