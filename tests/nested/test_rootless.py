"""cloche started by an ordinary user: `container` says which limits it cannot enforce, and works when they are given
up by name; `process` shares the user's uid, and keeps its hands off the user's other files and processes."""
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import box
from boxes import layers_of, must_be_refused, must_be_sealed, must_confine, parse

USER = 54321
HOME = "/tmp/home-of-the-user"
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
ACCEPTED = {"container": ["--accept", "memory", "--accept", "cpus"], "process": []}
ENVIRONMENT = [f"HOME={HOME}", "PATH=/usr/bin:/bin"]


class User:
    """A user of the world with a home, files of its own, and cloche to call."""

    def __init__(self, world):
        self.world = world
        world.shell(f"""
            rm -rf {HOME}; mkdir -p {HOME}/project
            echo private-canary > {HOME}/private; echo public-canary > {HOME}/public; echo source > {HOME}/project/source
            chmod 0600 {HOME}/private; chmod 0644 {HOME}/public; chmod 0755 {HOME}
            chown -R {USER}:{USER} {HOME}""")

    def run(self, *command, **options):
        return self.world.run("env", "-i", f"--chdir={HOME}", *ENVIRONMENT, *AS_USER, *command, **options)

    def start(self, *command):
        return self.world.start("env", "-i", f"--chdir={HOME}", *ENVIRONMENT, *AS_USER, *command)

    def cloche(self, engine, *arguments, accept=True, **options):
        accepted = ACCEPTED[engine] if accept else []
        return self.run("/tmp/cloche", "run", "--json", "--isolation", engine, "--wall", "10s", *accepted, *arguments,
                        **options)

    def shell_in_box(self, engine, code, *arguments, options=()):
        return parse(self.cloche(engine, *options, "--", "/bin/sh", "-c", code, "sh", *map(str, arguments)))


@pytest.fixture
def user(nested_world):
    made = User(nested_world)
    for engine in box.ENGINES:  # the state directories of a user stay: they belong to the baseline
        made.cloche(engine, "--", "/bin/true")
    nested_world.baseline = nested_world.census()
    return made


def has_own_groups(nested_world):
    """A delegated v2 group would make all limits enforceable, and nothing would have to be accepted."""
    return any(version == 2 for _, _, version, _ in nested_world.groups)


def test_container_refuses_for_each_limit_and_names_it(user, nested_world):
    if has_own_groups(nested_world):
        pytest.skip("groups v2 here: see tests/vm")
    message = must_be_refused(user.cloche("container", "--", "/bin/true", accept=False))
    assert "--accept memory" in message and "memory limit" in message
    message = must_be_refused(user.cloche("container", "--accept", "memory", "--", "/bin/true", accept=False))
    assert "--accept cpus" in message and "cpus limit" in message
    done = user.cloche("container", "--accept", "memory", "--accept", "cpus", "--", "/bin/true", accept=False)
    assert done.returncode == 0, done


def test_box_confines_and_its_layers_tell(user, engine):
    done = user.cloche(engine, "--read", "/tmp/facts", "--", "/tmp/facts", f"{HOME}/public")
    result = parse(done)
    assert done.returncode == 0, result
    must_confine(result, engine, ("memory", "cpus"))
    must_be_sealed(result)
    layers = layers_of(result)
    assert layers["box_uid"]["active"] is False and "caller's uid" in layers["box_uid"]["detail"]
    if engine == "container":
        assert layers["cgroup"]["active"] is False and layers["cgroup"]["detail"]
        assert "rootless" in layers["namespaces"]["detail"]


def test_what_is_missing_is_said_without_json(user, nested_world):
    if has_own_groups(nested_world):
        pytest.skip("groups v2 here")
    done = user.run("/tmp/cloche", "run", *ACCEPTED["container"], "--", "/bin/echo", "out")
    assert done.stdout == b"out\n"
    assert b"cgroup" in done.stderr


