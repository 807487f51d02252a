"""What of an interpreter's surroundings its copy finds again: its directory, open files, timers.

A copy comes with its own streams and channel and no other descriptor, and the host looks. Files of the box are then opened
again in the copy's own tree, by path: same number, same flags, same place in the file. What is no file (a pipe, a socket …), or
has no path, cannot be had twice: it is named before anything is forked."""
import os
import signal
import stat
import sys

from .execute import Refused

CHANNEL_FD = 6
STREAMS = (0, 1, 2)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
NAMES = {"anon_inode:[eventpoll]": "epoll", "anon_inode:[eventfd]": "eventfd", "anon_inode:[timerfd]": "timerfd",
         "anon_inode:[signalfd]": "signalfd", "anon_inode:inotify": "inotify", "anon_inode:[pidfd]": "pidfd"}
_streams = {}  # what the box gave us as input and output: identity, and number
_waiting_timers = {}  # of a copy in which nothing was run yet


def identity(status):
    return status.st_dev, status.st_ino


def remember_streams():
    _streams.clear()
    for number in STREAMS:
        if is_open(number):
            _streams.setdefault(identity(os.fstat(number)), number)


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def is_own_stream(number):
    try:
        return number in STREAMS and _streams.get(identity(os.fstat(number))) == number
    except OSError:
        return False  # it was closed


class File:
    """One descriptor, and how to have it again."""

    def __init__(self, number):
        self.number = number
        self.status = os.fstat(number)
        self.path = os.readlink(f"/proc/self/fd/{number}")
        with open(f"/proc/self/fdinfo/{number}", encoding="ascii") as file:
            about = dict(line.split(":", 1) for line in file.read().splitlines())
        self.position, self.flags = int(about["pos"]), int(about["flags"], 8)
        self.kind = stat.S_IFMT(self.status.st_mode)
        self.twin = None  # the number of another that is the same open file
        self.stream = _streams.get(identity(self.status))
        if self.kind == stat.S_IFREG:
            self.flags &= ~os.O_TMPFILE

    @property
    def has_position(self):
        return self.kind == stat.S_IFREG and not self.flags & os.O_PATH

    def obstacle(self):
        """Why a copy cannot have it; None: it can."""
        if self.stream is not None or (self.kind == stat.S_IFCHR and self.path in DEVICES):
            return None
        if self.path.startswith("/memfd:"):
            return "memory that looks like a file"
        if self.kind not in (stat.S_IFREG, stat.S_IFDIR):
            kinds = {stat.S_IFSOCK: "a socket", stat.S_IFIFO: "a pipe"}
            return kinds.get(self.kind) or NAMES.get(self.path) or self.path
        if not self.leads_here():
            return f"{self.path.removesuffix(' (deleted)')}, which has no name any more"
        if self.path.startswith("/proc/"):
            return f"{self.path}, which is about this process"
        if self.kind == stat.S_IFDIR and self.position:
            return f"{self.path}, which is being listed"
        return f"the database {self.path}" if self.is_database() else None

    def leads_here(self):
        try:
            return identity(os.stat(self.path)) == identity(self.status)
        except OSError:
            return False

    def is_database(self):
        """SQLite knows its files by their inodes, and writes to no other."""
        if "_sqlite3" not in sys.modules or not self.has_position or self.flags & os.O_ACCMODE == os.O_WRONLY:
            return False
        return os.pread(self.number, 16, 0) == b"SQLite format 3\0" or (self.status.st_size == 0 and self.flags & os.O_NOFOLLOW)

    def is_same_open_file(self, other):
        """Do both move when one does?"""
        if identity(self.status) != identity(other.status) or self.position != other.position or not (self.has_position and other.has_position):
            return False
        os.lseek(other.number, self.position + 1, os.SEEK_SET)
        moved = os.lseek(self.number, 0, os.SEEK_CUR) != self.position
        os.lseek(other.number, self.position, os.SEEK_SET)
        return moved

    def open_again(self):
        is_shared = self.stream is not None or self.twin is not None
        source = self.stream if self.stream is not None else self.twin if is_shared else os.open(self.path, self.flags)
        is_inherited = not self.flags & os.O_CLOEXEC
        if source == self.number:
            os.set_inheritable(source, is_inherited)
        else:
            os.dup2(source, self.number, inheritable=is_inherited)
            if not is_shared:
                os.close(source)
        if stat.S_IFMT(os.fstat(self.number).st_mode) != self.kind:
            raise OSError(0, "is something else in the copy", self.path)
        if self.has_position and not is_shared:
            os.lseek(self.number, self.position, os.SEEK_SET)


class Surroundings:
    """Of an interpreter that is about to be forked. `apart` are numbers that a copy does not need, `renewed` those of what it makes
    anew: objects of the old must not reach what is new, so something stands there that can be neither read nor written."""

    def __init__(self, apart, renewed, library=None):
        self.failure = None
        try:
            self.directory = os.getcwd()
        except OSError:  # it was removed
            self.directory = None
        is_plain = library and library.cloche_count_descriptors() == len(STREAMS) + 1 + len(apart) and all(map(is_own_stream, STREAMS))
        self.held, self.files = [], []
        if not is_plain:
            self.look_at_files(apart, renewed)
        self.timers = dict(_waiting_timers)
        if not self.timers and not (library and not library.cloche_has_timers()):
            self.timers = {which: left for which in TIMERS if (left := signal.getitimer(which))[0]}
            refuse_other_timers()

    def look_at_files(self, apart, renewed):
        numbers = sorted(number for number in map(int, os.listdir("/proc/self/fd")) if number != CHANNEL_FD and number not in apart and is_open(number))
        self.held = [number for number in numbers if number in renewed]
        self.files = [File(number) for number in numbers if number not in renewed and not is_own_stream(number)]
        obstacles = [f"{file.number} ({why})" for file in self.files if (why := file.obstacle())]
        if obstacles:
            raise Refused(f"descriptors are open that a copy cannot have: {', '.join(obstacles[:5])}; close them first")
        for i, file in enumerate(self.files):
            file.twin = next((other.number for other in self.files[:i] if file.is_same_open_file(other)), None)

    def take(self):
        """In the copy, before anything else is opened there. Its streams are remembered first, or it would take others for them;
        where there are no others, that has time until the copy has said that it is ready."""
        if self.files:
            remember_streams()
        try:
            if self.directory:
                os.chdir(self.directory)
        except OSError:
            pass  # /data/output has to do
        try:
            for file in self.files:
                if file.number not in STREAMS:
                    file.open_again()
            for file in self.files:  # last: others may be copies of what the box gave us
                if file.number in STREAMS:
                    file.open_again()
            for number in self.held:
                hold(number)
        except OSError as error:
            self.failure = f"what was open cannot be opened again: {error.strerror}: {error.filename}"
        if self.timers or _waiting_timers:
            _waiting_timers.clear()
            _waiting_timers.update(self.timers)


def hold(number):
    nothing = os.open("/", os.O_PATH | os.O_CLOEXEC)
    if nothing != number:
        os.dup2(nothing, number, inheritable=False)
        os.close(nothing)


def refuse_other_timers():
    try:
        file = os.open("/proc/self/timers", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # not in this kernel
    try:
        if os.read(file, 1):
            raise Refused("timers are running that were made with timer_create; delete them first")
    finally:
        os.close(file)


def start_timers():
    """Before the first run of a copy: until then it sleeps, and so do they."""
    while _waiting_timers:
        which, (left, interval) = _waiting_timers.popitem()
        signal.setitimer(which, left, interval)
