"""The process engine started by an ordinary user: the box has the user's own uid.

This kernel's Landlock (ABI 2) has no scope for signals and does not know truncation, and no Landlock knows chmod or
times. What keeps the box off the user's other processes and files here is the filter and the supervisor.
"""
import os
import pathlib
import stat
import subprocess
import tempfile

import box
from checks import test

PYTHON = "import os, sys, signal, subprocess, errno\n"


def inside(code, *arguments, **options):
    """Runs code whose last word must be 'done'; returns the lines before it."""
    result = box.run(*options.pop("options", ()), "-e", PYTHON + code + "\nprint('done')", "--", *map(str, arguments), engine="process", **options)
    lines = result.stdout.split("\n")
    assert lines[-2:] == ["done", ""] and result.exit_code == 0, result
    return lines[:-2]


TRY = """
def attempt(name, call):
    try:
        call()
        print(name)
    except OSError as error:
        assert error.errno in (errno.EPERM, errno.EACCES, errno.ESRCH, errno.ENOSYS, errno.ENOTSUP, errno.EROFS, errno.ENOENT), (name, error)
"""


@test("user", engines=None)
def outside_process_of_the_same_user_is_not_signalled():
    neighbour = subprocess.Popen(["sleep", "1000"])
    try:
        code = TRY + """
import ctypes
libc, pid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
def call(*arguments):
    if libc.syscall(*arguments) < 0: raise OSError(ctypes.get_errno(), 'call')
attempt('kill 0', lambda: os.kill(pid, 0))
attempt('kill', lambda: os.kill(pid, signal.SIGKILL))
attempt('parent', lambda: os.kill(os.getppid(), signal.SIGKILL))
attempt('group', lambda: os.killpg(os.getpgid(pid), signal.SIGKILL))
attempt('tkill', lambda: call(200, pid, signal.SIGKILL))
attempt('tgkill', lambda: call(234, pid, pid, signal.SIGKILL))
attempt('queue', lambda: call(129, pid, signal.SIGKILL, ctypes.create_string_buffer(128)))
attempt('pidfd', lambda: os.pidfd_open(pid))
attempt('all', lambda: os.kill(-1, signal.SIGKILL))
attempt('limits', lambda: call(302, pid, 7, None, ctypes.create_string_buffer(16)))
attempt('affinity', lambda: os.sched_setaffinity(pid, {0}))
attempt('scheduler', lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)))
attempt('priority', lambda: os.setpriority(os.PRIO_PROCESS, pid, 10))
attempt('session priority', lambda: os.setpriority(os.PRIO_USER, 0, 10))
"""
        assert inside(code, neighbour.pid) == []
        assert neighbour.poll() is None
        assert os.getpriority(os.PRIO_PROCESS, neighbour.pid) == 0 and os.getpriority(os.PRIO_PROCESS, 0) == 0
    finally:
        neighbour.kill()
        neighbour.wait()


@test("user", engines=None)
def own_children_are_signalled():
    code = """
child = subprocess.Popen(['sleep', '100'])
os.kill(child.pid, 0)
child.terminate()
print(child.wait())
group = subprocess.Popen(['bash', '-c', 'sleep 100 & wait'], start_new_session=True)
os.killpg(group.pid, signal.SIGKILL)
print(group.wait())
stopped = subprocess.Popen(['sleep', '100'])
fd = os.pidfd_open(stopped.pid)
signal.pidfd_send_signal(fd, signal.SIGKILL)
print(stopped.wait())
signal.signal(signal.SIGUSR1, lambda *_: print('own'))
os.kill(os.getpid(), signal.SIGUSR1)
signal.raise_signal(signal.SIGUSR1)
subprocess.run(['bash', '-c', 'sleep 100 & kill %1; wait; exit 0'], check=True)
"""
    assert inside(code) == ["-15", "-9", "-9", "own", "own"]