def test_files_of_the_user_cannot_be_read(user, engine):
    result = user.shell_in_box(engine, f"cat {HOME}/private; cat {HOME}/public; ls {HOME}; cat {HOME}/project/source")
    assert result["stdout"] == "", result


def test_granted_files_of_the_user_can(user, engine):
    """Even those that only the user may read: the box is the user's own."""
    result = user.shell_in_box(engine, f"cat {HOME}/private", options=["--read", f"{HOME}/private"])
    assert result["stdout"] == "private-canary\n", result
    result = user.shell_in_box(engine, 'cat "$CLOCHE_INPUT/private"', options=["--input", f"{HOME}/private"])
    assert result["stdout"] == "private-canary\n", result


def test_granted_files_cannot_be_changed(user, engine):
    attack = ('for f in "$1" "$CLOCHE_INPUT/private"; do echo x > "$f"; chmod 0666 "$f"; touch -d @0 "$f"; '
              'mv "$f" "$f.moved"; rm -f "$f"; truncate -s 0 "$f"; done')
    before = (user.world.outside(HOME) / "private").stat()
    for granted in ("--read", "--input"):
        user.shell_in_box(engine, attack, f"{HOME}/private", options=[granted, f"{HOME}/private"])
    after = (user.world.outside(HOME) / "private").stat()
    assert (before.st_mode, before.st_size, before.st_mtime_ns, before.st_ino) == \
        (after.st_mode, after.st_size, after.st_mtime_ns, after.st_ino)


def test_written_files_belong_to_the_user(user, engine):
    result = user.shell_in_box(engine, f"echo built > {HOME}/project/result", options=["--write", f"{HOME}/project"])
    assert result["exit_code"] == 0, result
    made = user.world.outside(HOME) / "project" / "result"
    assert made.read_text() == "built\n"
    assert (made.stat().st_uid, made.stat().st_gid) == (USER, USER)


@pytest.mark.parametrize("attack", [
    "chmod 0777 $1", "chmod 0000 $1", "chmod u+s $1", "touch -d @0 $1", "touch $1", "echo x > $1", "rm -f $1",
    "mv $1 $1.moved", "ln $1 stolen && cat stolen", "ln -s $1 link && chmod 0777 link && cat link",
    "cd /proc/self && chmod 0777 ../../$1", "chmod -R 0777 ${1%/*}", "setfacl -m u:0:rwx $1", "setfattr -n user.x -v y $1",
    "truncate -s 0 $1", "python3 -c 'import os, sys; os.chown(sys.argv[1], -1, -1); os.utime(sys.argv[1], (0, 0))' $1",
    "python3 -c 'import os, sys; os.chmod(os.open(sys.argv[1], os.O_PATH), 0o777)' $1",
    "python3 -c 'import os, sys; d = os.open(os.path.dirname(sys.argv[1]), os.O_PATH); os.chmod(\"public\", 0o777, dir_fd=d)' $1",
], ids=lambda attack: re.sub(r"\W+", "-", attack)[:40])
def test_files_of_the_user_cannot_be_changed(user, engine, attack):
    """The uid is the user's own, so only the layers stand between: mode, times, content, names stay as they are."""
    target = user.world.outside(HOME) / "public"
    before = target.stat()
    result = user.shell_in_box(engine, attack, f"{HOME}/public")
    after = target.stat()
    assert (before.st_mode, before.st_size, before.st_mtime_ns, before.st_uid, before.st_nlink) == \
        (after.st_mode, after.st_size, after.st_mtime_ns, after.st_uid, after.st_nlink), result
    assert "public-canary" not in result["stdout"], result


