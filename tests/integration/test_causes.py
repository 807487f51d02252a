"""Why a run ended: exactly one cause, for both engines, and never a wrong one."""
import json
import os
import shlex
import signal
import subprocess
import time

import box
import pytest

MEMORY = ("--memory", "96M", "--wall", "15s")

GRAB = "x = []\nwhile True: x.append(bytearray(b'x') * (1 << 20))"


def assert_killed(result, cause, returncode=128 + signal.SIGKILL):
    assert result.cause == cause, result
    assert (result.exit_code, result.signal) == (None, signal.SIGKILL), result
    assert result.returncode == returncode
    assert result.timed_out == (cause in ("wall_time", "cpu_time"))


def test_exit(engine):
    result = box.python("raise SystemExit(3)", engine=engine)
    assert (result.cause, result.exit_code, result.signal, result.timed_out) == ("exit", 3, None, False)


def test_uncaught_exception_is_an_exit_with_a_traceback(engine):
    result = box.python("1/0", engine=engine)
    assert (result.cause, result.exit_code) == ("exit", 1) and "ZeroDivisionError" in result.stderr


def test_signal(engine):
    result = box.run("--", "sh", "-c", "kill -SEGV $$", engine=engine)
    assert (result.cause, result.exit_code, result.signal, result.timed_out) == ("signal", None, 11, False)


@pytest.mark.parametrize("name", ["XCPU", "XFSZ", "SYS", "KILL"])
def test_signal_that_the_program_sends_itself_is_no_limit(engine, name):
    result = box.run("--", "sh", "-c", f"kill -{name} $$; sleep 1", engine=engine)
    assert (result.cause, result.signal, result.timed_out) == ("signal", getattr(signal, "SIG" + name), False), result


def test_wall_time(engine):
    result = box.python("import time; print('before'); time.sleep(20)", "--wall", "700ms", engine=engine)
    assert_killed(result, "wall_time")
    assert result.stdout == "before\n" and 700 <= result.usage["wall_ms"] < 1700
    assert "700 ms" in result.detail and "wall" in result.detail


def test_wall_time_of_a_program_that_ignores_every_signal(engine):
    code = ("import signal, time\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except (OSError, ValueError): pass\n"
            "while True: time.sleep(1)")
    assert_killed(box.python(code, "--wall", "600ms", engine=engine), "wall_time")


def test_wall_time_of_a_stopped_program(engine):
    assert_killed(box.run("--wall", "600ms", "--", "sh", "-c", "kill -STOP $$", engine=engine), "wall_time")


def test_cpu_time(engine):
    result = box.python("while True: pass", "--cpu", "400ms", "--wall", "10s", engine=engine)
    assert_killed(result, "cpu_time")
    spent = result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"]
    assert 390 <= spent < 900, result.usage
    assert "400 ms" in result.detail


def test_cpu_time_is_summed_over_processes(engine):
    code = "import os\nfor i in range(3): os.fork()\nwhile True: pass"
    result = box.python(code, "--cpu", "800ms", "--wall", "10s", "--cpus", "2", engine=engine)
    assert_killed(result, "cpu_time")
    assert 780 <= result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"] < 1800, result.usage


def test_cpu_time_of_short_children_is_summed_too(engine):
    result = box.bash("while true; do for i in 1 2 3 4 5 6 7 8; do (for ((j=0;j<3000;j++)); do :; done); done; done",
                      "--cpu", "700ms", "--wall", "15s", engine=engine)
    assert_killed(result, "cpu_time")


def test_cpu_time_of_orphans_that_nobody_waited_for_is_summed_too(engine):
    """Double forks: what the orphans spent belongs to no parent in the box."""
    code = ("import os, time\nwhile True:\n  if os.fork() == 0:\n    if os.fork() == 0:\n      e = time.process_time() + 0.02\n"
            "      while time.process_time() < e: pass\n    os._exit(0)\n  os.wait()\n  time.sleep(0.01)")
    result = box.python(code, "--cpu", "700ms", "--wall", "8s", engine=engine)
    assert_killed(result, "cpu_time")


