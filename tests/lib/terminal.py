"""Runs cloche as a person does: on a terminal."""
import os
import pty
import select
import subprocess
import time

import box


def on_terminal(*args, stdout=True, stderr=True, seconds=15):
    """Runs cloche with a terminal for its output; returns (exit code, what the terminal got, what a pipe got)."""
    master, slave = pty.openpty()
    process = subprocess.Popen([str(box.CLOCHE), *map(str, args)], stdin=subprocess.DEVNULL,
                               stdout=slave if stdout else subprocess.PIPE, stderr=slave if stderr else subprocess.PIPE)
    os.close(slave)
    seen = b""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.2)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            seen += data
    os.close(master)
    piped = (process.stdout or process.stderr).read() if process.stdout or process.stderr else b""
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()
    return process.wait(5), seen, piped
