"""Disk: filled by bytes, by inodes, by links, by what cannot be seen."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import attack
import box
import pytest

DISK = 8 << 20
LIMITS = ("--disk", str(DISK), "--wall", "8s")

GONE = r"""
/* gone COUNT MEGABYTES: programs of that size that run without a name, and without a page of their own mapped. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char __executable_start[], _end[];

/* In memory that was copied to: takes away what we came from, and waits for ever. */
static const unsigned char leave[] = {
    0xb8, 11, 0, 0, 0, 0x0f, 0x05,                              /* munmap(rdi, rsi) */
    0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7};                 /* pause(), again and again */

int main(int argc, char **argv)
{
    static char chunk[1 << 20];
    char path[256];
    if (argc < 3) {
        char *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        unsigned long start = (unsigned long)__executable_start & ~4095UL, end = ((unsigned long)_end + 4095) & ~4095UL;
        memcpy(place, leave, sizeof leave);
        ((void (*)(unsigned long, unsigned long))place)(start, end - start);
    }
    for (int i = 0; i < atoi(argv[1]); i++) {
        snprintf(path, sizeof path, "%s/p%d", getenv("TMPDIR"), i);
        int from = open("/proc/self/exe", O_RDONLY), into = open(path, O_WRONLY | O_CREAT, 0700);
        if (from < 0)
            from = open(argv[0], O_RDONLY);
        for (ssize_t got; (got = read(from, chunk, sizeof chunk)) > 0;)
            write(into, chunk, got);
        for (int more = 0; more < atoi(argv[2]); more++)
            write(into, chunk, sizeof chunk);
        close(from);
        close(into);
        if (fork() == 0) {
            execl(path, path, NULL);
            _exit(1);
        }
        usleep(30000);
        unlink(path);
    }
    usleep(300000);
    puts("had");
    return 0;
}
"""

FILL = r"""
/* fill PLACE KIND WANTED: writes until WANTED bytes (or entries) are there, or it is refused; prints what it got. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
static char chunk[65536];
static int64_t got, wanted;
static void end(const char *word)
{
    printf("%s %lld errno %d\n", word, (long long)got, errno);
    fflush(stdout);
    usleep(250000);
    _exit(strcmp(word, "refused") == 0 ? 1 : 0);
}
static void more(int64_t bytes) { if ((got += bytes) >= wanted) end("had"); }
int main(int argc, char **argv)
{
    char name[512];
    const char *kind = argv[2];
    signal(SIGXFSZ, SIG_IGN);
    wanted = atoll(argv[3]);
    memset(chunk, 'x', sizeof chunk);
    if (chdir(argv[1]) < 0)
        end("refused");
    for (int i = 0;; i++) {
        snprintf(name, sizeof name, "n%d", i);
        if (strcmp(kind, "files") == 0 || strcmp(kind, "deleted") == 0) {
            int fd = open(name, O_CREAT | O_WRONLY, 0600);
            if (fd < 0)
                end("refused");
            if (strcmp(kind, "deleted") == 0)
                unlink(name);
            for (int j = 0; j < 16; j++) {
                ssize_t length = write(fd, chunk, sizeof chunk);
                if (length <= 0)
                    end("refused");
                more(length);
            }
            if (strcmp(kind, "files") == 0)
                close(fd);
        } else if (strcmp(kind, "one") == 0) {
            static int fd = -1;
            if (fd < 0)
                fd = open("one", O_CREAT | O_WRONLY, 0600);
            ssize_t length = write(fd, chunk, sizeof chunk);
            if (length <= 0)
                end("refused");
            more(length);
        } else if (strcmp(kind, "fallocate") == 0) {
            int fd = open(name, O_CREAT | O_WRONLY, 0600);
            if (fd < 0 || posix_fallocate(fd, 0, 1 << 20) != 0)
                end("refused");
            close(fd);
            more(1 << 20);
        } else if (strcmp(kind, "unnamed") == 0) {
            int fd = open(".", O_TMPFILE | O_WRONLY, 0600);
            if (fd < 0)
                end("refused");
            for (int j = 0; j < 16; j++) {
                ssize_t length = write(fd, chunk, sizeof chunk);
                if (length <= 0)
                    end("refused");
                more(length);
            }
        } else if (strcmp(kind, "only mapped") == 0 || strcmp(kind, "in flight") == 0) {
            static int ends[2] = {-1, -1};
            if (ends[0] < 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
                end("refused");
            int fd = open(name, O_CREAT | O_RDWR, 0600);
            if (fd < 0 || unlink(name) < 0 || posix_fallocate(fd, 0, 4 << 20) != 0)
                end("refused");
            if (kind[0] == 'o' && mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
                end("refused");
            union { char bytes[CMSG_SPACE(sizeof fd)]; struct cmsghdr header; } control = {0};
            struct iovec vector = {.iov_base = name, .iov_len = 1};
            struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
            control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
            memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
            if (kind[0] == 'i' && sendmsg(ends[0], &message, MSG_DONTWAIT) < 0)
                end("refused");
            close(fd);
            more(4 << 20);
        } else if (strcmp(kind, "mapped") == 0) {
            int fd = open(name, O_CREAT | O_RDWR, 0600);
            if (fd < 0 || ftruncate(fd, 4 << 20) < 0)
                end("refused");
            char *at = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            close(fd);
            for (int j = 0; j < 4 << 20; j += 4096) {
                at[j] = 1; /* SIGBUS when the file system is full */
                more(4096);
            }
        } else if (strcmp(kind, "inodes") == 0) {
            int fd = open(name, O_CREAT | O_WRONLY, 0600);
            if (fd < 0)
                end("refused");
            close(fd);
            more(1);
        } else if (strcmp(kind, "directories") == 0) {
            if (mkdir(name, 0700) < 0)
                end("refused");
            more(1);
        } else if (strcmp(kind, "links") == 0) {
            if (i == 0)
                close(open("target", O_CREAT | O_WRONLY, 0600));
            if (link("target", name) < 0)
                end("refused");
            more(1);
        } else if (strcmp(kind, "symlinks") == 0) {
            memset(name + 100, 't', 300);
            name[400] = '\0';
            char own[32];
            snprintf(own, sizeof own, "s%d", i);
            if (symlink(name + 100, own) < 0)
                end("refused");
            more(1);
        } else if (strcmp(kind, "deep") == 0) {
            if (mkdir("d", 0700) < 0 || chdir("d") < 0)
                end("refused");
            more(1);
        } else {
            return 9;
        }
    }
}
"""


def fill(place, kind, wanted, *, limits=LIMITS, **options):
    return attack.run(attack.program("abuse-fill", FILL), place, kind, wanted, limits=limits, **options)




def fill_in(variable, kind, wanted, *, engine, limits=LIMITS, weaken=None):
    """Like fill, in the directory that a variable of the box names."""
    program = attack.program("abuse-fill", FILL)
    return box.run("--read", attack.directory(), *limits, "--", "/bin/sh", "-c", f'exec {program} "${variable}" "{kind}" {wanted}', engine=engine,
                   weaken=weaken)


@pytest.mark.parametrize("variable, kind", [("TMPDIR", "one"), ("TMPDIR", "files"), ("TMPDIR", "fallocate"), ("TMPDIR", "mapped"),
                                            ("HOME", "files"), ("CLOCHE_OUTPUT", "files")])
def test_disk_fill_stops_at_the_limit(engine, variable, kind):
    result = fill_in(variable, kind, 64 << 20, engine=engine)
    assert result.cause == "disk", result
    if engine == "container":  # the watchdog of the other one may be late by what is written in a tenth of a second
        assert not result.stdout.startswith("had") and result.usage["disk_bytes"] <= DISK


@pytest.mark.parametrize("kind", ["one", "files", "fallocate", "mapped"])
def test_same_fill_is_had_under_a_higher_limit(engine, kind):
    result = fill_in("TMPDIR", kind, 24 << 20, engine=engine, limits=("--disk", "40M", "--wall", "8s"))
    assert result.stdout.startswith("had "), result


def test_same_fill_is_had_without_the_protecting_step(engine):
    steps = {"container": "scratch_size,rlimits", "process": "watchdog,rlimits"}[engine]
    result = fill_in("TMPDIR", "files", 24 << 20, engine=engine, weaken=steps)
    assert result.stdout.startswith("had "), result


@pytest.mark.parametrize("place", ["/dev/shm", "/run", "/tmp", "/", "/code", "/data", "/data/input", "/usr", "/home", "/dev", "/proc", "/sys", "/etc"])
def test_no_other_place_takes_more(place):
    """Every directory that there is: the sum of what can be written stays within the one limit."""
    result = fill(place, "files", 64 << 20)
    assert not result.stdout.startswith("had"), result
    assert result.usage["disk_bytes"] <= DISK


def test_all_places_together_stay_within_the_limit():
    code = ("import os\ntotal = 0\nfor p in ('/tmp', '/home/user', '/data/output', '/dev/shm'):\n  try:\n    with open(p + '/f', 'wb', buffering=0) as f:\n"
            "      while True: total += f.write(bytes(65536))\n  except OSError: pass\nprint(total)")
    result = box.python(code, *LIMITS)
    assert int(result.stdout) <= DISK, result


@pytest.mark.parametrize("kind", ["inodes", "directories", "links", "symlinks", "deep"])
def test_inode_fill_stops_at_the_limit(engine, kind):
    limits = ("--inodes", "500", "--wall", "8s", "--disk", "64M")
    result, seconds = attack.timed(fill_in, "TMPDIR", kind, 60000, engine=engine, limits=limits)
    if engine == "container":
        assert result.cause == "disk" and result.stdout.startswith("refused"), result
        assert int(result.stdout.split()[1]) <= 500
    else:
        assert result.cause == "disk", result
    assert seconds < 6


@pytest.mark.parametrize("kind", ["inodes", "directories", "links", "symlinks"])
def test_same_inodes_are_had_under_a_higher_limit(engine, kind):
    result = fill_in("TMPDIR", kind, 800, engine=engine, limits=("--inodes", "3000", "--wall", "8s"))
    assert result.stdout.startswith("had "), result


def test_same_inodes_are_had_without_the_protecting_step(engine):
    steps = {"container": "scratch_inodes", "process": "watchdog"}[engine]
    result = fill_in("TMPDIR", "inodes", 1200, engine=engine, limits=("--inodes", "500", "--wall", "8s"), weaken=steps)
    assert result.stdout.startswith("had "), result


@pytest.mark.parametrize("kind", ["deleted", "unnamed"])
def test_files_without_a_name_count(kind):
    result = fill_in("TMPDIR", kind, 64 << 20, engine="container")
    assert result.cause == "disk" and int(result.stdout.split()[1]) <= DISK, result


@pytest.mark.parametrize("kind", ["deleted", "unnamed"])
def test_files_without_a_name_of_the_process_engine_are_given_back(kind):
    """It promises a bound for each of them, not for their sum (see `cloche doctor`); the host gets all of it back."""
    free = shutil.disk_usage("/var/lib").free
    result = fill_in("TMPDIR", kind, 64 << 20, engine="process")
    assert result.cause in ("disk", "exit"), result
    assert shutil.disk_usage("/var/lib").free > free - (40 << 20)


@pytest.mark.parametrize("kind", ["only mapped", "in flight"])
def test_files_that_are_not_even_open_count(engine, kind):
    """A mapping or an unread message keeps them, and where they are in memory, that is the host's: there they count as memory,
    if nothing else can see them."""
    result = fill_in("TMPDIR", kind, 1 << 30, engine=engine)
    assert result.cause in (("disk",) if engine == "container" else ("disk", "memory")), result
    assert not result.stdout.startswith("had") and result.usage["peak_memory_bytes"] <= 512 << 20, result


def test_program_that_has_unmapped_itself_counts():
    """Without a name, a descriptor or a mapping it is there all the same, as long as it runs."""
    result = attack.run(attack.program("abuse-gone", GONE), 30, 12, engine="process", limits=("--disk", "16M", "--memory", "128M", "--wall", "10s"))
    assert result.cause == "disk" and not result.stdout, result


def test_neighbours_files_are_not_counted_for_a_box():
    """One that holds a file without a name, which cannot be told from a neighbour's by what is gone."""
    code = ("import mmap, os, sys, time\nf = open(os.environ['TMPDIR'] + '/f', 'wb+'); f.truncate(4096)\nm = mmap.mmap(f.fileno(), 4096); os.unlink(f.name)\n"
            "sys.stdout.write('held\\n'); sys.stdout.flush(); time.sleep(1); print('done')")
    held = subprocess.Popen([box.CLOCHE, "run", "--json", "--isolation", "process", "--disk", "16M", "-e", code], stdout=subprocess.PIPE, text=True)
    time.sleep(0.4)
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(bytes(100 << 20))
        file.flush()
        told = json.loads(held.communicate(timeout=20)[0])
    assert told["cause"] == "exit" and told["stdout"] == "held\ndone\n" and told["usage"]["disk_bytes"] <= 8192, told


