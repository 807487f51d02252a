#!/usr/bin/python3
"""The engine tests on the stock kernel: as root and as an ordinary user, with and without the AppArmor profile.

    tests/vm/suite BUILD                       stages all that is needed and runs this in the machine
    engines.py [--role ROLE] [--only WORD]     inside: one role; only tests whose name has the word

Prints a line for each test, and last 'N passed, N failed, N skipped'. The tests are in checks/; a role is a process
of its own, because that is how a user gets the cgroup that a role is about."""
import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys

os.environ.setdefault("CLOCHE_VM_ROLE", "root")
os.environ["PATH"] += ":/usr/sbin:/sbin"

from checks import Count, ROOT, apparmor, cleanup, files, layers, limits, probes, reported, run_role, say, service, session, shared_uid, system_calls, storms, warm  # noqa: E402, F401

USER_SCOPES = pathlib.Path("/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice")
PREFIXES = {"root": [], "profile": [], "user": ["as-user"], "session": ["as-user", "--session"]}


def run_in_role(name, only, count):
    """A process of that role; its lines are passed through as they come."""
    command = [*PREFIXES[name], "env", f"CLOCHE_VM_ROLE={name}", f"CLOCHE_BUILD={ROOT / 'build'}", f"MUST_WORK={os.environ.get('MUST_WORK', '')}",
               f"CLOCHE_VM_EVERY={os.environ.get('CLOCHE_VM_EVERY', '')}",
               sys.executable, "-B", __file__, "--role", name, "--only", only]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    last = ""
    for line in process.stdout:
        closing = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped\n", line)
        if closing:
            last = closing
        else:
            say(line.rstrip("\n"))
    process.wait()
    for scope in USER_SCOPES.glob("*.scope/cgroup.kill"):  # what a bomb left, if a test failed
        with contextlib.suppress(OSError):  # it may go by itself in this moment
            scope.write_text("1")
    count.add(Count(*map(int, last.groups())) if last else Count(0, 1, 0))
    if not last:
        say(f"FAILED  {name}: the tests of this role ended without a count (exit {process.returncode})")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", choices=PREFIXES)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    count = Count()
    if arguments.role:
        count = run_role(arguments.only)
    else:
        run_in_role("root", arguments.only, count)
        os.environ["CLOCHE_VM_ROLE"] = "profile"
        with reported("setup/load-apparmor loads the profile", count):
            done = apparmor.load()
            assert done.returncode == 0 and "loaded cloche-box" in done.stdout, done
            assert "cloche-box (enforce)" in apparmor.PROFILES.read_text()
        for name in ("profile", "user", "session"):
            run_in_role(name, arguments.only, count)
        with reported("unloaded again, boxes work without it", count):
            subprocess.run(["apparmor_parser", "--remove", "/etc/apparmor.d/cloche-box"], check=True)
            apparmor.boxes_are_unconfined_without_the_profile()
    print(count)
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
