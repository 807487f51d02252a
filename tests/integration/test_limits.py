"""Limits: their options, their values, their ceilings and their defaults."""
import json
import pathlib
import shutil
import signal
import subprocess
import time

import box
import pytest

SIZES = ("memory", "disk", "output-limit", "collect")
TIMES = ("cpu", "wall")
COUNTS = ("pids", "inodes", "open-files", "collect-files")
ALL = (*SIZES, *TIMES, "cpus", *COUNTS)
MAY_BE_ZERO = ("output-limit", "collect", "collect-files")

# what an error must say is allowed, by kind
EXAMPLE = {**{name: "256M" for name in SIZES}, **{name: "10s" for name in TIMES}, "cpus": "50%",
           **{name: "whole number" for name in COUNTS}}


def refused(*args, config=None):
    """Runs, expects a refusal before anything started, and returns its text."""
    more = ("--config", config) if config else ()
    done = box.raw("run", *more, *args, "-e", "print('started')")
    assert done.returncode == box.BAD_SPEC, done
    assert done.stdout == b""
    return done.stderr.decode()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("value", ["", "lots", "-1", "-5M", "+5", "1e9", "0x10", "12 34", "10parsecs", "nan", "inf", "５",
                                   "1,5", "9" * 40, "1.2.3", "M", "%", " 5", "5 "])
def test_value_that_is_no_value_is_refused(name, value):
    text = refused(f"--{name}={value}")
    assert name.replace("-", "_") in text or name in text
    assert value[:60] in text
    assert EXAMPLE[name] in text or "allowed" in text, text


@pytest.mark.parametrize("name", [name for name in ALL if name not in MAY_BE_ZERO])
def test_zero_is_refused(name):
    text = refused(f"--{name}", "0")
    assert name.replace("-", "_") in text and " to " in text and " 0 " in text, text


@pytest.mark.parametrize("name, value", [("memory", "65G"), ("disk", "1T"), ("cpu", "25h"), ("wall", "100000s"),
                                         ("cpus", "257"), ("pids", "40000"), ("inodes", "10000001"), ("open-files", "65537"),
                                         ("output-limit", "2G"), ("collect", "65G"), ("collect-files", "1000001")])
def test_more_than_the_ceiling_is_refused(name, value):
    text = refused(f"--{name}", value)
    assert name.replace("-", "_") in text and "out of range" in text and " to " in text, text


@pytest.mark.parametrize("name, value", [("memory", "7M"), ("disk", "1000"), ("cpu", "9ms"), ("wall", "1ms"),
                                         ("cpus", "0.5%"), ("inodes", "15"), ("open-files", "3")])
def test_less_than_the_least_is_refused(name, value):
    text = refused(f"--{name}", value)
    assert name.replace("-", "_") in text and "out of range" in text, text


@pytest.mark.parametrize("name", ALL)
def test_value_is_needed(name):
    done = box.raw("run", f"--{name}")
    assert done.returncode == box.BAD_SPEC and f"--{name} needs a value".encode() in done.stderr


def test_same_refusals_for_a_compile_step():
    for name in ALL:
        field = name.replace("-", "_")
        for value in ("lots", "-1", ""):
            text = refused("--language", "c", "--compile", f"{field}={value}")
            assert "compile" in text and field in text, text
    for pair in ("memory", "=5", "nothing=5", "memory 5"):
        text = refused("--language", "c", "--compile", pair)
        assert "compile" in text, text
    text = refused("--language", "c", "--compile", "memory=1K")
    assert "compile" in text and "memory" in text, text


def test_values_have_the_units_that_people_write():
    for args in (("--memory", "64M"), ("--memory", "64MB"), ("--memory", "64MiB"), ("--memory", "65536k"), ("--memory=0.0625G",),
                 ("-m64m",), ("-m", "67108864"), ("--memory", "67108864b")):
        assert "64 MiB" in box.python("x = bytearray(b'x') * (99 << 20)", *args).detail, args
    for args in (("--wall", "300ms"), ("-t", "0.3"), ("-t0.3s",), ("--wall=.005m",)):
        assert "300 ms" in box.python("import time; time.sleep(9)", *args).detail, args


def test_later_value_wins():
    assert "200 ms" in box.python("import time; time.sleep(9)", "--wall", "20s", "--wall", "200ms").detail


def test_zero_output_keeps_nothing(engine):
    result = box.python("print('x' * 100)", "--output-limit", "0", engine=engine)
    assert (result.stdout, result.truncated["stdout"], result.exit_code) == ("", 101, 0)