@pytest.mark.parametrize("kind", ["only mapped", "in flight"])
def test_same_files_are_had_under_a_higher_limit(engine, kind):
    result = fill_in("TMPDIR", kind, 24 << 20, engine=engine, limits=("--disk", "40M", "--wall", "8s"))
    assert result.stdout.startswith("had "), result


def test_files_in_memory_are_looked_at_as_fast_as_they_grow():
    """To the next look of its own it would be a third of a gigabyte. The second best of four: a watchdog may have to wait for a CPU."""
    program = attack.program("abuse-fill", FILL)
    code = f'sleep 0.12; exec {program} "$TMPDIR" fallocate {1 << 30}'
    had = sorted(box.run("--read", attack.directory(), *LIMITS, "--", "/bin/sh", "-c", code, engine="process").usage["disk_bytes"] for _ in range(4))
    assert had[1] < DISK + (64 << 20), had


def test_what_is_hidden_deep_down_counts(engine):
    """A walk that stops at some depth would never see it."""
    code = ("import os, time\nos.chdir(os.environ['TMPDIR'])\nfor i in range(150): os.mkdir('d'); os.chdir('d')\n"
            "for i in range(5): open(f'{i}', 'wb').write(bytes(7 << 20))\ntime.sleep(1)")
    result = box.python(code, *LIMITS, engine=engine)
    assert result.cause == "disk", result


