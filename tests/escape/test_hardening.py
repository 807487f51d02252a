"""Every hardening step matters: removed alone, a probe turns red, or the self-test refuses the run and names it."""
import re

import pytest

import box
import world as world_module

STEPS = re.findall(r"X\((\w+)\)", (box.ROOT / "src/os/hardening.h").read_text().split("enum hardening_step")[0])
STEPS = [step for step in STEPS if step != "name"]

# Steps that another one covers completely, so that no attack shows when they alone are missing. For these: with the
# companions removed the probe still holds, with the step removed as well it breaks.
COVERED = {
    ("capabilities", "container"): ("bounding_set,user_namespace,box_uid,seccomp", "chroot_is_denied"),
    ("capabilities", "process"): ("bounding_set,user_namespace,box_uid,seccomp", "chroot_is_denied"),
    ("bounding_set", "container"): ("capabilities,user_namespace,box_uid,seccomp", "chroot_is_denied"),
    ("bounding_set", "process"): ("capabilities,user_namespace,box_uid,seccomp", "chroot_is_denied"),
    ("no_new_privs", "container"): ("seccomp,landlock,landlock_scope,mount_nosuid,user_namespace", "setuid_programs_gain_nothing"),
    ("no_new_privs", "process"): ("seccomp,landlock,landlock_scope,mount_nosuid,user_namespace", "setuid_programs_gain_nothing"),
}
# Not part of an engine: nothing to remove.
NOT_IN = {
    "container": {"watchdog", "apparmor", "code_read_only"},
    "process": {"user_namespace", "pid_namespace", "network_namespace", "ipc_namespace", "uts_namespace",
                "cgroup_namespace", "time_namespace", "private_root", "root_read_only", "mount_nosuid", "proc_mask",
                "sys_mask", "minimal_dev", "cgroup_pids", "cgroup_cpu", "scratch_size",
                "scratch_inodes", "apparmor", "input_read_only", "init_dumpable", "bounding_set"},
}
CASES = [(step, engine) for step in STEPS for engine in box.ENGINES if step not in NOT_IN[engine]]

# Steps whose absence the box proves by itself before the user's code starts.
VERIFIED = {
    # (capabilities: a uid that is not 0 loses them at exec all the same, so nothing is missing then)
    "container": set(STEPS) - NOT_IN["container"] - {"new_session", "input_read_only", "capabilities"},
    "process": {"no_new_privs", "seccomp", "landlock", "landlock_scope", "rlimits", "close_descriptors",
                "clean_environment", "cgroup_memory"},
}


def broke(world, engine, probe, weaken):
    result = world.run(engine, probe, weaken=weaken)
    return result.json.get("exit_code") == 1


def hoard_succeeds(engine, weaken):
    result = box.python("x = b'x' * (200 << 20)\nimport time; time.sleep(0.3); print(len(x))", "--memory", "64M", engine=engine, weaken=weaken)
    return result.cause == "exit" and "209715200" in result.stdout


def resource_attack_succeeds(engine, step):
    """Steps that are limits: the attack passes the limit when the step is missing."""
    if step == "cgroup_memory" and engine == "process":  # the watchdog stands in for it, in a look or two
        return not hoard_succeeds(engine, None) and not hoard_succeeds(engine, step) and hoard_succeeds(engine, step + ",watchdog")
    if step == "cgroup_memory":
        result = box.python("x = b'x' * (200 << 20); print(len(x))", "--memory", "64M", engine=engine, weaken=step)
        return result.cause == "exit" and "209715200" in result.stdout
    if step == "watchdog":
        code = "import os, time\nfor i in range(9): open(f\"{os.environ['TMPDIR']}/{i}\", 'wb').write(bytes(4 << 20))\ntime.sleep(0.5); print('written')"
        strong, weak = (box.python(code, "--disk", "8M", engine=engine, weaken=each) for each in (None, step))
        return strong.cause == "disk" and weak.stdout == "written\n"
    if step == "cgroup_pids":
        code = "import subprocess as s\np = [s.Popen(['sleep', '1']) for i in range(20)]\nprint(len(p))"
        return box.python(code, "--pids", "8", engine=engine, weaken=step).stdout == "20\n"
    if step == "cgroup_cpu":
        code = "import time\nt = time.time()\nwhile time.process_time() < 0.2: pass\nprint(time.time() - t)"
        slow = float(box.python(code, "--cpus", "0.05", engine=engine).stdout)
        return slow > 2 and float(box.python(code, "--cpus", "0.05", engine=engine, weaken=step).stdout) < slow * 0.7
    if step == "scratch_size":
        code = "open('/tmp/f', 'wb').write(bytes(9 << 20)); print('written')"
        return box.python(code, "--disk", "8M", engine=engine, weaken=step + ",rlimits").stdout == "written\n"
    if step == "scratch_inodes":
        code = "for i in range(300): open(f'/tmp/{i}', 'w').close()\nprint('made')"
        return box.python(code, "--inodes", "100", engine=engine, weaken=step).stdout == "made\n"
    if step == "new_session":
        return True  # needs a terminal: test_probes.py has it (no_controlling_terminal)
    return None


@pytest.mark.parametrize("step, engine", CASES, ids=[f"{engine}-{step}" for step, engine in CASES])
def test_removing_the_step_turns_a_probe_red(world, step, engine):
    by_resource = resource_attack_succeeds(engine, step)
    if by_resource is not None:
        assert by_resource
        return
    if (step, engine) in COVERED:
        companions, probe = COVERED[step, engine]
        assert not broke(world, engine, probe, companions)
        assert broke(world, engine, probe, f"{companions},{step}")
        return
    candidates = [probe for probe in world_module.probes() if engine in probe.engines and step in probe.controls]
    candidates.sort(key=lambda probe: len(probe.controls))
    red = next((probe.name for probe in candidates if broke(world, engine, probe.name, step)), None)
    assert red, f"no probe notices that {step} is missing; tried {[probe.name for probe in candidates]}"


@pytest.mark.parametrize("step, engine", [case for case in CASES if case[0] in VERIFIED[case[1]]],
                         ids=[f"{engine}-{step}" for step, engine in CASES if step in VERIFIED[engine]])
def test_a_box_without_the_step_refuses_to_run(step, engine, tmp_path):
    done = box.raw("run", "--json", "--isolation", engine, "-e", "print('ran')", weaken=step, verify=True,
                   pass_fds=() if step != "close_descriptors" else (inheritable(tmp_path),))
    result = box.Result(done.stdout.decode(), done.returncode, done.stderr)
    assert done.returncode == box.LAYER_MISSING, result
    assert result.error["code"] == "layer_missing" and result.error["layer"], result
    assert b"ran" not in done.stdout


def inheritable(tmp_path):
    import os
    return os.open(tmp_path, os.O_RDONLY)


def test_the_shipped_program_has_no_such_door(engine):
    done = box.raw("run", "--isolation", engine, "-e", "import socket; socket.socket()",
                   env={"CLOCHE_WEAKEN": "seccomp,network_namespace"})
    assert b"PermissionError" in done.stderr
    assert b"CLOCHE_WEAKEN" not in box.CLOCHE.read_bytes()