def test_open_files_are_bounded(engine):
    code = ("import os, resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE))\nfds = []\ntry:\n  while True: fds.append(os.open('/dev/null', 0))\n"
            "except OSError as e: print(e.errno, fds[-1])\ntry: resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))\n"
            "except (ValueError, OSError) as e: print('no more')")
    result = box.python(code, "--open-files", "32", engine=engine)
    assert result.stdout == "(32, 32)\n24 31\nno more\n", result


def test_limits_cannot_be_raised_from_inside(engine):
    code = ("import resource as r\nfor n in (r.RLIMIT_CORE, r.RLIMIT_NOFILE, r.RLIMIT_FSIZE, r.RLIMIT_CPU, r.RLIMIT_MEMLOCK, r.RLIMIT_NPROC):\n"
            "  soft, hard = r.getrlimit(n)\n  try: r.setrlimit(n, (hard + 1, hard + 1)); print('raised', n, hard)\n  except (ValueError, OSError): pass")
    assert box.python(code, engine=engine).stdout == ""


def test_half_a_cpu_is_half_a_cpu():
    for share in ("0.5", "50%"):
        result = box.python("import time\nend = time.monotonic() + 1.2\nwhile time.monotonic() < end: pass", "--cpus", share)
        spent = result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"]
        assert 100 < spent < 850, result.usage


def test_one_cpu_is_not_two():
    """Two busy processes under the default share get one CPU together."""
    code = "import os, time\nos.fork()\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    result = box.python(code)
    assert result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"] < 1350, result.usage


# defaults, as in MISSION.md A.2

def group_files(*names):
    """Runs a container and reads files of its group on the host meanwhile."""
    before = set(box.census()["groups"])
    process = subprocess.Popen([box.CLOCHE, "run", "--isolation", "container", "--", "sleep", "3"])
    try:
        deadline = time.monotonic() + 2
        found = {}
        while time.monotonic() < deadline and len(found) < len(names):
            for group in set(box.census()["groups"]) - before:
                try:
                    owner = [int(pid) for pid in pathlib.Path(group, "cgroup.procs").read_text().split()]
                    parents = [pathlib.Path("/proc", str(pid), "status").read_text().split("PPid:")[1].split()[0] for pid in owner]
                except (OSError, IndexError):
                    continue
                if str(process.pid) not in parents:
                    continue
                for name in names:
                    for alternative in name if isinstance(name, tuple) else (name,):
                        path = pathlib.Path(group, alternative)
                        if path.exists():
                            found[name] = path.read_text().strip()
            time.sleep(0.02)
        return [found.get(name) for name in names]
    finally:
        process.terminate()
        process.wait()


def test_default_limits_of_the_group():
    memory, swap, pids, quota = group_files(("memory.max", "memory.limit_in_bytes"),
                                            ("memory.swap.max", "memory.memsw.limit_in_bytes"), "pids.max",
                                            ("cpu.max", "cpu.cfs_quota_us"))
    assert memory == str(512 << 20)
    assert swap in ("0", str(512 << 20), None)
    assert pids == "65"  # the 64 of the program, and init
    assert quota.split()[0] == "100000"


def test_default_memory_is_512_megabytes(engine):
    assert box.python("x = bytearray(b'x') * (440 << 20); print('fits')", engine=engine).stdout == "fits\n"
    assert box.python("x = bytearray(b'x') * (560 << 20)\nimport time; time.sleep(2)", engine=engine).cause == "memory"


def test_default_processes_are_64(engine):
    code = "import subprocess\nps = [subprocess.Popen(['sleep', '0.4']) for i in range(63)]\nfor p in ps: p.wait()\nprint('fits')"
    assert box.python(code, engine=engine).stdout == "fits\n"
    assert box.python(code.replace("63", "64").replace("0.4", "2"), engine=engine).cause == "pids"


def test_default_disk_is_100_megabytes(engine):
    code = "import os\nf = open(os.environ['TMPDIR'] + '/f', 'wb')\nfor i in range({}): f.write(bytes(1 << 20))\nf.close()\nprint('fits')\nimport time; time.sleep({})"
    assert box.python(code.format(98, 0.3), engine=engine).stdout == "fits\n"
    assert box.python(code.format(102, 3), engine=engine).cause == "disk"
    if engine == "container":
        probe = "import os; s = os.statvfs('/tmp'); print(s.f_blocks * s.f_frsize, s.f_files)"
        assert box.python(probe).stdout == f"{100 << 20} 20000\n"


