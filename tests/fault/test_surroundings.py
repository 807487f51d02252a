"""Callers and machines as they should not be: no descriptors, no space, no memory, odd inherited state.

A run in them works as always, or is refused with a word. It never confines less: where it works, the guest sees
what it always sees.
"""
import json
import os
import subprocess

import pytest

import box
from faults import FACTS, SANITIZED, Shape, difference, says_something

REFUSALS = (box.BAD_SPEC, box.LAYER_MISSING, box.HOST_FAILURE)


@pytest.fixture
def shape(world, engine):
    learned = Shape(*FACTS, engine=engine)
    learned.learn(world)
    return learned


def quoted(arguments):
    return " ".join("'" + argument.replace("'", "'\\''") + "'" for argument in arguments)


def run_line(shape):
    return f"/tmp/cloche {quoted(shape.arguments)}"


def died(done):
    """By a signal, seen directly or through a shell (250 and up are our own)."""
    return done.returncode < 0 or 128 < done.returncode < box.RESERVED


def must_be_sound(world, shape, done, what, allow=()):
    """As an untouched run, or a refusal that says something; allow: starts of facts that may differ here."""
    assert not died(done), f"{what}: the launcher died: {done}"
    essence = shape.essence(done, world)
    if done.returncode == 0:
        seen, right = ([line for line in lines if not line.startswith(tuple(allow) or "\0")]
                       for lines in (essence[1]["stdout"], shape.right[1]["stdout"]))
        assert seen == right, f"{what}: {difference(right, seen)}"
        assert essence[1]["layers"] == shape.right[1]["layers"], what
        return True
    assert done.returncode in REFUSALS, f"{what}: {done}"
    assert says_something(done), f"{what}: refused with {done.returncode} without a word"
    return False


def must_work(world, shape, done, what, allow=()):
    assert must_be_sound(world, shape, done, what, allow), f"{what}: refused: {done.stdout} {done.stderr}"
    assert world.leftovers() == {}, what


def test_any_small_number_of_descriptors(world, shape):
    """From none at all up to plenty: refused, refused, …, works; and never half."""
    worked = []
    for number in [*range(3, 41), 64, 1024]:
        done = world.shell(f"ulimit -n {number}; exec {run_line(shape)}")
        # The guest's own limit cannot be above the caller's.
        worked.append(must_be_sound(world, shape, done, f"ulimit -n {number}", allow=("rlimit 7 ",)))
        assert world.leftovers() == {}, f"ulimit -n {number}"
    assert worked == sorted(worked), "more descriptors are worse than fewer"
    assert worked[-2:] == [True, True]
    assert not worked[0]


def test_any_small_address_space(world, shape):
    """prlimit --as: allocation fails everywhere at some value."""
    if SANITIZED:
        return  # a sanitizer reserves terabytes of address space before main
    worked = []
    for mebibytes in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24, 32, 64, 128]:
        done = world.run("prlimit", f"--as={mebibytes << 20}", "/tmp/cloche", *shape.arguments)
        if died(done) and mebibytes <= 4:  # the kernel cannot even load the program
            continue
        worked.append(must_be_sound(world, shape, done, f"{mebibytes} MiB", allow=("rlimit 9 ",)))
        assert world.leftovers() == {}, f"{mebibytes} MiB"
    assert worked[-1], "128 MiB are not enough"


@pytest.mark.parametrize("closed", ["0", "1", "2", "0 1", "0 2", "1 2", "0 1 2"])
def test_standard_descriptors_are_closed(world, engine, closed):
    """What we open must not become the caller's stdout, nor anything of ours the guest's."""
    directions = {"0": "<&-", "1": ">&-", "2": "2>&-"}
    closing = " ".join(directions[number] for number in closed.split())
    done = world.shell(f"/tmp/cloche run --isolation {engine} --read /tmp/facts -- /tmp/facts /tmp/canary {closing}")
    assert done.returncode in (0, *REFUSALS), done
    if "1" not in closed:
        lines = [line for line in done.stdout.decode().splitlines() if line.startswith("descriptor")]
        assert lines == ["descriptor 0 ", "descriptor 1 ", "descriptor 2 "]
    assert world.leftovers() == {}


