"""An ordinary user without a delegated group: refused, or accepted by name; never in silence."""
import signal

import box
from checks import test

ACCEPTED = ("--accept", "memory", "--accept", "cpus")


@test("session", engines=None)
def container_without_a_group_is_refused_by_name():
    done = box.raw("run", "-e", "print('ran')")
    assert done.returncode == box.LAYER_MISSING and done.stdout == b"", done
    assert b"the memory limit and the cpus limit cannot be enforced" in done.stderr and b"--accept memory" in done.stderr, done
    assert b"Delegate=yes" in done.stderr, done
    done = box.raw("run", "--accept", "memory", "-e", "print('ran')")
    assert done.returncode == box.LAYER_MISSING and b"--accept cpus" in done.stderr and done.stdout == b"", done
    error = box.run("--accept", "cpus", "-e", "print('ran')").error
    assert (error["code"], error["layer"]) == ("layer_missing", "cgroup"), error


@test("session", engines=None)
def what_was_accepted_is_said():
    done = box.raw("run", *ACCEPTED, "-e", "print('ran')")
    assert (done.returncode, done.stdout) == (0, b"ran\n") and b"without cgroup" in done.stderr, done


@test("session")
def limits_that_need_no_group_hold(engine):
    accepted = ACCEPTED if engine == "container" else ()
    result = box.run(*accepted, "--wall", "900ms", "--", "sleep", "20", engine=engine)
    assert (result.cause, result.signal) == ("wall_time", signal.SIGKILL), result
    result = box.run(*accepted, "--cpu", "800ms", "--wall", "20s", "--", "bash", "-c", "while :; do :; done", engine=engine)
    assert result.cause == "cpu_time", result
    # Not of /dev/zero, which a process box does not have where no group counts what it is mapped to.
    result = box.run(*accepted, "--disk", "8M", "--", "bash", "-c", 'yes | head -c 20M >"$TMPDIR/f" || exit 1; sleep 5', engine=engine)
    assert result.cause == "disk", result
    result = box.run(*accepted, "--output-limit", "4K", "--", "yes", engine=engine)
    assert result.cause == "output" and len(result.stdout) == 4096, result


@test("session")
def memory_is_watched_all_the_same(engine):
    """Accepted is that the limit is not hard; a watchdog looks at it."""
    accepted = ACCEPTED if engine == "container" else ()
    code = "import time\nx = bytearray(b'x') * (120 << 20)\ntime.sleep(10)"
    result = box.python(code, *accepted, "--memory", "64M", "--wall", "20s", engine=engine)
    assert result.cause == "memory", result