def test_what_is_hidden_behind_a_closed_door_counts(engine):
    code = ("import os, time\nos.chdir(os.environ['TMPDIR'])\nos.mkdir('d')\nfor i in range(5): open(f'd/{i}', 'wb').write(bytes(5 << 20)); os.chmod('d', 0); time.sleep(0.2); os.chmod('d', 0o700)\n"
            "time.sleep(1)")
    result = box.python(code, *LIMITS, engine=engine)
    assert result.cause == "disk", result


# Where files are on a disk: no group counts them as memory.
ON_A_DISK = ("--disk", "64M", "--memory", "100M", "--wall", "12s")
HOLD = """import ctypes, os, threading, time
def hold():
    %s
    for i in range(40):
        name = os.environ['TMPDIR'] + f'/f{i}'
        fd = os.open(name, os.O_CREAT | os.O_RDWR, 0o600)
        os.unlink(name); os.posix_fallocate(fd, 0, 8 << 20); time.sleep(0.02)
    time.sleep(1.5)
    print('had')
thread = threading.Thread(target=hold); thread.start(); thread.join()"""


@pytest.mark.parametrize("trick", ["pass", "ctypes.CDLL(None).syscall(436, 1000000, 0xffffffff, 2)"], ids=["none", "a table of its own"])
def test_files_without_a_name_count_whoever_has_them_open(trick):
    result = box.python(HOLD % trick, *ON_A_DISK, engine="process")
    assert result.cause == "disk" and not result.stdout, result


