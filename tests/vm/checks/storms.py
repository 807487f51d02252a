"""Fork bombs, last of all: what one leaves behind, if it is not held, would spoil whatever came after."""
import time

import box
from checks import role, test
from checks.session import ACCEPTED

DAEMONS = """
import os
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork(): os._exit(0)
    except OSError: pass
"""
BOMBS = {
    "pipes": ["bash", "-c", "b() { b | b & }; b; sleep 15; exit 1"],
    "daemons": ["python3", "-c", DAEMONS],
}


# An emulator, beside other work, is 50 times slower than the machines for which a second is promised; tests/abuse holds that.
SECONDS = 120


@test("root", "user", "session")
def fork_bomb_dies_as_pids(engine):
    without_group = (role(), engine) == ("session", "container")
    accepted = ACCEPTED if without_group else ()
    # There the process rlimit refuses to fork, and nothing tells how often: the bomb sizzles until its time is over.
    causes = ("pids", "wall_time") if without_group else ("pids",)
    # Bash waits longer and longer between its tries to fork: a slow one needs its 15 s to be refused as often as a storm is.
    wall = "5s" if without_group else "60s"
    for name, bomb in BOMBS.items():
        started = time.monotonic()
        result = box.run(*accepted, "--pids", "16", "--wall", wall, "--", *bomb, engine=engine, timeout=150)
        assert result.cause in causes, (name, result)
        assert time.monotonic() - started < SECONDS, (name, result)