def test_memory_of_a_single_process(engine):
    result = box.python(GRAB, *MEMORY, engine=engine)
    assert_killed(result, "memory")
    assert "96 MiB" in result.detail
    assert result.usage["peak_memory_bytes"] > 80 << 20


def test_memory_at_one_stroke(engine):
    assert_killed(box.python("x = b'x' * (400 << 20)\nimport time; time.sleep(1)", *MEMORY, engine=engine), "memory")


def test_memory_of_a_child(engine):
    code = f"import subprocess, sys; r = subprocess.run([sys.executable, '-c', {GRAB!r}]); sys.exit(0)"
    assert box.python(code, *MEMORY, engine=engine).cause == "memory"


def test_memory_of_a_grandchild(engine):
    code = f"import os\nif os.fork() == 0:\n  if os.fork() == 0:\n    exec({GRAB!r})\n  os.wait()\n  os._exit(0)\nos.wait()"
    assert box.python(code, *MEMORY, engine=engine).cause == "memory"


def test_memory_of_a_daemon_that_left_the_session(engine):
    code = (f"import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    exec({GRAB!r})\n  os._exit(0)\n"
            "os.wait()\ntime.sleep(8)")
    assert box.python(code, *MEMORY, engine=engine).cause == "memory"


def test_memory_of_many_small_processes_together(engine):
    code = ("import os, time\nfor i in range(12):\n  if os.fork() == 0:\n    x = bytearray(b'x') * (16 << 20)\n    time.sleep(8)\n"
            "    os._exit(0)\ntime.sleep(8)")
    assert box.python(code, *MEMORY, engine=engine).cause == "memory"


def test_memory_of_threads_together(engine):
    code = ("import threading, time\ndef grab():\n  x = bytearray(b'x') * (16 << 20)\n  time.sleep(8)\n"
            "for i in range(12): threading.Thread(target=grab).start()")
    assert box.python(code, *MEMORY, engine=engine).cause == "memory"


def test_memory_of_a_shell_whose_child_died_is_not_a_plain_signal(engine):
    """The shell survives its child and would exit 137 or 0: the cause is still memory."""
    result = box.bash(f"/usr/bin/python3 -c {shlex.quote(GRAB)}; echo $?; exit 0", *MEMORY, engine=engine)
    assert result.cause == "memory", result


def test_memory_that_just_fits_is_no_cause(engine):
    result = box.python("x = bytearray(b'x') * (60 << 20); print(len(x))", *MEMORY, engine=engine)
    assert (result.cause, result.exit_code) == ("exit", 0)


def test_forked_pages_are_counted_once(engine):
    """20 children that share 40 MB with their parent use 40 MB, not 800."""
    code = ("import os, time\nx = bytearray(b'x') * (40 << 20)\nfor i in range(20):\n  if os.fork() == 0:\n    time.sleep(0.5)\n"
            "    os._exit(0)\nfor i in range(20): os.wait()\nprint('fits')")
    result = box.python(code, "--memory", "200M", "--wall", "15s", engine=engine)
    assert (result.cause, result.stdout) == ("exit", "fits\n"), result


def test_pids_by_a_program_that_gives_up(engine):
    code = "import subprocess\nps = [subprocess.Popen(['sleep', '3']) for i in range(30)]"
    result = box.python(code, "--pids", "12", "--wall", "15s", engine=engine)
    assert result.cause == "pids", result
    assert "12" in result.detail


def test_disk_names_the_limit_that_was_reached(engine):
    """Bytes or inodes."""
    result = box.python("import time\nfor i in range(100): open(f'{i}', 'w')\ntime.sleep(1)", "--inodes", "50", "--disk", "64M", "--wall", "15s", engine=engine)
    assert result.cause == "disk" and "inodes is 50" in result.detail, result
    result = box.python("open('f', 'wb').write(bytes(40 << 20)); import time; time.sleep(1)", "--disk", "16M", "--wall", "15s", engine=engine)
    assert result.cause == "disk" and "disk is 16 MiB" in result.detail, result