def test_closed_stdin_is_an_empty_one(world, engine):
    done = world.shell(f"/tmp/cloche run --isolation {engine} -- /bin/cat <&-")
    assert (done.returncode, done.stdout) == (0, b""), done


def test_descriptors_of_the_caller_do_not_reach_the_guest(world, shape):
    done = world.shell(f"exec 3</tmp/canary 9</tmp/canary 100</tmp/canary; exec {run_line(shape)}")
    if b"Bad fd" in done.stderr or b"not found" in done.stderr:  # a shell without high numbers
        done = world.shell(f"exec 3</tmp/canary 9</tmp/canary; exec {run_line(shape)}")
    must_work(world, shape, done, "open descriptors")


def test_umask_that_forbids_all(world, shape):
    must_work(world, shape, world.shell(f"umask 0777; exec {run_line(shape)}"), "umask 0777")


@pytest.mark.parametrize("mask", ["0000", "0022", "0077", "0777"])
def test_umask_of_the_guest(world, engine, mask):
    """It is no secret of the caller's, nor its burden: always the usual one."""
    done = world.shell(f"umask {mask}; exec /tmp/cloche run --isolation {engine} -- /bin/sh -c umask")
    assert done.stdout == b"0022\n", done


def test_umask_that_forbids_all_with_files(world, engine):
    world.write("/tmp/in.txt", "in\n")
    world.shell("rm -rf /tmp/umask-out")
    code = 'cat "$CLOCHE_INPUT/in.txt" > out.txt; mkdir sub; echo deep > sub/file; echo ok'
    done = world.shell(f"umask 0777; exec /tmp/cloche run --isolation {engine} --input /tmp/in.txt "
                       f"--output /tmp/umask-out --language bash -e '{code}'")
    assert (done.returncode, done.stdout) == (0, b"ok\n"), done
    assert world.outside("/tmp/umask-out/out.txt").read_text() == "in\n"
    assert world.outside("/tmp/umask-out/sub/file").read_text() == "deep\n"
    world.shell("rm -rf /tmp/umask-out")
    assert world.leftovers() == {}


