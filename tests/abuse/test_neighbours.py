"""An attack in one box is not felt in the next: a neighbour starts, works and ends as always."""
import json
import subprocess
import time

import attack
import box
import pytest

NEIGHBOUR_S = 5.0  # loose: the machine has two cores, and the attack has one of them

ATTACKS = {
    "fork bomb": ("-l", "bash", "-e", "bomb() { bomb | bomb & }; bomb; while :; do sleep 1; done"),
    "busy loops": ("-e", "import os\nfor i in range(5): os.fork()\nwhile True: pass"),
    "memory": ("-e", "import os\nwhile True:\n  if os.fork() == 0:\n    x = bytearray(b'x') * (100 << 20)\n    os._exit(0)\n  os.wait()"),
    "disk": ("-e", "import os\nwhile True:\n  with open(os.environ['TMPDIR'] + '/x', 'wb') as f:\n    for i in range(60): f.write(bytes(1 << 20))"),
    "system calls": ("-e", "import os\nwhile True: os.getppid(); os.stat('/usr')"),
    "output": ("--output-limit", "8M", "-e", "import os\nwhile True: os.write(1, b'x' * 65536)"),
    "signals": ("-e", "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *a: None)\nwhile True:\n  for p in (os.getpid(), os.getppid(), 1):\n"
                "    try: os.kill(p, signal.SIGUSR1)\n    except OSError: pass"),
    "directories": ("-e", "import os\nos.chdir(os.environ['TMPDIR'])\nwhile True:\n  os.makedirs('/'.join(['d'] * 60))\n  for i in range(60): os.removedirs('/'.join(['d'] * 60)); break"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_neighbour_works_during_an_attack(engine, name):
    attacker = subprocess.Popen([box.CLOCHE, "run", "--json", "--isolation", engine, "--wall", "1200ms", "--cpu", "60s", *ATTACKS[name]],
                                stdout=subprocess.PIPE)
    try:
        time.sleep(0.3)
        times = []
        for _ in range(3):
            result, seconds = attack.timed(box.python, "print(sum(range(1000)))", engine=engine)
            assert (result.cause, result.stdout) == ("exit", "499500\n"), result
            times.append(seconds)
        assert max(times) < NEIGHBOUR_S, times
        output, _ = attacker.communicate(timeout=10)
        assert json.loads(output)["cause"] in ("wall_time", "pids", "memory", "disk", "output", "cpu_time", "exit")
    finally:
        attacker.kill()
        attacker.wait()


def test_two_bombs_at_once_do_not_share_a_limit(engine):
    """Each has processes of its own: one bomb does not use up the other's."""
    bomb = subprocess.Popen([box.CLOCHE, "run", "-q", "--isolation", engine, "--wall", "2s", "--pids", "64", *ATTACKS["fork bomb"]],
                            stderr=subprocess.DEVNULL)
    time.sleep(0.4)
    code = "import subprocess\nps = [subprocess.Popen(['sleep', '0.3']) for i in range(60)]\nfor p in ps: p.wait()\nprint('all sixty')"
    result = box.python(code, "--pids", "64", "--wall", "20s", engine=engine)
    bomb.wait(6)
    assert result.stdout == "all sixty\n", result


def test_many_boxes_at_once(engine):
    """Twenty at a time, each with its own files and its own end."""
    processes = [subprocess.Popen([box.CLOCHE, "run", "--json", "--isolation", engine, "-e",
                                   f"import os, time\nopen(os.environ['TMPDIR'] + '/x', 'w').write('{i}'); time.sleep(0.2)\n"
                                   f"print(open(os.environ['TMPDIR'] + '/x').read()); raise SystemExit({i})"], stdout=subprocess.PIPE)
                 for i in range(20)]
    for i, process in enumerate(processes):
        result = json.loads(process.communicate(timeout=30)[0])
        assert (result["stdout"], result["exit_code"], result["cause"]) == (f"{i}\n", i, "exit")


def test_forty_boxes_one_after_the_other_leave_nothing(engine):
    before = box.census()
    for i in range(40):
        assert box.raw("run", "-q", "--isolation", engine, "--", "/bin/true").returncode == 0, i
    assert not attack.leftovers(before)


def test_boxes_killed_at_random_leave_nothing_after_a_reap(engine):
    before = box.census()
    for i in range(12):
        process = subprocess.Popen([box.CLOCHE, "run", "-q", "--isolation", engine, "--", "sleep", "20"], stderr=subprocess.DEVNULL)
        time.sleep(0.003 * i)
        process.kill()
        process.wait()
    assert box.raw("reap").returncode == 0
    assert not attack.leftovers(before)


def test_other_engines_box_cannot_be_told_apart(engine):
    """A neighbour of the other engine is as far away as one of the same."""
    other = {"container": "process", "process": "container"}[engine]
    neighbour = subprocess.Popen([box.CLOCHE, "run", "-q", "--isolation", other, "-e", "import time; time.sleep(1.5)", "--", "secret-argument"])
    try:
        time.sleep(0.4)
        code = ("seen = []\nfor p in range(1, 33000):\n  try: seen.append(open(f'/proc/{p}/cmdline').read())\n  except OSError: pass\n"
                "print('secret-argument' in ' '.join(seen))")
        assert box.python(code, engine=engine).stdout == "False\n"
    finally:
        neighbour.wait(5)