def test_pids_by_threads(engine):
    code = "import threading, time\nfor i in range(40): threading.Thread(target=time.sleep, args=(2,)).start()"
    result = box.python(code, "--pids", "12", "--wall", "15s", engine=engine)
    assert result.cause == "pids", result


def test_pids_by_a_fork_bomb(engine):
    result = box.bash("f() { f | f & }; f; sleep 10", "--pids", "20", "--wall", "6s", "--cpu", "60s", engine=engine)
    assert_killed(result, "pids")


def test_pids_of_a_program_that_copes_is_an_exit(engine):
    """It asked for one process too many, was refused, and went on to end well."""
    code = ("import subprocess, sys\nps = []\ntry:\n  for i in range(30): ps.append(subprocess.Popen(['sleep', '0.2']))\n"
            "except BlockingIOError: print('refused')\nfor p in ps: p.wait()")
    result = box.python(code, "--pids", "12", "--wall", "15s", engine=engine)
    if engine == "process" and result.cause == "pids":
        return  # its watchdog does not refuse: it ends a box that has too many
    assert (result.cause, result.exit_code, result.stdout) == ("exit", 0, "refused\n"), result


def test_exactly_as_many_processes_as_allowed(engine):
    code = "import subprocess\nps = [subprocess.Popen(['sleep', '0.3']) for i in range(9)]\nfor p in ps: p.wait()"
    result = box.python(code, "--pids", "10", engine=engine)
    assert (result.cause, result.exit_code) == ("exit", 0), result


@pytest.mark.parametrize("place", ["TMPDIR", "HOME", "CLOCHE_OUTPUT"])
def test_disk(engine, place):
    code = f"import os\nwith open(os.environ['{place}'] + '/f', 'wb') as f:\n  while True: f.write(bytes(1 << 20)); f.flush()"
    result = box.python(code, "--disk", "8M", "--wall", "10s", engine=engine)
    assert result.cause == "disk", result
    assert "8 MiB" in result.detail


def test_disk_of_many_files_together(engine):
    code = "import os\nfor i in range(64): open(os.environ['TMPDIR'] + f'/{i}', 'wb').write(bytes(1 << 20))\nimport time; time.sleep(5)"
    result = box.python(code, "--disk", "8M", "--wall", "10s", engine=engine)
    assert result.cause == "disk", result


def test_disk_by_inodes(engine):
    code = "import os\nfor i in range(5000): open(os.environ['TMPDIR'] + f'/{i}', 'w').close()\nimport time; time.sleep(5)"
    result = box.python(code, "--inodes", "300", "--wall", "10s", engine=engine)
    assert result.cause == "disk", result


def test_disk_that_just_fits_is_no_cause(engine):
    code = "import os; open(os.environ['TMPDIR'] + '/f', 'wb').write(bytes(7 << 20)); import time; time.sleep(0.3)"
    result = box.python(code, "--disk", "8M", engine=engine)
    assert (result.cause, result.exit_code) == ("exit", 0), result


def test_output(engine):
    result = box.python("while True: print('x' * 1000)", "--output-limit", "100K", "--wall", "10s", engine=engine)
    assert_killed(result, "output")
    assert len(result.stdout) == 100 << 10 and result.truncated["stdout"] > 1 << 20


def test_output_on_stderr(engine):
    result = box.python("import sys\nwhile True: sys.stderr.write('x' * 1000)", "--output-limit", "100K", "--wall", "10s",
                        engine=engine)
    assert_killed(result, "output")
    assert len(result.stderr) == 100 << 10 and result.truncated["stderr"] > 1 << 20


def test_denied_syscall_has_its_name(engine):
    for number, name in ((165, "mount"), (169, "reboot"), (321, "bpf"), (308, "setns"), (155, "pivot_root")):
        code = f"import ctypes; ctypes.CDLL(None).syscall({number}, 0, 0, 0, 0, 0); print('survived')"
        result = box.python(code, engine=engine)
        assert_killed(result, "denied_syscall")
        assert result.denied_syscall == name and name in result.detail and "survived" not in result.stdout