def test_files_without_a_name_count_also_where_root_may_not_look_at_others():
    """As in many containers, where root has no CAP_SYS_PTRACE."""
    done = subprocess.run(["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", box.CLOCHE, "run", "--json", "--isolation", "process",
                           *ON_A_DISK, "-e", HOLD % "pass"], capture_output=True, text=True)
    assert json.loads(done.stdout)["cause"] == "disk", done


@pytest.mark.parametrize("limits", [("--disk", "64M", "--memory", "100M"), ("--disk", "30M", "--memory", "100M")], ids=["on a disk", "in memory"])
def test_files_that_are_being_removed_bring_no_launcher_down(limits):
    """For a moment such a file has a name and no link: who divides by their number is ended."""
    code = """import os, time
os.chdir(os.environ['TMPDIR'])
until = time.monotonic() + 5
def churn(n):
    while time.monotonic() < until:
        for j in range(200): os.close(os.open(f'{n}-{j}', os.O_CREAT | os.O_WRONLY))
        for j in range(200): os.unlink(f'{n}-{j}')
for n in range(2):
    if os.fork() == 0: churn(n); os._exit(0)
churn(9)
for n in range(2): os.wait()
print('done')"""
    result = box.python(code, *limits, "--cpus", "2", "--wall", "20s", engine="process")
    assert (result.cause, result.stdout) == ("exit", "done\n"), result