def test_own_files_can_be_changed(user, engine):
    """The same calls on what the box made itself work as anywhere."""
    code = """
        set -e
        echo text > file; chmod 0640 file; stat -c %a file; touch -d @86400 file; stat -c %Y file
        mkdir -p a/b; chmod 0700 a/b; stat -c %a a/b; ln file hard; ln -s file soft; chmod 0600 soft; stat -c %a file
        cp -a file copy; stat -c '%a %Y' copy; cd a; chmod 0755 b; chmod 0711 ../a; stat -c %a b ../a
        mktemp -p "$TMPDIR" > /dev/null; chmod 0755 "$HOME"; stat -c %a "$HOME" """
    result = user.shell_in_box(engine, code)
    assert result["exit_code"] == 0, result
    assert result["stdout"].split() == ["640", "86400", "700", "600", "600", "86400", "755", "711", "755"], result


@pytest.fixture
def neighbour(user):
    """A process of the same user outside the box, with a secret in its environment."""
    process = user.start("env", "SECRET=secret-of-the-neighbour", "sleep", "100")
    deadline = time.monotonic() + 5
    pid = None
    while pid is None and time.monotonic() < deadline:
        pid = next((pid for pid in user.world.pids() if " sleep " in (user.world.describe(pid) or "")), None)
        time.sleep(0.01)
    assert pid
    yield pid
    user.world.kill_all()
    process.communicate()


SIGNAL_ATTACKS = {
    "kill": "kill -9 $1; kill -15 $1; kill -19 $1; kill -0 $1 && echo reached",
    "all": "kill -9 -1",
    "group": "kill -9 -- -$1",
    "thread": "python3 -c 'import ctypes, sys; c = ctypes.CDLL(None); p = int(sys.argv[1]); "
              "print([c.syscall(n, *a) for n, a in ((200, (p, 9)), (234, (p, p, 9)), (129, (p, 9, b\"x\" * 128)))])' $1",
    "pidfd": "python3 -c 'import os, signal, sys; f = os.pidfd_open(int(sys.argv[1])); signal.pidfd_send_signal(f, 9)' $1",
    "priority": "renice 19 -p $1; chrt -b -p 0 $1; taskset -p 1 $1; prlimit --nofile=1 --pid $1; ionice -c 3 -p $1",
    "flood": "for i in $(seq 1 300); do kill -9 $1 2>/dev/null; done",
    "owner": "python3 -c 'import fcntl, os, sys, struct; r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, int(sys.argv[1])); "
             "fcntl.fcntl(r, 10, 9); fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC); os.write(w, b\"x\")' $1",
    "memory": "cat /proc/$1/environ /proc/$1/mem /proc/$1/maps /proc/$1/cmdline; ls -l /proc/$1/fd /proc/$1/cwd",
    "trace": "python3 -c 'import ctypes, sys; print(ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), 0, 0))' $1",
}


@pytest.mark.parametrize("attack", SIGNAL_ATTACKS)
def test_other_processes_of_the_user_are_out_of_reach(user, engine, neighbour, attack):
    limits = pathlib.Path(user.world.root / "proc" / str(neighbour) / "limits").read_text()
    state = scheduling(user.world, neighbour)
    result = user.shell_in_box(engine, SIGNAL_ATTACKS[attack], neighbour)
    assert "secret-of-the-neighbour" not in json.dumps(result)
    assert "reached" not in result["stdout"]
    assert " sleep (S" in user.world.describe(neighbour), f"the neighbour was reached: {result}"
    assert pathlib.Path(user.world.root / "proc" / str(neighbour) / "limits").read_text() == limits
    assert scheduling(user.world, neighbour) == state, result