@test("user", engines=None)
def metadata_of_files_outside_is_not_changed():
    """The files are the user's own, so only the filter and the supervisor stand before them."""
    home = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp", prefix="cloche-own-"))
    target = home / "file"
    target.write_text("kept\n")
    os.chmod(target, 0o640)
    before = target.stat()
    code = TRY + """
target, folder = sys.argv[1], os.path.dirname(sys.argv[1])
link = os.environ['TMPDIR'] + '/link'
os.symlink(target, link)
os.symlink(folder, link + 's')
up = '../' * 12 + target
for name, path in (('path', target), ('link', link), ('folder link', link + 's/file'), ('up', up)):
    attempt('chmod ' + name, lambda: os.chmod(path, 0o777))
    attempt('utime ' + name, lambda: os.utime(path, (1, 1)))
    attempt('truncate ' + name, lambda: os.truncate(path, 0))
    attempt('chown ' + name, lambda: os.chown(path, -1, os.getgid()))
    attempt('attribute ' + name, lambda: os.setxattr(path, 'user.x', b'x'))
    attempt('unlink ' + name, lambda: os.unlink(path)) if 'link' != name else None
    attempt('rename ' + name, lambda: os.rename(path, path + 'x')) if 'link' != name else None
attempt('chmod folder', lambda: os.chmod(folder, 0o777))
fd = os.open(os.environ['TMPDIR'], os.O_RDONLY)
attempt('chmod at', lambda: os.chmod(up, 0o777, dir_fd=fd))
attempt('utime at', lambda: os.utime('links/file', (1, 1), dir_fd=fd))
"""
    assert inside(code, target) == []
    after = target.stat()
    assert target.read_text() == "kept\n"
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700 and os.listxattr(target) == []


@test("user", engines=None)
def file_outside_is_not_truncated_by_opening_it():
    """O_TRUNC with an access mode that asks for nothing (0, or 3) passes by a Landlock without truncation (ABI 1, 2)."""
    home = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp", prefix="cloche-own-"))
    for name in ("hidden", "shown"):
        (home / name).write_text("kept\n")
    code = TRY + """
for path in sys.argv[1:]:
    for flags in (0, 1, 2, 3):
        attempt(f'{path} {flags}', lambda: os.close(os.open(path, flags | os.O_TRUNC)))
        attempt(f'{path} {flags} create', lambda: os.close(os.open(path, flags | os.O_TRUNC | os.O_CREAT)))
"""
    lines = inside(code, home / "hidden", home / "shown", options=("--read", home / "shown"))
    assert [(home / name).read_text() for name in ("hidden", "shown")] == ["kept\n", "kept\n"], lines
    assert lines == []


@test("user", engines=None)
def metadata_of_files_inside_is_changed():
    code = """
os.chdir(os.environ['TMPDIR'])
open('file', 'w').write('12345')
os.chmod('file', 0o711); print(oct(os.stat('file').st_mode & 0o7777))
os.chmod(os.path.abspath('file'), 0o600); print(oct(os.stat('file').st_mode & 0o7777))
os.utime('file', (5, 7)); print(os.stat('file').st_mtime)
with open('file', 'r+') as file:
    os.fchmod(file.fileno(), 0o640); print(oct(os.stat('file').st_mode & 0o7777))
    os.utime(file.fileno(), (9, 11)); print(os.stat('file').st_mtime)
    file.truncate(3)
print(open('file').read())
os.truncate('file', 2); print(open('file').read())
fd = os.open('.', os.O_RDONLY)
os.chmod('file', 0o604, dir_fd=fd); print(oct(os.stat('file').st_mode & 0o7777))
open('file', 'w').close(); print(os.path.getsize('file'))
os.mkdir('folder', 0o700); os.chmod('folder', 0o755); print(oct(os.stat('folder').st_mode & 0o7777))
"""
    wanted = ["0o711", "0o600", "7.0", "0o640", "11.0", "123", "12", "0o604", "0", "0o755"]
    assert inside(code) == wanted
    assert inside("os.chdir(os.environ['HOME'])" + code.replace("os.chdir(os.environ['TMPDIR'])", "")) == wanted


@test("user", engines=None)
def common_tools_work_with_files():
    """tar, cp -p, install, touch -d: all of them set modes and times."""
    script = """set -e; cd "$TMPDIR"; mkdir a; echo x >a/f; touch -d '2001-02-03 04:05:06' a/f; chmod 751 a/f
cp -pr a b; install -m 640 a/f c; mv b d; rm -r a; stat -c '%a %Y' d/f; stat -c %a c; ln c e; ln -s c g; cat g; sed -i s/x/y/ c; cat c"""
    result = box.run("--env", "TZ=UTC", "--", "bash", "-c", script, engine="process")
    assert (result.stdout, result.stderr) == ("751 981173106\n640\nx\ny\n", ""), result


@test("user", engines=None)
def sockets_of_the_user_are_out_of_reach():
    """A desktop's bus, an ssh agent: an AF_UNIX socket with a path is not Landlock's to keep."""
    code = "import socket\ntry: socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('connected')\nexcept OSError: pass"
    bus = os.environ.get("XDG_RUNTIME_DIR", "/run/user/1000") + "/bus"
    assert pathlib.Path(bus).exists() and inside(code, bus) == []