def test_denied_syscall_of_a_child_has_its_name(engine):
    code = ("import os, ctypes, time\nif os.fork() == 0: ctypes.CDLL(None).syscall(165, 0, 0, 0, 0, 0)\n"
            "time.sleep(5)")
    result = box.python(code, engine=engine)
    assert_killed(result, "denied_syscall")
    assert result.denied_syscall == "mount"


def test_syscall_refused_with_an_errno_is_no_cause(engine):
    result = box.python("import ctypes; print(ctypes.CDLL(None, use_errno=True).syscall(272, 0x10000000), ctypes.get_errno())",
                        engine=engine)
    assert (result.cause, result.exit_code) == ("exit", 0) and result.stdout.startswith("-1 ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_cancelled(engine, number):
    process = subprocess.Popen([box.CLOCHE, "run", "--json", "--isolation", engine, "-e",
                                "import time; print('before'); time.sleep(20)"], stdout=subprocess.PIPE)
    time.sleep(0.5)
    process.send_signal(number)
    before = time.monotonic()
    output, _ = process.communicate(timeout=5)
    assert time.monotonic() - before < 2
    result = box.Result(output.decode(), process.returncode, "")
    assert_killed(result, "cancelled", -number)  # we die of what we were told to die of
    assert result.stdout == "before\n"


def test_cancelled_while_compiling(engine):
    """The code makes the compiler take long; nothing of it may be left, and the cause is ours."""
    code = "#include <" + "/" * 1000 + "dev/zero>\nint main(void) { return 0; }"
    process = subprocess.Popen([box.CLOCHE, "run", "--json", "--isolation", engine, "-l", "c", "-e", code],
                               stdout=subprocess.PIPE)
    time.sleep(0.15)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=5)
    assert json.loads(output)["cause"] in ("cancelled", "exit", "memory")


def test_cancelled_by_a_ctrl_c_of_the_whole_group(engine):
    """A terminal sends SIGINT to the group: the box has a session of its own and is ended by us."""
    process = subprocess.Popen([box.CLOCHE, "run", "--json", "--isolation", engine, "-e",
                                "import time\ntry: time.sleep(20)\nexcept KeyboardInterrupt: print('reached')"],
                               stdout=subprocess.PIPE, start_new_session=True)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=5)
    result = json.loads(output)
    assert result["cause"] == "cancelled" and result["stdout"] == ""


def test_cause_is_told_on_stderr_without_json(engine):
    for args, words in ((("--wall", "300ms", "-e", "import time; time.sleep(9)"), (b"wall_time", b"300 ms")),
                        (("--memory", "64M", "-e", GRAB), (b"memory", b"64 MiB")),
                        (("-e", "import ctypes; ctypes.CDLL(None).syscall(165)"), (b"denied_syscall", b"mount"))):
        done = box.raw("run", "--isolation", engine, *args)
        assert done.returncode == 137
        last = done.stderr.strip().splitlines()[-1]
        for word in words:
            assert word in last, done.stderr
        assert box.raw("run", "--quiet", "--isolation", engine, *args).stderr == b""


def test_every_cause_is_documented():
    man = subprocess.run([box.CLOCHE, "man"], capture_output=True, text=True).stdout
    for cause in ("exit", "signal", "wall_time", "cpu_time", "memory", "pids", "disk", "output", "denied_syscall",
                  "cancelled", "host_failure"):
        assert f".B {cause}\n" in man


def test_limits_of_init_cannot_be_set(engine):
    """Init would end without a word about how the program did: a host's failure that the guest makes up."""
    result = box.python("""
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
for kind in (7, 0, 9):  # open files, CPU time, address space
    print(libc.syscall(302, os.getppid(), kind, (ctypes.c_ulong * 2)(0, 0), 0), ctypes.get_errno())
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.1)  # an orphan, whose end wakes init
    os._exit(0)
os.wait()
time.sleep(0.3)
print("there")
""", engine=engine)
    assert (result.cause, result.stdout) == ("exit", "-1 1\n-1 1\n-1 1\nthere\n"), result