def test_directories_without_a_name_count():
    """They stay as large as they were."""
    code = """import os, time
os.chdir(os.environ['TMPDIR'])
open('f', 'w').close()
for i in range(24):
    os.mkdir('d'); held = os.open('d', os.O_RDONLY)
    names = ['d/' + 'x' * 240 + f'{j:010}' for j in range(4000)]
    for name in names: os.link('f', name)
    for name in names: os.unlink(name)
    os.rmdir('d')
time.sleep(1); print('had')"""
    result = box.python(code, "--disk", "17M", "--memory", "33M", "--wall", "25s", engine="process")
    assert result.cause == "disk" and not result.stdout, result


def test_single_file_without_a_name_is_bounded(engine):
    code = ("import os, signal\nfd = os.open(os.environ['TMPDIR'], os.O_TMPFILE | os.O_RDWR)\nn = 0\ntry:\n  while n < 64 << 20: n += os.write(fd, bytes(65536))\n"
            "except OSError: pass\nprint(n)")
    result = box.python(code, *LIMITS, engine=engine)
    assert int(result.stdout or 0) <= DISK + (1 << 20), result


def test_sparse_file_of_4_gigabytes(engine, tmp_path):
    """Apparent size is not content: it is refused by the file size limit, and would be by the collection."""
    code = "f = open('sparse', 'wb')\ntry: f.truncate(4 << 30); print('made')\nexcept OSError as e: print('refused')"
    result = box.python(code, "--output", tmp_path, *LIMITS, engine=engine)
    assert result.stdout == "refused\n", result
    assert not list(tmp_path.iterdir()) or (tmp_path / "sparse").stat().st_size == 0


def test_sparse_file_of_4_gigabytes_is_not_collected(engine, tmp_path):
    """With the limit of file sizes removed the collection stands alone."""
    code = "f = open('sparse', 'wb'); f.truncate(4 << 30); f.close(); open('real', 'w').write('x'); print('made')"
    (result, seconds) = attack.timed(box.python, code, "--output", tmp_path, *LIMITS, engine=engine, weaken="rlimits")
    assert result.stdout == "made\n" and seconds < 5, result
    assert [file["path"] for file in result.files] == ["real"] and os.listdir(tmp_path) == ["real"]
    assert [(item["path"], "collect" in item["reason"]) for item in result.not_collected] == [("sparse", True)]


