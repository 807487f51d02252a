"""Warm boxes and forks on a stock kernel: cgroup v2, its Landlock, with the profile and without."""
import subprocess

import box
import keeper
from checks import test

SESSION = """x = [1]
open("f", "w").write("one")
:fork
x.append(2)
:back
print(x, open("f").read(), open("/proc/self/cgroup").read().strip())
"""


@test("root", "profile", engines=None)
def warm_boxes_are_as_cold_ones():
    with keeper.Keeper("--spares", "1", "--preload", "json", minimum=1) as kept:
        code = "import os; print(os.getuid(), open('/proc/self/cgroup').read().strip()); open('out', 'w').write('x')"
        cold, hot = box.python(code), box.python(code, "--warm")
        state = kept.state()
    assert state["hits"] + state["misses"] == 1, state
    for field in ("cause", "exit_code", "stdout", "stderr", "files"):
        assert hot.json[field] == cold.json[field], (field, hot, cold)
    assert [layer["active"] for layer in hot.layers] == [layer["active"] for layer in cold.layers], (hot, cold)


@test("root", "profile", engines=None)
def memory_of_a_warm_box_is_limited():
    with keeper.Keeper("--spares", "1", "--preload", "json", minimum=1):
        assert box.python("x = bytearray(200 << 20)", "--warm", "--memory", "64M").cause == "memory"


@test("root", "profile", engines=None)
def contexts_fork():
    done = subprocess.run([box.CLOCHE, "repl"], input=SESSION, capture_output=True, text=True, timeout=300)
    assert "[1] one 0::/" in done.stdout, done


# The parent's group has room for one interpreter; its init, in which the forks' pid namespaces are, is in it too.
OUT_OF_MEMORY = """x = 1
:fork a
x = 2
y = b"x" * (1 << 30)
print("back at", x)
:back a
print("again at", x)
"""


@test("root", "profile", engines=None)
def forks_outlive_a_parent_that_runs_out_of_memory():
    """memory.oom.group, with which boxes are made, would have the kernel end that init with the rest."""
    done = subprocess.run([box.CLOCHE, "repl", "--lines", "--memory", "128M"], input=OUT_OF_MEMORY, capture_output=True, text=True, timeout=300)
    assert done.stdout == "back at 1\nagain at 1\n", done
    assert done.stderr.count("the interpreter died: memory") == 1, done
