"""Every probe in a healthy box must hold; the same probe in a box without the steps that stop it must break out."""
import os

import pytest

import gvisor
import world as world_module

CASES = [(probe, engine) for probe in world_module.probes() for engine in probe.engines]
# These are about where the launcher put the program; the trampoline has put it into /tmp itself. How a warm box keeps its
# code is in integration/test_warm.py.
ABOUT_THE_CODE = {"code_is_mounted_read_only", "own_program_cannot_be_rewritten", "program_directory_is_not_writable"}
WARM = [(probe, warm) for warm, engine in (("forked container", "container"), ("forked process", "process"),
                                              ("warm container", "container"), ("warm process", "process"))
        for probe in world_module.probes() if engine in probe.engines and probe.name not in ABOUT_THE_CODE]
GVISOR = [(probe, "gvisor") for probe in gvisor.asked(world_module.probes())]
NAMES = [f"{engine}-{probe.name}" for probe, engine in CASES]
HELD, BROKE = 0, 1


def outcome(result, probe):
    """0 held, 1 broke through, anything else with its reason."""
    if result.json.get("exit_code") is not None:
        return result.exit_code
    if probe.may_be_killed and result.json.get("cause") in ("denied_syscall", "memory", "pids"):
        return HELD
    return result.json.get("exit_code", f"{result}")


@pytest.mark.parametrize("probe, engine", CASES + WARM + GVISOR,
                         ids=NAMES + [f"{warm}-{probe.name}" for probe, warm in WARM + GVISOR])
def test_holds_in_a_healthy_box(world, probe, engine):
    canary = world.canary.read_text()
    result = world.run(engine, probe.name)
    assert outcome(result, probe) == HELD, result
    assert world.canary.read_text() == canary
    assert world.neighbour.poll() is None


# What these probes look for, a minimal host does not have: there is nothing to break out to then.
HOST_HAS = {
    "machine_id_is_hidden": lambda: any(map(os.path.exists, ("/etc/machine-id", "/var/lib/dbus/machine-id"))),
    "boot_cannot_be_listed": lambda: any(os.path.isdir(d) and os.listdir(d)
                                         for d in ("/boot", "/srv", "/mnt", "/media", "/lost+found")),
    "host_user_homes_cannot_be_listed": lambda: bool(os.listdir("/home")),
}


@pytest.mark.parametrize("probe, engine", CASES, ids=NAMES)
def test_breaks_out_of_a_weakened_box(world, probe, engine):
    expected = BROKE if HOST_HAS.get(probe.name, lambda: True)() else HELD
    if probe.name == "no_controlling_terminal":
        result = world.run(engine, probe.name, weaken=",".join(probe.controls), prefix=TERMINAL)
    else:
        result = world.run(engine, probe.name, weaken=",".join(probe.controls))
    assert outcome(result, probe) == expected, result


# Starts the launcher with a terminal of its own; stdin, stdout and stderr stay pipes.
TERMINAL = ["/usr/bin/python3", "-c", """
import fcntl, os, pty, sys, termios
master, slave = pty.openpty()
os.set_inheritable(master, True)  # or closing it at exec would hang up
os.setsid()
fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""]


def test_there_are_enough_probes():
    for engine in ("container", "process"):
        assert sum(engine in probe.engines for probe in world_module.probes()) >= 120