def test_umask_on_a_machine_where_nothing_was_made_yet(world, engine):
    """The first run ever, with a umask that would make the state directories useless for all later ones."""
    script = f"""
        mount -t tmpfs fresh /run; mount -t tmpfs fresh /var/lib/cloche; rmdir /sys/fs/cgroup/*/cloche 2>/dev/null
        umask 0777
        /tmp/cloche run --isolation {engine} -- /bin/echo first && umask 022 &&
        /tmp/cloche run --isolation {engine} -- /bin/echo second"""
    done = world.run("unshare", "--mount", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (0, b"first\nsecond\n"), done


def test_working_directory_is_deleted(world, shape):
    done = world.shell(f"mkdir -p /tmp/gone; cd /tmp/gone; rmdir /tmp/gone; exec {run_line(shape)}")
    must_work(world, shape, done, "deleted working directory")


def test_relative_file_in_a_deleted_directory_is_a_wrong_spec(world, engine):
    done = world.shell("mkdir -p /tmp/gone; cd /tmp/gone; rmdir /tmp/gone; exec /tmp/cloche run "
                       f"--isolation {engine} script.py")
    assert done.returncode == box.BAD_SPEC
    assert b"script.py" in done.stderr


def test_children_of_the_caller_are_reaped_by_themselves(world, shape):
    """SIGCHLD ignored by the caller: wait gives no status then."""
    done = world.run("env", "--ignore-signal=CHLD", "/tmp/cloche", *shape.arguments)
    must_work(world, shape, done, "SIGCHLD ignored")


def test_exit_status_with_sigchld_ignored(world, engine):
    done = world.run("env", "--ignore-signal=CHLD", "/tmp/cloche", "run", "--isolation", engine, "--", "/bin/sh", "-c",
                     "exit 7")
    assert done.returncode == 7, done


def test_all_signals_are_ignored_by_the_caller(world, shape):
    done = world.run("env", "--ignore-signal", "/tmp/cloche", *shape.arguments)
    must_work(world, shape, done, "all signals ignored")


def test_all_signals_are_blocked_by_the_caller(world, shape):
    done = world.run("env", "--block-signal", "/tmp/cloche", *shape.arguments)
    must_work(world, shape, done, "all signals blocked")


def test_wall_limit_with_all_signals_blocked(world, engine):
    done = world.run("env", "--block-signal", "--ignore-signal", "/tmp/cloche", "run", "--json", "--isolation", engine,
                     "--wall", "300ms", "--", "/bin/sleep", "10")
    assert json.loads(done.stdout)["cause"] == "wall_time", done
    assert world.leftovers() == {}


@pytest.mark.parametrize("limit,number", [("nproc", 6), ("fsize", 1), ("core", 4), ("memlock", 8), ("nofile", 7),
                                          ("stack", 3), ("cpu", 0), ("rss", 5), ("sigpending", 11), ("msgqueue", 12)])
def test_small_limits_of_the_caller(world, shape, limit, number):
    """Each limit of the caller's at a small value: it may be inherited or refused, never a half-made box."""
    values = {"nproc": (0, 1), "fsize": (0, 4096, 100000), "stack": (1 << 20,), "cpu": (1,), "nofile": (64,)}
    for value in values.get(limit, (0,)):
        done = world.run("prlimit", f"--{limit}={value}", "/tmp/cloche", *shape.arguments)
        what = f"prlimit --{limit}={value}"
        must_be_sound(world, shape, done, what, allow=(f"rlimit {number} ",))
        assert world.leftovers() == {}, what


def test_small_file_size_limit_does_not_kill_the_launcher(world, engine):
    """SIGXFSZ would end us in the middle: the copy of an input and the collected files are larger than the limit."""
    world.write("/tmp/large.bin", "x" * 300000)
    done = world.run("prlimit", "--fsize=100000", "/tmp/cloche", "run", "--json", "--isolation", engine, "--input",
                     "/tmp/large.bin", "--output", "/tmp/fsize-out", "--", "/bin/sh", "-c", "echo ok")
    assert not died(done), done
    assert done.returncode == 0 or says_something(done)
    world.shell("rm -rf /tmp/fsize-out")
    assert world.leftovers() == {}


def in_own_mounts(world, mounts, command):
    """Runs a command after some mounts that only it sees."""
    return world.run("unshare", "--mount", "sh", "-c", f"set -e\n{mounts}\nset +e\n{command}")



def test_state_directory_is_full(world, shape):
    """The record itself takes an inode: none is left, so nothing may start."""
    mounts = "mount -t tmpfs -o size=4k,nr_inodes=2 full /run; mkdir /run/cloche"
    done = in_own_mounts(world, mounts, run_line(shape))
    assert done.returncode == box.HOST_FAILURE, done
    assert b"No space left" in done.stdout + done.stderr
    assert world.leftovers() == {}


def test_run_directory_is_read_only(world, shape):
    done = in_own_mounts(world, "mount -t tmpfs -o ro sealed /run", run_line(shape))
    assert done.returncode == box.HOST_FAILURE, done
    assert b"Read-only" in done.stdout + done.stderr
    assert b"/run/cloche" in done.stdout + done.stderr
    assert world.leftovers() == {}


def test_private_directory_has_no_space(world):
    """The process engine's files, where there is no memory for them. Inodes for the directories only: not for the code."""
    for inodes in range(2, 14):
        mounts = f"mount -t tmpfs -o size=16k,nr_inodes={inodes} full /var/lib/cloche; mount -t tmpfs -o size=1m full /dev/shm"
        done = in_own_mounts(world, mounts, "/tmp/cloche run --isolation process -l bash -e 'echo ok'; s=$?; "
                                            "ls -A /var/lib/cloche/box >&2; exit $s")
        assert done.returncode in (0, box.HOST_FAILURE), done
        if done.returncode == 0:
            assert done.stdout == b"ok\n"
            assert done.stderr == b""
        else:
            assert b"No space left" in done.stderr and b"box-" not in done.stderr.split(b"\n", 1)[1], done
    assert done.returncode == 0


def test_disk_of_the_host_fills_during_the_run(world):
    """The host's disk is smaller than the run's limit: the program sees ENOSPC, and is told apart from success."""
    mounts = "mount -t tmpfs -o size=256k full /var/lib/cloche; mount -t tmpfs -o size=1m full /dev/shm"
    done = in_own_mounts(world, mounts, "/tmp/cloche run --json --isolation process -- /bin/sh -c "
                                        "'head -c 1000000 /dev/zero > file && echo fine'")
    result = json.loads(done.stdout)
    assert done.returncode != 0, done
    assert "fine" not in result.get("stdout", "")


def test_output_directory_is_full(world, engine):
    """What cannot be written must be named; exit 0 with a missing file would be a lie."""
    mounts = "mkdir -p /tmp/tiny; mount -t tmpfs -o size=8k tiny /tmp/tiny"
    done = in_own_mounts(world, mounts, f"/tmp/cloche run --json --isolation {engine} --output /tmp/tiny -- /bin/sh -c "
                                        "'head -c 100000 /dev/zero > big; echo small > small'; s=$?; "
                                        "wc -c /tmp/tiny/* >&2; exit $s")
    result = json.loads(done.stdout)
    if "error" in result:
        assert done.returncode == box.HOST_FAILURE
        assert "No space left" in result["error"]["message"]
    else:
        assert [entry["path"] for entry in result["files"]] in ([], ["small"])
        named = {omission["path"]: omission["reason"] for omission in result["not_collected"]}
        assert "No space left" in named["big"], result
    assert b" big\n" not in done.stderr, "half a file is left in the output directory"
    assert world.leftovers() == {}


def test_output_directory_cannot_be_made(world, engine):
    done = in_own_mounts(world, "mkdir -p /tmp/sealed; mount -t tmpfs -o ro sealed /tmp/sealed",
                         f"exec /tmp/cloche run --isolation {engine} --output /tmp/sealed/out -- /bin/touch file")
    assert done.returncode in REFUSALS, done
    assert b"/tmp/sealed/out" in done.stderr


def test_there_is_no_dev_null(world, shape):
    done = in_own_mounts(world, "mkdir -p /tmp/dev; mount -t tmpfs bare /dev", run_line(shape))
    must_be_sound(world, shape, done, "no /dev/null", allow=("mount /dev/", "terminal", "mount /proc/", "place /dev/shm"))
    assert world.leftovers() == {}


def test_dev_null_is_a_regular_file(world, shape):
    """A planted /dev/null must not be shown as a device nor be used to cover /proc (CVE-2025-31133)."""
    mounts = ("mount -t tmpfs bare /dev; echo planted > /dev/null; "
              "for name in zero full random urandom tty; do echo > /dev/$name; done")
    done = in_own_mounts(world, mounts, run_line(shape))
    if done.returncode == 0:
        facts = json.loads(done.stdout)["stdout"]
        assert "read /proc/cmdline content" not in facts, "the planted file covers /proc"
    assert done.returncode in (0, *REFUSALS)
    assert world.leftovers() == {}


def test_there_is_no_proc(world, engine):
    done = in_own_mounts(world, "umount -l /proc; umount -l /proc 2>/dev/null || true",
                         f"exec /tmp/cloche run --json --isolation {engine} -- /bin/true")
    assert done.returncode in (box.LAYER_MISSING, box.HOST_FAILURE), done
    assert says_something(done)


def test_there_are_no_groups(world):
    done = in_own_mounts(world, "umount -R -l /sys/fs/cgroup", "exec /tmp/cloche run --isolation container -- /bin/true")
    assert done.returncode == box.LAYER_MISSING
    assert b"--accept memory" in done.stderr


def test_groups_are_read_only(world):
    done = in_own_mounts(world, "for h in /sys/fs/cgroup/*; do mount -o remount,bind,ro $h 2>/dev/null || "
                                "mount -o remount,ro,bind $h; done",
                         "exec /tmp/cloche run --isolation container -- /bin/true")
    assert done.returncode == box.LAYER_MISSING, done
    assert b"--accept" in done.stderr


def test_caller_has_no_environment(world, shape):
    done = world.run("env", "-i", "/tmp/cloche", *shape.arguments)
    must_work(world, shape, done, "no environment")


def test_hostile_environment_of_the_caller(world, shape):
    done = world.run("env", "-i", "PATH=/nonexistent", "TMPDIR=/nonexistent", "HOME=relative", "XDG_RUNTIME_DIR=relative",
                     "LD_PRELOAD=/tmp/evil.so", "MALLOC_PERTURB_=165", "LANG=\x01", "A=" + "x" * 100000, "/tmp/cloche",
                     *shape.arguments)
    must_work(world, shape, done, "odd environment")


def test_no_arguments_at_all(world):
    """An empty argv (CVE-2021-4034)."""
    script = "import ctypes\nctypes.CDLL(None).execve(b'/tmp/cloche', (ctypes.c_char_p * 1)(None), None)"
    done = world.run("/usr/bin/python3", "-c", script)
    assert done.returncode == box.BAD_SPEC


def test_reader_goes_away_while_the_program_writes(world, engine):
    done = world.shell(f"/tmp/cloche run --isolation {engine} --wall 10s -- /usr/bin/yes | head -c 1000 | wc -c")
    assert done.stdout.strip() == b"1000"
    assert world.leftovers() == {}


def test_full_stdout_is_no_success(world, engine):
    done = world.shell(f"/tmp/cloche run --isolation {engine} -- /bin/echo lost > /dev/full")
    assert done.returncode not in (0, None), done
    assert done.stderr.strip()
    assert world.leftovers() == {}


def test_full_stdout_with_json_is_no_success(world, engine):
    done = world.shell(f"/tmp/cloche run --json --isolation {engine} -- /bin/echo lost > /dev/full")
    assert done.returncode == box.HOST_FAILURE, done


def test_nonblocking_stdout(world, engine):
    """A pipe that the caller made non-blocking and reads late: all bytes must come."""
    script = f"""
import os, subprocess, time, fcntl
read, write = os.pipe()
fcntl.fcntl(write, fcntl.F_SETFL, os.O_NONBLOCK)
command = ["/tmp/cloche", "run", "--isolation", "{engine}", "--", "/usr/bin/head", "-c", "500000", "/dev/zero"]
process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=write)
os.close(write)
time.sleep(0.3)
total = 0
while data := os.read(read, 65536):
    total += len(data)
print(total, process.wait())
"""
    done = world.run("/usr/bin/python3", "-c", script)
    assert done.stdout.split() == [b"500000", b"0"], done


def test_stdin_is_a_directory(world, engine):
    done = world.shell(f"/tmp/cloche run --isolation {engine} -- /bin/cat < /tmp")
    assert done.returncode in (0, *REFUSALS), done
    assert world.leftovers() == {}


def test_process_limit_of_the_group_above(world, engine):
    """The machine has no process left for us."""
    group = next((point for controllers, _, _, point in world.groups if "pids" in controllers), None)
    if group is None:
        pytest.skip("no pids controller as a hierarchy of its own")
    limit = group / "cramped"
    limit.mkdir()
    try:
        for number in (1, 2, 3):
            (limit / "pids.max").write_text(str(number))
            inside = f"/sys/fs/cgroup/pids/cramped/cgroup.procs"
            done = world.shell(f"echo $$ > {inside}; exec /tmp/cloche run --json --isolation {engine} -- /bin/true")
            assert done.returncode in (0, box.HOST_FAILURE, box.LAYER_MISSING), done
            assert says_something(done) or done.returncode == 0
            assert world.leftovers() == {}
    finally:
        subprocess.run(["rmdir", limit], check=False)


def test_group_above_has_no_memory(world, engine):
    """The launcher itself meets the out-of-memory killer of a group around it: no box survives it."""
    group = next((point for controllers, _, _, point in world.groups if "memory" in controllers.split(",")), None)
    if group is None:
        pytest.skip("no memory controller as a hierarchy of its own")
    limit = group / "cramped"
    limit.mkdir()
    try:
        (limit / "memory.limit_in_bytes").write_text(str(600 << 10))
        done = world.shell("echo $$ > /sys/fs/cgroup/memory/cramped/cgroup.procs; "
                           f"exec /tmp/cloche run --json --isolation {engine} -- /bin/true")
        assert done.returncode in (0, 137, -9, box.HOST_FAILURE, box.LAYER_MISSING), done
        left = world.leftovers()
        assert "processes" not in left
        world.reap()
        assert world.leftovers() == {}
    finally:
        os.rmdir(limit)
