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


@test("root", "user", "session")
def fork_bomb_dies_as_pids(engine):
    accepted = ACCEPTED if (role(), engine) == ("session", "container") else ()
    for name, bomb in BOMBS.items():
        started = time.monotonic()
        result = box.run(*accepted, "--pids", "16", "--wall", "10s", "--", *bomb, engine=engine, timeout=40)
        assert result.cause == "pids", (name, result)
        assert time.monotonic() - started < 14, (name, result)