def scheduling(world, pid):
    fields = (world.root / "proc" / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    status = (world.root / "proc" / str(pid) / "status").read_text()
    return fields[15], fields[16], fields[38], [line for line in status.splitlines() if line.startswith("Cpus_allowed_list")]


def test_own_processes_can_be_signalled(user, engine):
    code = """
        sleep 50 & child=$!
        kill -0 $child && kill -TERM $child; wait $child; echo $?
        (trap 'echo caught; exit 3' USR1; sleep 0.2 & wait; sleep 1) & child=$!
        sleep 0.1; kill -USR1 $child; wait $child; echo $?
        kill -0 $$ && echo self
        python3 -c 'import threading; t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()'
        timeout 0.1 sleep 9; echo $?"""
    result = user.shell_in_box(engine, code)
    assert result["stdout"].split() == ["143", "caught", "3", "self", "thread", "124"], result


def test_supervisor_is_out_of_reach(user, engine):
    """The launcher has the same uid: a guest that ends it would be free of its limits."""
    result = user.shell_in_box(
        engine, "kill -9 $PPID; i=1; while [ $i -lt 12 ]; do p=$((PPID - i)); [ $p -gt 1 ] && kill -9 $p; i=$((i + 1)); "
                "done 2>/dev/null; echo alive")
    assert result["stdout"] == "alive\n", result
    assert result["cause"] == "exit"


@pytest.mark.parametrize("limit,code,cause", [
    (("--memory", "64M"), "x = b'x' * (400 << 20)\nimport time; time.sleep(3); print('had it')", "memory"),
    # Without a group only a look, every 10 ms, tells that the program had all it may have: so it stays a moment.
    (("--pids", "10"), "import subprocess, time\ntry: p = [subprocess.Popen(['sleep', '5']) for _ in range(60)]\n"
                       "except OSError: time.sleep(0.1); raise\ntime.sleep(3); print('had it')", "pids"),
    (("--wall", "500ms"), "import time\ntime.sleep(9)\nprint('had it')", "wall_time"),
    (("--cpu", "500ms"), "while True: pass", "cpu_time"),
    (("--disk", "2M"), "f = open('big', 'wb')\nfor _ in range(64): f.write(bytes(1 << 20)); f.flush()\n"
                       "import time; time.sleep(1); print('had it')", "disk"),
], ids=["memory", "pids", "wall", "cpu", "disk"])
def test_limits_hold_for_an_ordinary_user(user, engine, limit, code, cause):
    result = parse(user.cloche(engine, *limit, "-e", code))
    assert "had it" not in result["stdout"], result
    assert result["cause"] == cause, result
    assert user.world.leftovers() == {}


def test_process_that_hides_its_pages_is_counted_in_full(user, engine):
    code = ("import ctypes, os, time\nfor k in range(6):\n    if os.fork() == 0:\n        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"
            "        time.sleep(0.1)\n        b = bytearray(b'x') * (150 << 20)\n        time.sleep(4)\n        os._exit(0)\n"
            "time.sleep(4)\nprint('had it')")
    result = parse(user.cloche(engine, "--memory", "200M", "-e", code))
    assert (result["cause"], result["stdout"]) == ("memory", ""), result


def test_root_of_a_user_namespace_has_only_its_own_ids(user):
    done = user.run("unshare", "--user", "--map-root-user", "/tmp/cloche", "run", "--json", *ACCEPTED["container"],
                    "-e", "print('ran')")
    assert parse(done)["stdout"] == "ran\n", done


def test_python_and_collected_files(user, engine):
    done = user.cloche(engine, "--output", f"{HOME}/out", "-e", "open('a.txt', 'w').write('42'); print('done')")
    result = parse(done)
    assert (result["stdout"], [entry["path"] for entry in result["files"]]) == ("done\n", ["a.txt"]), result
    made = user.world.outside(HOME) / "out" / "a.txt"
    assert made.read_text() == "42"
    assert made.stat().st_uid == USER


def test_nothing_is_left(user, engine):
    user.cloche(engine, "--", "/bin/true")
    user.cloche(engine, "--wall", "200ms", "--", "/bin/sleep", "9")
    user.cloche(engine, "--", "/nonexistent")
    user.shell_in_box(engine, "(setsid sleep 97 &); echo x > file; mkdir -p deep/er; chmod 0 deep")
    assert user.world.leftovers() == {}


def test_killed_launcher_leaves_no_process_and_a_reap_does_the_rest(user, engine):
    for delay in (0.0, 0.005, 0.01, 0.02, 0.05, 0.3):
        process = user.start("/tmp/cloche", "run", "--isolation", engine, *ACCEPTED[engine], "--", "/bin/sh", "-c",
                             "setsid sleep 96 & sleep 96")
        launcher = user.world.child_of(process)
        time.sleep(delay)
        os.kill(launcher, signal.SIGKILL)
        process.communicate()
        left = user.world.leftovers(2.0)
        assert "processes" not in left, f"killed after {delay} s: {left}"
        reap = user.run("/tmp/cloche", "reap")
        assert reap.returncode == 0, reap
        assert user.world.leftovers() == {}, f"killed after {delay} s"


def test_killed_init_ends_the_run(user, engine):
    """In the process engine what init was to end falls to the launcher."""
    process = user.start("/tmp/cloche", "run", "--json", "--isolation", engine, "--wall", "5s", *ACCEPTED[engine], "--",
                         "/bin/sh", "-c", "setsid sleep 95 & sleep 95")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        described = [(pid, user.world.describe(pid) or "") for pid in user.world.pids()]
        init = next((pid for pid, text in described if "init" in text), None)
        if init and sum(" sleep " in text for _, text in described) == 2:
            break
        time.sleep(0.01)
    user.world.kill(init)
    stdout, _ = process.communicate(timeout=8)
    assert json.loads(stdout)["cause"] == "host_failure"
    assert user.world.leftovers() == {}


@pytest.mark.parametrize("trap", ["mkdir -m 0777 {name}", "ln -s /tmp/elsewhere {name}"], ids=["directory", "link"])
@pytest.mark.parametrize("suffix", ["", "-box"])
def test_what_a_stranger_planted_in_tmp_is_evaded(user, engine, suffix, trap):
    """/tmp/cloche-UID made by somebody else must neither become ours nor keep us from working: the home has to do."""
    name = f"/tmp/cloche-{USER}{suffix}"
    user.world.shell(f"rm -rf {name} /tmp/elsewhere; mkdir -m 0777 /tmp/elsewhere; {trap.format(name=name)}")
    done = user.cloche(engine, "--", "/bin/true")
    made = os.listdir(user.world.outside("/tmp/elsewhere"))
    if trap.startswith("mkdir"):
        made += os.listdir(user.world.outside(name))
    user.world.shell(f"rm -rf {name} /tmp/elsewhere")
    assert (done.returncode, made) == (0, []), done


def test_user_namespaces_are_forbidden(user):
    """Refused with the reasons and ways out. (The kernel forbids them to whoever is in a chroot.)"""
    command = " ".join([*AS_USER, "/tmp/cloche", "run", "--json", *ACCEPTED["container"], "--", "/bin/true"])
    done = user.world.run("unshare", "--mount", "sh", "-c", "mkdir -p /tmp/jail && mount --rbind / /tmp/jail && "
                          f"exec chroot /tmp/jail {command}")
    user.world.shell("rmdir /tmp/jail")
    message = must_be_refused(done)
    assert "max_user_namespaces" in message and "--isolation process" in message
    assert user.world.leftovers() == {}


def test_root_of_a_chroot_is_told_so(user):
    """Where that root is no mount, not even root can make the box's mounts its own."""
    done = user.world.run("unshare", "--mount", "sh", "-c",
                          "mkdir -p /tmp/jail/root && mount -t tmpfs jail /tmp/jail && mkdir -p /tmp/jail/root/proc /tmp/jail/root/run && "
                          "cp /tmp/cloche /tmp/jail/root && mount -t proc proc /tmp/jail/root/proc && "
                          "mkdir -p /tmp/jail/root/usr/bin && cp /tmp/cloche /tmp/jail/root/usr/bin/true && "
                          "mkdir -p /tmp/jail/root/sys && mount --rbind /sys /tmp/jail/root/sys && "
                          "exec chroot /tmp/jail/root /cloche run --json -- /usr/bin/true")
    user.world.shell("rm -rf /tmp/jail")
    assert "chroot" in must_be_refused(done)
    assert user.world.leftovers() == {}


# The escape probes (tests/escape), by an ordinary user on the host itself.

def escape_module():
    """By its path: other suites have modules of the same name."""
    spec = importlib.util.spec_from_file_location("escape_world", box.ROOT / "tests/escape/world.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def escape():
    if os.geteuid() != 0:
        pytest.skip("needs root, to become an ordinary user")
    if not box.PROBE.exists():
        pytest.skip(f"no {box.PROBE}")
    module = escape_module()
    world = module.World()
    process = subprocess.Popen([*AS_USER, "sleep", "1000"], env={"SECRET": world.secret})
    world.variables["PID"] = process.pid
    # What the user itself may read and write, so that only the box stands between.
    os.chown(world.directory, USER, USER)
    os.chown(world.canary, USER, USER)
    yield module, world, process
    process.kill()
    process.wait()
    world.close()


# It looks for a regular file, and an ordinary user's input is a link: test_granted_files_cannot_be_changed has it.
UNDECIDED = {("process", "input_file_cannot_be_rewritten")}


def test_probes_hold_for_an_ordinary_user(escape, engine):
    """All probes but those that only a uid of the box's own stops: the layers say that there is none."""
    module, world, neighbour = escape
    canary = world.canary.read_text()
    broken = []
    for probe in module.probes():
        if engine not in probe.engines or probe.controls == ["box_uid"]:
            continue
        result = box.run(*ACCEPTED[engine], *world.arguments(probe.name), engine=engine, prefix=AS_USER,
                         env={**world.launcher_env, "HOME": "/tmp"}, pass_fds=(world.canary_fd, world.tcp.fileno()))
        killed = probe.may_be_killed and result.json.get("cause") in ("denied_syscall", "memory", "pids")
        undecided = result.json.get("exit_code") == 2 and (engine, probe.name) in UNDECIDED
        if result.json.get("exit_code") != 0 and not killed and not undecided:
            broken.append(f"{probe.name} ({probe.description}): {str(result)[:300]}")
        if neighbour.poll() is not None:
            broken.append(f"{probe.name} killed a process of the user")
            break
    assert world.canary.read_text() == canary
    assert not broken, f"{len(broken)} probes broke out:\n  " + "\n  ".join(broken[:20])


def test_files_count_also_if_their_holder_does_not_want_to_be_seen(user):
    code = """import ctypes, os, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
for i in range(40):
    name = os.environ['TMPDIR'] + f'/f{i}'
    fd = os.open(name, os.O_CREAT | os.O_RDWR, 0o600)
    os.unlink(name); os.posix_fallocate(fd, 0, 8 << 20); time.sleep(0.02)
time.sleep(2)
print('had')"""
    result = parse(user.cloche("process", "--disk", "64M", "--memory", "200M", "-e", code))
    assert result["cause"] == "disk", result


def test_limit_of_one_box_ends_no_container_of_the_same_keeper(user):
    """Who shares our user and is nobody's we know is taken for what the box left: not so who is in a pid namespace of its own."""
    keeper = user.start("/tmp/cloche-full", "keep", "--quiet")
    try:
        code = "import time; time.sleep(4); print('fine')"
        time.sleep(3)
        first = user.start("/tmp/cloche", "run", "--warm", "--json", "--isolation", "process", "--wall", "3s", "--", "/bin/sh", "-c", "sleep 30")
        time.sleep(1)
        second = parse(user.cloche("container", "--warm", "-e", code))
        first.wait(timeout=20)
        assert (second["cause"], second["stdout"]) == ("exit", "fine\n"), second
    finally:
        keeper.terminate()
        keeper.wait(timeout=20)
