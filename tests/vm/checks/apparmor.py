"""Cloche's AppArmor profile on a stock kernel: on, off, and what it alone stops."""
import pathlib
import subprocess

import box
from checks import ROOT, test

PROFILES = pathlib.Path("/sys/kernel/security/apparmor/profiles")

# Prints a line for each thing that worked. Without filter, Landlock and network namespace only AppArmor is left.
ATTACKS = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, call):
    try:
        if call() == -1: raise OSError(ctypes.get_errno(), name)
        print(name)
    except OSError: pass
attempt('unix socket', lambda: socket.socket(socket.AF_UNIX))
attempt('inet socket', socket.socket)
attempt('netlink socket', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
attempt('own settings', lambda: open('/proc/self/oom_score_adj', 'r+'))
attempt('own map', lambda: open('/proc/self/maps').read())
attempt('profile', lambda: open('/proc/self/attr/apparmor/current', 'w').write('changeprofile unconfined'))
attempt('signal', lambda: os.kill(os.getpid(), 0))
attempt('user namespace', lambda: libc.unshare(0x10000000))
attempt('mount namespace', lambda: libc.unshare(0x20000))
attempt('mount', lambda: libc.mount(b't', b'/tmp', b'tmpfs', 0, None))
attempt('umount', lambda: libc.umount2(b'/tmp', 2))
"""
WEAKENED = "seccomp,landlock,landlock_scope,network_namespace"
ALWAYS = ["unix socket", "own map", "signal", "user namespace"]  # the last: mediated by AppArmor 4 only


def load():
    """As `make install` does it."""
    return subprocess.run([ROOT / "setup" / "load-apparmor", "/usr/local"], capture_output=True, text=True)


def label_inside(*options):
    return box.run(*options, "--", "cat", "/proc/self/attr/apparmor/current").stdout.split("\n")[0]


@test("root", engines=None)
def boxes_are_unconfined_without_the_profile():
    assert "cloche" not in PROFILES.read_text()
    assert label_inside() == "unconfined"


@test("profile", "user", engines=None)
def boxes_are_in_the_profile():
    assert label_inside() == "cloche-box (enforce)"


@test("session", engines=None)
def boxes_are_in_the_profile_without_a_group_too():
    assert label_inside("--accept", "memory", "--accept", "cpus") == "cloche-box (enforce)"


@test("profile", "user", engines=None)
def profile_alone_stops_what_it_says():
    without = box.run("-e", ATTACKS, weaken=WEAKENED + ",apparmor")
    assert {"inet socket", "netlink socket", "own settings", "mount namespace", "mount", "umount"} <= set(without.stdout.splitlines()), without
    within = box.run("-e", ATTACKS, weaken=WEAKENED)
    assert within.stdout.splitlines() == ALWAYS, within


@test("profile", engines=None)
def programs_work_in_the_profile():
    code = ("import multiprocessing, os, signal, socket, subprocess, threading, tempfile\n"
            "server = socket.socket(socket.AF_UNIX); server.bind('/tmp/s'); server.listen()\nclient = socket.socket(socket.AF_UNIX); client.connect('/tmp/s')\n"
            "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n"
            "with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]\n"
            "child = subprocess.Popen(['sleep', '9']); open(f'/proc/{child.pid}/maps').read(); child.kill(); assert child.wait() == -9\n"
            "fd = os.memfd_create('x'); os.write(fd, open('/bin/true', 'rb').read()); assert subprocess.run([f'/proc/self/fd/{fd}'], pass_fds=[fd]).returncode == 0\n"
            "with tempfile.TemporaryFile() as file: file.write(b'x')\nos.mkfifo('/tmp/f'); os.link('/tmp/s', '/tmp/l'); os.rename('/tmp/l', '/tmp/m'); os.unlink('/tmp/m')\nprint('done')")
    result = box.python(code)
    assert (result.stdout, result.exit_code) == ("done\n", 0), result
    script = "cp /bin/ls /tmp/ls && /tmp/ls /code | cat; sleep 9 & kill %1; wait; (exec -a x cat </dev/null); mkdir -p /tmp/d && cd /tmp/d && tar cf ../t.tar . && echo done"
    result = box.bash(script)
    assert result.stdout.endswith("done\n") and result.exit_code == 0, result


@test("profile", engines=None)
def killed_and_cancelled_as_ever():
    """Signals from the launcher pass, whoever it is."""
    assert box.run("--wall", "700ms", "--", "sleep", "20").cause == "wall_time"
    assert box.run("--memory", "32M", "--", "dd", "if=/dev/zero", "of=/dev/shm/f", "bs=1M", "count=64").cause == "memory"


@test("profile", engines=None)
def nothing_was_refused_that_a_program_needs():
    """The kernel's log has what the attacks above tried, and nothing of healthy boxes."""
    log = subprocess.run(["journalctl", "--dmesg", "--output=cat"], capture_output=True, text=True).stdout
    refused = [line for line in log.splitlines() if 'apparmor="DENIED"' in line and 'profile="cloche-box"' in line]
    expected = ('family="inet"', 'family="netlink"', "oom_score_adj", 'capname="sys_admin"', "attr/apparmor/current")
    strange = [line for line in refused if not any(word in line for word in expected)]
    assert not strange, strange
    assert any('family="inet"' in line for line in refused), log[-3000:]