def test_default_open_files_are_1024(engine):
    assert box.python("import resource as r; print(r.getrlimit(r.RLIMIT_NOFILE))", engine=engine).stdout == "(1024, 1024)\n"


def test_default_output_is_16_megabytes(engine):
    result = box.python("import sys\nfor i in range(17): sys.stdout.write('x' * (1 << 20))", engine=engine)
    assert len(result.stdout) == 16 << 20 and result.truncated["stdout"] == 1 << 20


def test_defaults_are_in_the_help():
    text = subprocess.run([box.CLOCHE, "help", "run"], capture_output=True, text=True).stdout
    lines = {line.split("--")[1].split()[0]: line for line in text.splitlines() if line.lstrip().startswith(("-", "--"))}
    for name, value in {"memory": "(512 MiB)", "cpu": "(30 s)", "wall": "(30 s)", "disk": "(100 MiB)", "pids": "(64)",
                        "cpus": "(1 CPU", "open-files": "(1024)", "output-limit": "(16 MiB)"}.items():
        assert value in lines[name], lines[name]


# the operator's file

def test_ceiling_from_the_configuration(config):
    path = config("# a comment", "", "memory.max = 300M", "  wall.max=  5s  ", "memory = 128M", "wall = 2s")
    text = refused("--memory", "301M", config=path)
    assert "memory" in text and "300 MiB" in text and str(path) in text
    text = refused("--wall", "5.1s", config=path)
    assert "wall" in text and "5 s" in text
    assert box.run("--config", path, "--memory", "300M", "-e", "print(1)").stdout == "1\n"


def test_ceiling_holds_for_compile_steps_too(config):
    path = config("memory.max = 1G", "wall.max = 60s")
    done = box.raw("run", "--config", path, "-l", "c", "--compile", "memory=2G", "-e", "int main(void) { return 0; }")
    assert done.returncode == box.BAD_SPEC and b"1 GiB" in done.stderr
    assert box.raw("run", "--config", path, "-l", "c", "-e", "int main(void) { return 0; }").returncode == 0


def test_ceiling_below_the_built_in_default_lowers_the_default(config):
    path = config("memory.max = 100M", "pids.max = 10")
    result = box.run("--config", path, "-e", "x = bytearray(b'x') * (150 << 20)\nimport time; time.sleep(1)")
    assert result.cause == "memory" and "100 MiB" in result.detail


def test_ceiling_can_be_raised(config):
    path = config("pids.max = 50000")
    assert box.run("--config", path, "--pids", "40000", "-e", "print(1)").stdout == "1\n"


def test_default_from_the_configuration(config):
    path = config("wall = 400ms", "memory = 64M", "output_limit = 10")
    result = box.run("--config", path, "-e", "print('x' * 100); import time; time.sleep(9)")
    assert result.cause == "wall_time" and "400 ms" in result.detail and len(result.stdout) == 10
    assert "64 MiB" in box.run("--config", path, "--wall", "5s", "-e", "x = bytearray(b'x') * (99 << 20)").detail
    assert box.run("--config", path, "--wall", "3s", "-e", "import time; time.sleep(0.8); print(1)").stdout == "1\n"


def test_unknown_key_is_named_with_file_and_line(config):
    path = config("memory = 1G", "", "memroy.max = 2G")
    text = refused(config=path)
    assert f"{path}:3" in text and "memroy.max" in text


@pytest.mark.parametrize("line", ["memory = lots", "memory.max = -1", "wall.max = ", "isolation = chroot", "memory", "= 5",
                                  "memory.min = 5", "isolation.min = docker", "memory.maximum = 1G", "cpus = 5x", "pids.max = 1.5"])
def test_wrong_line_is_named_with_file_and_line(config, line):
    path = config("# one", "disk = 50M", line)
    text = refused(config=path)
    assert f"{path}:3" in text, text
    key = line.split("=")[0].strip()
    assert key.split(".")[0] in text


def test_default_above_its_own_ceiling_is_refused(config):
    text = refused(config=config("memory = 2G", "memory.max = 1G"))
    assert "memory" in text and "ceiling" in text


def test_configuration_that_cannot_be_read_is_refused(tmp_path):
    text = refused(config=tmp_path / "nothing.conf")
    assert "nothing.conf" in text and "No such file" in text
    assert str(tmp_path) in refused(config=tmp_path)


def test_operator_demands_an_engine(config):
    path = config("isolation.min = container")
    text = refused("--isolation", "process", config=path)
    assert "process" in text and "container" in text and str(path) in text
    assert box.run("--config", path, "-e", "1").isolation == "container"


