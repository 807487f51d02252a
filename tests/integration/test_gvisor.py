"""The engine gvisor: what is its own. What it shares with the others is in tests/lib/gvisor.py, the table."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import box
import keeper
import pytest

SLEEP = "import time; print('on', flush=True); time.sleep(60)"


def layers(result):
    return {layer["name"]: layer for layer in result.layers}


def family_of(pid):
    """All that descend from it."""
    family, fresh = set(), {str(pid)}
    while fresh:
        fresh = set(subprocess.run(["pgrep", "-P", ",".join(fresh)], capture_output=True, text=True).stdout.split())
        family |= fresh
    return family


def gvisor_is_asked(*args, **options):
    return box.run(*args, engine="gvisor", **options)


def test_kernel_is_not_the_host_s():
    result = gvisor_is_asked("--", "uname", "-r")
    assert result.stdout.strip() != os.uname().release, result
    assert layers(result)["kernel"]["active"] and "runsc" in layers(result)["kernel"]["detail"]


def test_runtime_has_the_uid_of_the_box_and_not_root():
    process = subprocess.Popen([box.CLOCHE, "run", "-q", "--isolation", "gvisor", "-e", SLEEP], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"on\n"
        family = family_of(process.pid)
        assert len(family) >= 3, "the runtime, and what it started"
        for pid in family:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            uids = re.search(r"^Uid:\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", status, re.M).groups()
            assert all(0x7D000000 <= int(uid) < 0x7D020000 for uid in uids), status
            assert "NoNewPrivs:\t1" in status
            assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
            assert os.listdir(f"/proc/{pid}/root") != os.listdir("/")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def test_runtime_waits_for_no_grace_period_of_the_host_s():
    """Its table of descriptors is large from the start, and it finds no membarrier: either would be a wait."""
    process = subprocess.Popen([box.CLOCHE, "run", "-q", "--isolation", "gvisor", "-e", SLEEP], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"on\n"
        runtime = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        for pid in runtime:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            assert "FDSize:\t512" in status and "Seccomp:\t2" in status, status
        assert len(runtime) == 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)
    query = "import ctypes; print(ctypes.CDLL(None).syscall(324, 0, 0, 0))"
    assert gvisor_is_asked("-e", query).stdout in ("0\n", "-1\n"), "its kernel says that it has none"


def test_nobody_in_the_box_can_be_given_powers():
    """Init gives programs their user, so it has that power, and the bounding set is empty for it too."""
    for pid, held in (("1", "00000000000000e0"), ("self", "0000000000000000")):
        result = gvisor_is_asked("--", "cat", f"/proc/{pid}/status")
        caps = dict(re.findall(r"^Cap(\w+):\s+(\w+)", result.stdout, re.M))
        assert caps["Bnd"] == caps["Inh"] == "0000000000000000", (pid, caps)
        assert caps["Prm"] == caps["Eff"] == held, "setgid, setuid, kill" if pid == "1" else "none"


def test_large_writes_are_whole():
    """gVisor writes short to a pipe of the host's; python -u would lose the rest."""
    result = gvisor_is_asked("-e", "import sys, time\nfor i in range(3): sys.stdout.write('x' * 700000)\nsys.stderr.write('e' * 300000)")
    assert (len(result.stdout), len(result.stderr), result.exit_code) == (2100000, 300000, 0)


def test_output_can_be_opened_by_name():
    result = gvisor_is_asked("--", "sh", "-c", "echo one > /dev/stdout; echo two > /dev/stderr")
    assert (result.stdout, result.stderr) == ("one\n", "two\n"), result


def test_memory_limit_is_the_program_s_and_not_the_runtime_s():
    assert gvisor_is_asked("--memory", "96M", "-e", "x = bytearray(60 << 20); print(len(x))").stdout == f"{60 << 20}\n"
    assert gvisor_is_asked("--memory", "96M", "-e", "x = b'x' * (130 << 20)").cause == "memory"