def test_many_sparse_files_do_not_fill_the_caller_disk(engine, tmp_path):
    """Each is within the limit of a file; together they are 800 MB of zeros."""
    code = "for i in range(100): open(f'{i}', 'wb').truncate(8 << 20)"
    result, seconds = attack.timed(box.python, code, "--collect", "20M", "--output", tmp_path, *LIMITS, engine=engine)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 20 << 20 and seconds < 6
    assert len(result.files) + len(result.not_collected) + result.json.get("not_collected_more", 0) == 100, result


def test_hardlink_farm_is_collected_within_the_limits(engine, tmp_path):
    """A thousand names of one file of 1 MB would be a gigabyte on the caller's disk."""
    code = "import os\nopen('f', 'wb').write(bytes(1 << 20))\nfor i in range(999): os.link('f', f'l{i}')"
    result = box.python(code, "--collect", "10M", "--output", tmp_path, "--disk", "8M", engine=engine)
    assert len(result.files) == 10 and sum(path.stat().st_size for path in tmp_path.iterdir()) == 10 << 20, len(result.files)
    assert len(result.not_collected) + result.json.get("not_collected_more", 0) == 990


def test_directory_of_the_box_is_removed_whatever_is_in_it(engine):
    """Closed directories, deep ones, odd names, immutable wishes: nothing holds the removal up."""
    code = ("import os\nos.chdir(os.environ['TMPDIR'])\nfor i in range(200):\n  os.mkdir('d' * 200); os.chdir('d' * 200)\nos.chdir(os.environ['TMPDIR'])\n"
            "os.makedirs('closed/inner'); open('closed/inner/f', 'w'); os.chmod('closed/inner', 0); os.chmod('closed', 0)\n"
            "open('-rf', 'w'); open('new\\nline', 'w'); open(b'\\xff\\xfe', 'w'); os.symlink('/', 'root'); os.mkfifo('pipe')\n"
            "for p in (os.environ['HOME'], os.environ['CLOCHE_OUTPUT'], '.'): os.chmod(p, 0)\nprint('done')")
    result = box.python(code, "--wall", "8s", engine=engine)
    assert result.stdout == "done\n" or (engine == "process" and result.cause == "disk"), result


def test_thousand_levels_are_removed(engine):
    result = fill_in("TMPDIR", "deep", 1000, engine=engine, limits=("--inodes", "9000", "--wall", "8s"))
    assert result.stdout.startswith("had ") or (engine == "process" and result.cause == "disk"), result


def test_scratch_of_a_box_is_empty_for_the_next(engine):
    marker = "residue-of-tenant-a"
    box.python(f"import os\nfor n in ('TMPDIR', 'HOME', 'CLOCHE_OUTPUT'): open(os.environ[n] + '/x', 'w').write('{marker}' * 1000)", engine=engine)
    code = ("import os\nfound = []\nfor n in ('TMPDIR', 'HOME', 'CLOCHE_OUTPUT', 'CLOCHE_INPUT'):\n  for top, dirs, files in os.walk(os.environ[n]): found += files\nprint(found)")
    assert box.python(code, engine=engine).stdout == "[]\n"


def test_boxes_of_the_past_are_not_to_be_seen(engine):
    """The directory of all boxes cannot be listed or entered by one of them."""
    code = ("import os\nfor p in ('/var/lib/cloche/box', '/var/lib/cloche', '/run/cloche'):\n  try: print(os.listdir(p))\n  except OSError as e: print('no')")
    other = pathlib.Path("/var/lib/cloche/box")
    assert box.python(code, engine=engine).stdout == "no\nno\nno\n"
    assert not other.exists() or (other.stat().st_mode & 0o777) in (0o700, 0o711, 0o755)