def test_operator_chooses_the_default_engine(config):
    path = config("isolation = process")
    assert box.run("--config", path, "-e", "1").isolation == "process"
    assert box.run("--config", path, "--isolation", "container", "-e", "1").isolation == "container"


def test_default_engine_below_the_minimum_is_refused(config):
    text = refused(config=config("isolation = process", "isolation.min = container"))
    assert "isolation" in text and "container" in text


def test_unknown_engine_lists_those_there_are():
    text = refused("--isolation", "docker")
    assert "docker" in text and "container" in text and "process" in text


def test_file_in_etc_is_read_by_itself(tmp_path):
    """In a mount namespace of its own, so that the host's /etc stays as it is."""
    shutil.copytree("/etc", tmp_path / "etc", symlinks=True, ignore_dangling_symlinks=True)
    (tmp_path / "etc" / "cloche.conf").write_text("wall.max = 7s\nwall = 3s\n")
    script = f"mount --bind {tmp_path}/etc /etc && exec {box.CLOCHE} run --wall 8s -e 'print(1)'"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == box.BAD_SPEC and "7 s" in done.stderr and "/etc/cloche.conf" in done.stderr


def test_accept_takes_only_what_can_be_done_without():
    for name in ("seccomp", "namespaces", "everything", ""):
        text = refused("--accept", name)
        assert "accept" in text and "memory" in text
    assert box.run("--accept", "memory", "--accept", "cpus", "-e", "print(1)").stdout == "1\n"


def test_accepted_limit_is_still_enforced_where_it_can_be(engine):
    result = box.python("x = bytearray(b'x') * (99 << 20)\nimport time; time.sleep(1)", "--accept", "memory", "--memory", "64M",
                        engine=engine)
    assert result.cause == "memory"


def test_refusal_leaves_nothing_behind():
    before = set(box.census()["records"])
    for args in (("--memory", "x"), ("--cwd", "x"), ("--language", "cobol"), ("--input", "/nothing"), ("--image", "nothing")):
        assert box.raw("run", *args, "-e", "1").returncode == box.BAD_SPEC
    left, deadline = set(box.census()["records"]) - before, time.monotonic() + 3
    while left and time.monotonic() < deadline:  # boxes of others come and go
        time.sleep(0.1)
        left &= set(box.census()["records"])
    assert not left


def stopped(engine, code, *options, by):
    """Stops the launcher while its program runs, and lets it go on four seconds later; its result."""
    launcher = subprocess.Popen([box.CLOCHE, "run", "--json", "--isolation", engine, *options, "-e", code], stdout=subprocess.PIPE, text=True)
    time.sleep(1.5 if engine == "gvisor" else 0.7)
    launcher.send_signal(by)
    time.sleep(4)
    state = pathlib.Path(f"/proc/{launcher.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    launcher.send_signal(signal.SIGCONT)
    told = json.loads(launcher.communicate(timeout=30)[0])
    assert state == "T", (state, told)
    return told


def test_wall_limit_holds_also_when_the_launcher_is_stopped(engine):
    """Two seconds later init ends the box by itself."""
    code = "import time\nuntil = time.monotonic() + 20\nwhile time.monotonic() < until: pass\nprint('end')"
    told = stopped(engine, code, "--wall", "1s", by=signal.SIGSTOP)
    assert told["cause"] == "wall_time" and told["timed_out"] and told["stdout"] == "", told
    assert told["usage"]["cpu_user_ms"] < 3600, told


def test_processes_that_are_left_at_the_end_count_also_if_nobody_looked(engine):
    code = "import subprocess, time\ntime.sleep(1.8)\nps = [subprocess.Popen(['sleep', '30']) for i in range(30)]"
    told = stopped(engine, code, "--pids", "12", "--wall", "20s", by=signal.SIGSTOP)
    assert told["cause"] == "pids", told


def test_run_stands_still_with_a_launcher_that_is_stopped_at_the_keyboard(engine):
    code = ("import os, time\nchild = os.fork()\nlongest, last = 0, time.monotonic()\nfor i in range(250):\n    time.sleep(0.01)\n"
            "    longest = max(longest, time.monotonic() - last)\n    last = time.monotonic()\nif not child: os._exit(longest > 2)\n"
            "print(longest > 2 and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1)")
    told = stopped(engine, code, "--wall", "6s", by=signal.SIGTSTP)
    assert told["cause"] == "exit" and told["stdout"] == "True\n", told
    assert told["usage"]["wall_ms"] < 4000, told