def test_killed_launcher_leaves_nothing():
    process = subprocess.Popen([box.CLOCHE, "run", "-q", "--isolation", "gvisor", "-e", SLEEP], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"on\n"
    family = family_of(process.pid)
    name = re.search(r"/cloche/(box-[\d-]+)", pathlib.Path(f"/proc/{min(family)}/cgroup").read_text()).group(1)
    groups = [path for path in box.census()["groups"] if path.endswith("/" + name)]
    assert groups
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(os.path.exists(f"/proc/{pid}") for pid in family):
        time.sleep(0.1)
    assert not [pid for pid in family if os.path.exists(f"/proc/{pid}")]
    assert box.raw("reap").returncode == 0
    assert not [path for path in groups if os.path.exists(path)]


@pytest.fixture
def fake(shared):
    """A program that says it is such a version of runsc."""
    def make(text):
        path = shared / "runsc"
        path.write_text(f"#!/bin/sh\necho '{text}'\n")
        path.chmod(0o755)
        return path
    return make


def refused(config, *lines):
    result = gvisor_is_asked("--config", config(*lines), "--", "/bin/true")
    assert result.returncode == box.LAYER_MISSING, result
    return result.json["error"]


@pytest.mark.parametrize("version", ["0.0~20221219.0", "release-20231204.0"])
def test_old_runtime_is_refused_by_name(config, fake, version):
    error = refused(config, f"oci_runtime = {fake('runsc version ' + version)}")
    assert version in error["message"] and "20240729" in error["message"] and "backports" in error["message"]


@pytest.mark.parametrize("version", ["0.0~20221219.0", "release-20231204.0"])
def test_old_runtime_is_refused_whatever_its_file_is_called(config, fake, version):
    usual = fake("runsc version " + version)
    other = usual.rename(usual.with_name("another-name"))
    error = refused(config, f"oci_runtime = {other}")
    assert version in error["message"] and "20240729" in error["message"], error


def test_runtime_may_be_a_file_of_any_name(config, shared):
    other = shared / "runsc-of-ours"
    shutil.copy(shutil.which("runsc"), other)
    assert gvisor_is_asked("--config", config(f"oci_runtime = {other}"), "--", "/bin/echo", "hello").stdout == "hello\n"


def test_runtime_without_a_version_is_refused(config, fake):
    assert "version" in refused(config, f"oci_runtime = {fake('hello')}")["message"]


def test_runtime_that_is_replaced_is_asked_again(config, fake, shared):
    assert "20221219" in refused(config, f"oci_runtime = {fake('runsc version 0.0~20221219.0')}")["message"]
    assert "20230101" in refused(config, f"oci_runtime = {fake('runsc version 0.0~20230101.0')}")["message"]


def test_missing_runtime_is_refused_by_name(config):
    error = refused(config, "oci_runtime = /nowhere/runsc")
    assert "/nowhere/runsc" in error["message"] and "oci_runtime" in error["message"]


def test_runtime_that_cannot_start_says_why(config):
    error = refused(config, "oci_platform = steam")
    assert "steam" in error["message"], error


def test_other_runtime_shares_the_kernel_only_when_that_is_accepted(config):
    assert "accept = kernel" in refused(config, "oci_runtime = crun")["message"]
    accepted = config("oci_runtime = crun", "accept = kernel")
    result = gvisor_is_asked("--config", accepted, "--", "sh", "-c", "id -u; uname -r; touch /x; exit 5")
    assert (result.exit_code, result.stdout) == (5, f"1000\n{os.uname().release}\n"), result
    assert layers(result)["kernel"]["active"] is False


@pytest.mark.parametrize("code, limits, cause", [
    ("while True: pass", ("--wall", "600ms"), "wall_time"),
    ("x = b'x' * (200 << 20)", ("--memory", "96M"), "memory"),
    ("open('x', 'wb').write(b'x' * (20 << 20))", ("--disk", "10M"), "disk"),
    ("import os; os.kill(os.getpid(), 11)", (), "signal"),
])
def test_causes_under_crun(config, code, limits, cause):
    result = gvisor_is_asked("--config", config("oci_runtime = crun", "accept = kernel"), *limits, "-e", code)
    assert result.cause == cause, result


def test_container_is_weaker(config):
    result = box.python("1", "--config", config("isolation.min = gvisor"), engine="container")
    assert result.returncode == box.BAD_SPEC and "gvisor" in result.json["error"]["message"]


def test_rootless(shared):
    program = shared / "cloche"
    program.write_bytes(box.CLOCHE.read_bytes())
    program.chmod(0o755)
    result = gvisor_is_asked("--accept", "memory", "--accept", "cpus", "-e",
                             "import os; print(os.getuid()); open('f', 'w').write('x')", user=65534, program=program,
                             cwd="/", env={"HOME": "/nonexistent", "XDG_RUNTIME_DIR": ""})
    assert (result.exit_code, result.stdout) == (0, "0\n"), result
    assert layers(result)["kernel"]["active"] and [file["path"] for file in result.files] == ["f"]


def test_context_keeps_its_state():
    done = box.raw("repl", "--isolation", "gvisor", input=b"x = 20\nx + 22\n")
    assert b"42" in done.stdout, done


def test_who_says_that_it_ends_is_ended():
    """The host cannot see names in a kernel of the box's own: init listens there (guest/fork/farewell.c)."""
    says = "import ctypes, os, time\nctypes.CDLL(None).prctl(15, b'cloche-end {0}', 0, 0, 0)\n"
    closes = "os.close(1); os.close(2)\n"
    result = gvisor_is_asked("-e", "print(1, flush=True); open('f', 'w').write('x')\n" + says.format("007") + closes + "while True: pass")
    assert (result.cause, result.exit_code, result.stdout, [file["path"] for file in result.files]) == ("exit", 7, "1\n", ["f"]), result
    for name, other in (("999", ""), ("07", ""), ("007x", ""), ("007", "os.fork() or (os.close(1), os.close(2), time.sleep(9))\n")):
        result = gvisor_is_asked("-e", says.format(name) + other + closes + "time.sleep(0.3); os._exit(5)")
        assert (result.cause, result.exit_code) == ("exit", 5), (name, result)


def test_boxes_that_were_started_beforehand():
    with keeper.Keeper("--preload", "json", "--language", "python/gvisor,bash/gvisor") as kept:
        for kind, language, code in (("python/gvisor", "python", "import sys; print(6 * 7, sys.argv[1:])"),
                                     ("bash/gvisor", "bash", 'echo "42 [\'$1\']"')):
            kept.await_spares(kind)
            result = gvisor_is_asked("--warm", "--language", language, "-e", code, "a")
            assert (result.stdout, result.exit_code) == ("42 ['a']\n", 0), result
            assert kept.kind(kind)["hits"] == 1
        kept.await_spares("python/gvisor")
        result = gvisor_is_asked("--warm", "--memory", "64M", "-e", "x = b'x' * (120 << 20)")
        assert result.cause == "memory", result
        kept.await_spares("python/gvisor")
        result = gvisor_is_asked("--warm", "-e", "open('f', 'w').write('x'); raise SystemExit(3)")
        assert (result.exit_code, [file["path"] for file in result.files]) == (3, ["f"]), result
