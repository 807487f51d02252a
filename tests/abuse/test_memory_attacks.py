"""Memory by every door: pages, shared pages, files in memory, the kernel's own."""
import errno
import time

import attack
import box
import pytest

LIMIT = 64 << 20
LIMITS = ("--memory", str(LIMIT), "--wall", "8s", "--cpu", "30s", "--disk", "2G", "--inodes", "1000000", "--pids", "200")

HOARD = r"""
/* hoard KIND BYTES: takes memory of one kind until BYTES are had, or until it is refused; says which. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static char chunk[1 << 20];
static int64_t wanted, had;
static int fd = -1;
static pid_t first;

static void end(const char *word)
{
    printf("%s %lld errno %d\n", word, (long long)had, errno);
    fflush(stdout);
    usleep(150000); /* a watchdog gets its look */
    if (getpid() != first)
        kill(first, SIGTERM); /* nobody waits for a child's word */
    _exit(0);
}

static void more(int64_t bytes)
{
    had += bytes;
    if (had >= wanted)
        end("had");
}

static void pages(int flags)
{
    for (;;) {
        char *at = mmap(NULL, sizeof chunk, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            end("refused");
        memset(at, 1, sizeof chunk);
        more(sizeof chunk);
    }
}

static void stack(int depth)
{
    char frame[65536];
    memset(frame, depth, sizeof frame);
    more(sizeof frame);
    stack(depth + 1);
    __asm__ volatile("" : : "r"(frame) : "memory");
}

static void file(const char *name)
{
    fd = strcmp(name, "memfd") == 0 ? (int)syscall(SYS_memfd_create, "x", 0) : open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        end("refused");
    for (;;) {
        ssize_t length = write(fd, chunk, sizeof chunk);
        if (length <= 0)
            end("refused");
        more(length);
    }
}

static void many_memfds(void)
{
    for (;;) {
        fd = (int)syscall(SYS_memfd_create, "x", 0);
        if (fd < 0 || ftruncate(fd, sizeof chunk) < 0)
            end("refused");
        char *at = mmap(NULL, sizeof chunk, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
            end("refused");
        memset(at, 1, sizeof chunk);
        munmap(at, sizeof chunk);
        more(sizeof chunk);
    }
}

static void in_children(void (*take)(void))
{
    for (int i = 0; i < 40; i++)
        if (fork() == 0)
            take();
    for (;;)
        pause();
}

static void pipes(void)
{
    for (;;) {
        int ends[2];
        if (pipe(ends) < 0) { /* this process is full: go on in another */
            if (fork() != 0)
                for (;;)
                    pause();
            for (int i = 3; i < 4096; i++)
                close(i);
            continue;
        }
        fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        for (ssize_t length; (length = write(ends[1], chunk, 65536)) > 0;)
            more(length);
    }
}

static void sockets(void)
{
    for (;;) {
        int ends[2], size = 8 << 20;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0) {
            if (errno != EMFILE)
                end("refused");
            if (fork() != 0)
                for (;;)
                    pause();
            for (int i = 3; i < 4096; i++)
                close(i);
            continue;
        }
        for (int i = 0; i < 2; i++) {
            setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
            for (ssize_t length; (length = send(ends[i], chunk, 32768, MSG_DONTWAIT)) > 0;)
                more(length);
        }
    }
}

/* Descriptors that are in no process: sent over a socket that nobody reads. Each is a file of the kernel's. */
static void in_flight(void)
{
    for (;;) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends) < 0)
            end("refused");
        for (;;) {
            int fds[64], count = 0;
            while (count < 64 && (fds[count] = eventfd(0, 0)) >= 0)
                count++;
            if (count == 0)
                end("refused");
            char control[CMSG_SPACE(sizeof fds)] = {0}, byte = 0;
            struct iovec vector = {&byte, 1};
            struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(sizeof(int) * count);
            memcpy(CMSG_DATA(header), fds, sizeof(int) * count);
            ssize_t sent = sendmsg(ends[0], &message, MSG_DONTWAIT);
            int code = errno;
            for (int i = 0; i < count; i++)
                close(fds[i]);
            errno = code;
            if (sent < 0 && errno == ETOOMANYREFS)
                end("refused");
            if (sent < 0)
                break;
            more(count * 512);
        }
    }
}

static void watches(void)
{
    char name[64];
    for (int i = 0;; i++) {
        if (i % 1000 == 0 && (fd = inotify_init()) < 0)
            end("refused");
        snprintf(name, sizeof name, "%s/d%d", getenv("TMPDIR"), i);
        if (mkdir(name, 0700) < 0 || inotify_add_watch(fd, name, IN_ALL_EVENTS) < 0)
            end("refused");
        more(1024);
    }
}

static void epolls(void)
{
    int target = eventfd(0, 0);
    for (int i = 0;; i++) {
        struct epoll_event event = {0};
        if (i % 500 == 0 && (fd = epoll_create1(0)) < 0)
            end("refused");
        int copy = dup(target);
        if (copy < 0) {
            if (fork() != 0)
                for (;;)
                    pause();
            for (int n = 3; n < 4096; n++)
                close(n);
            target = eventfd(0, 0);
            i = -1;
            continue;
        }
        epoll_ctl(fd, EPOLL_CTL_ADD, copy, &event);
        more(256);
    }
}

static void timers(void)
{
    for (;;) {
        timer_t timer;
        struct sigevent quiet = {.sigev_notify = SIGEV_NONE};
        if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &quiet, &timer) < 0)
            end("refused");
        more(256);
    }
}

/* One byte in every 2 MB: a page and a page table each; or only tables, where the page is the zero page. */
static void tables(int write_too)
{
    char *at = mmap(NULL, INT64_C(1) << 40, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        end("refused");
    madvise(at, INT64_C(1) << 40, 15 /* MADV_NOHUGEPAGE */);
    volatile char sum = 0;
    for (int64_t i = 0; i < INT64_C(1) << 40; i += 2 << 20) {
        if (write_too)
            at[i] = 1;
        else
            sum += at[i];
        more(write_too ? 8192 : 4096);
    }
    end("refused");
}

static void message_queues(void)
{
    struct { long kind; char text[8000]; } message = {1, ""};
    for (;;) {
        int queue = msgget(IPC_PRIVATE, 0600);
        if (queue < 0)
            end("refused");
        while (msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT) == 0)
            more(8000);
    }
}

static void posix_queues(void)
{
    char name[32];
    for (int i = 0;; i++) {
        snprintf(name, sizeof name, "/q%d", i);
        mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_NONBLOCK, 0600, NULL);
        if (queue == (mqd_t)-1)
            end("refused");
        while (mq_send(queue, chunk, 8192, 0) == 0)
            more(8192);
    }
}

static void shared_segments(void)
{
    for (;;) {
        int segment = shmget(IPC_PRIVATE, sizeof chunk, 0600);
        char *at = segment < 0 ? (char *)-1 : shmat(segment, NULL, 0);
        if (at == (char *)-1)
            end("refused");
        memset(at, 1, sizeof chunk);
        shmdt(at); /* attached to nobody, and still there */
        more(sizeof chunk);
    }
}

static void attributes(void)
{
    char name[64], path[64];
    for (int i = 0;; i++) {
        snprintf(path, sizeof path, "%s/x%d", getenv("TMPDIR"), i / 1000);
        close(open(path, O_CREAT | O_WRONLY, 0600));
        snprintf(name, sizeof name, "user.a%d", i);
        if (setxattr(path, name, chunk, 4000, 0) < 0)
            end("refused");
        more(4000);
    }
}

static void locked(void)
{
    for (;;) {
        char *at = mmap(NULL, sizeof chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mlock(at, sizeof chunk) < 0)
            end("refused");
        more(sizeof chunk);
    }
}

/* Shared memory that is there as long as a page of it is mapped. */
static void zero(int unmaps)
{
    enum { PIECE = 16 << 20 };
    int device = open("/dev/zero", O_RDWR);
    for (;;) {
        char *at = device < 0 ? MAP_FAILED : mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, device, 0);
        if (at == MAP_FAILED)
            end("refused");
        memset(at, 1, PIECE);
        if (unmaps)
            munmap(at + 4096, PIECE - 4096);
        more(PIECE);
    }
}

static void huge(void)
{
    for (;;) {
        char *at = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
        if (at == MAP_FAILED)
            end("refused");
        memset(at, 1, 2 << 20);
        more(2 << 20);
    }
}

/* A pipe that holds four kilobytes of a huge page keeps all of it. */
static void given_to_pipes(void)
{
    for (;;) {
        int ends[2];
        char *at = aligned_alloc(2 << 20, 2 << 20);
        struct iovec one = {at, 4096};
        madvise(at, 2 << 20, MADV_HUGEPAGE);
        memset(at, 1, 2 << 20);
        if (pipe(ends) < 0 || vmsplice(ends[1], &one, 1, SPLICE_F_GIFT) < 0)
            end("refused");
        free(at);
        more(2 << 20);
    }
}

static void rules(void)
{
    uint64_t attributes[1] = {1};
    for (;;) {
        if (syscall(444 /* landlock_create_ruleset */, attributes, sizeof attributes, 0) < 0)
            end("refused");
        more(200);
    }
}

/* Single pages of a file with a long name, in as many processes as `wanted`. */
static void mappings(void)
{
    char path[4000], *at = path + snprintf(path, sizeof path, "%s", getenv("TMPDIR"));
    while (at < path + 3300) {
        *at++ = '/';
        memset(at, 'n', 200);
        at += 200;
        *at = '\0';
        mkdir(path, 0700);
    }
    strcpy(at, "/f");
    int file = open(path, O_RDWR | O_CREAT, 0600);
    ftruncate(file, 8192);
    for (int i = 0; i < 60000; i++)
        if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, i % 2 * 4096) == MAP_FAILED)
            break;
    for (int i = 1; i < wanted - 2; i++)
        if (fork() == 0)
            break;
    for (;;)
        pause();
}

static void directories(void)
{
    char name[300];
    memset(name, 'n', sizeof name);
    for (int i = 0;; i++) {
        snprintf(name, sizeof name, "%s/%0180d", getenv("TMPDIR"), i);
        if (mkdir(name, 0700) < 0)
            end("refused");
        more(2048);
    }
}

static void private_pages(void) { pages(MAP_PRIVATE); }
static void shared_pages(void) { pages(MAP_SHARED); }

int main(int argc, char **argv)
{
    char path[256];
    const char *kind = argv[1];
    first = getpid();
    memset(chunk, 'x', sizeof chunk);
    wanted = atoll(argv[2]);
    snprintf(path, sizeof path, "%s/file", getenv("TMPDIR"));
    struct rlimit high = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_STACK, &high);
    if (strcmp(kind, "private") == 0) private_pages();
    if (strcmp(kind, "shared") == 0) shared_pages();
    if (strcmp(kind, "private-in-children") == 0) in_children(private_pages);
    if (strcmp(kind, "shared-in-children") == 0) in_children(shared_pages);
    if (strcmp(kind, "stack") == 0) stack(0);
    if (strcmp(kind, "memfd") == 0) file("memfd");
    if (strcmp(kind, "memfds") == 0) many_memfds();
    if (strcmp(kind, "tmpfs") == 0) file(path);
    if (strcmp(kind, "dev-shm") == 0) file("/dev/shm/file");
    if (strcmp(kind, "pipes") == 0) pipes();
    if (strcmp(kind, "sockets") == 0) sockets();
    if (strcmp(kind, "in-flight") == 0) in_flight();
    if (strcmp(kind, "inotify") == 0) watches();
    if (strcmp(kind, "epoll") == 0) epolls();
    if (strcmp(kind, "timers") == 0) timers();
    if (strcmp(kind, "tables") == 0) tables(1);
    if (strcmp(kind, "tables-only") == 0) tables(0);
    if (strcmp(kind, "message-queues") == 0) message_queues();
    if (strcmp(kind, "posix-queues") == 0) posix_queues();
    if (strcmp(kind, "shm-segments") == 0) shared_segments();
    if (strcmp(kind, "xattrs") == 0) attributes();
    if (strcmp(kind, "mlock") == 0) locked();
    if (strcmp(kind, "directories") == 0) directories();
    if (strcmp(kind, "zero") == 0) zero(0);
    if (strcmp(kind, "zero-unmapped") == 0) zero(1);
    if (strcmp(kind, "huge") == 0) huge();
    if (strcmp(kind, "given-to-pipes") == 0) given_to_pipes();
    if (strcmp(kind, "rules") == 0) rules();
    if (strcmp(kind, "mappings") == 0) mappings();
    return 9;
}
"""


def hoard(kind, size, **options):
    return attack.run(attack.program("abuse-hoard", HOARD), kind, size, limits=options.pop("limits", LIMITS), **options)


# Doors whose whole content counts: they end in the cause "memory".
COUNTED = ["private", "shared", "private-in-children", "shared-in-children", "memfd", "memfds", "tmpfs", "dev-shm", "pipes", "sockets",
           "tables", "tables-only", "shm-segments", "message-queues", "directories"]
# Doors that other limits close first: refused, or memory.
BOUNDED = ["stack", "in-flight", "inotify", "epoll", "timers", "posix-queues", "xattrs", "mlock"]


@pytest.mark.parametrize("kind", COUNTED)
def test_memory_ends_the_box(kind):
    result, seconds = attack.timed(hoard, kind, 600 << 20)
    assert result.cause == "memory", result
    assert seconds < 8 and result.usage["peak_memory_bytes"] <= LIMIT + (1 << 20), (seconds, result.usage)


@pytest.mark.parametrize("kind", BOUNDED)
def test_memory_is_bounded(kind):
    result, seconds = attack.timed(hoard, kind, 600 << 20)
    assert result.cause in ("memory", "signal") or result.stdout.startswith("refused"), result
    assert not result.stdout.startswith("had") and seconds < 9
    assert result.usage["peak_memory_bytes"] <= LIMIT + (1 << 20), result.usage


@pytest.mark.parametrize("kind", [kind for kind in COUNTED if "children" not in kind])
def test_same_hoard_is_had_without_the_protecting_step(kind):
    """The control: it is the group that ends it. (Children take theirs each and never say so.)"""
    result = hoard(kind, 100 << 20, weaken="cgroup_memory")
    assert result.stdout.startswith("had "), result


@pytest.mark.parametrize("kind", ["private", "shared", "tmpfs", "memfd", "pipes", "sockets", "tables"])
def test_same_hoard_is_had_under_a_higher_limit(kind):
    result = hoard(kind, 100 << 20, limits=("--memory", "400M", *LIMITS[2:]))
    assert result.stdout.startswith("had "), result


# The process engine: a group counts its memory where there is one. Else a watchdog counts what processes hold; the rest is refused or
# documented (see `cloche doctor`).

WATCHED = "cgroup_memory"  # what is removed for a box like those of places without groups


@pytest.mark.parametrize("kind", ["private", "private-in-children", "tables", "tables-only", "pipes", "sockets", "zero", "zero-unmapped"])
def test_group_ends_a_process_box(kind):
    result, seconds = attack.timed(hoard, kind, 900 << 20, engine="process")
    assert result.cause == "memory", result
    assert seconds < 8 and result.usage["peak_memory_bytes"] <= LIMIT + (1 << 20)


@pytest.mark.parametrize("kind", ["private", "private-in-children", "tables", "tables-only"])
def test_watchdog_ends_the_box(kind):
    result, seconds = attack.timed(hoard, kind, 900 << 20, engine="process", weaken=WATCHED)
    assert result.cause == "memory", result
    assert seconds < 8 and result.usage["peak_memory_bytes"] < 900 << 20


@pytest.mark.parametrize("kind", ["private", "tables", "pipes"])
def test_same_hoard_is_had_without_group_and_watchdog(kind):
    result = hoard(kind, 100 << 20, engine="process", weaken=f"{WATCHED},watchdog")
    assert result.stdout.startswith("had "), result


@pytest.mark.parametrize("weaken", [None, WATCHED])
@pytest.mark.parametrize("kind", ["shared", "memfd", "memfds", "dev-shm", "message-queues", "posix-queues", "shm-segments", "inotify", "huge",
                                  "given-to-pipes", "rules"])
def test_what_a_watchdog_cannot_count_is_refused(kind, weaken):
    result = hoard(kind, 600 << 20, engine="process", weaken=weaken)
    assert result.stdout.startswith("refused 0 "), result


@pytest.mark.parametrize("kind", ["zero", "zero-unmapped"])
def test_memory_of_dev_zero_is_refused_where_no_group_counts_it(kind):
    result = hoard(kind, 600 << 20, engine="process", weaken=WATCHED)
    assert result.stdout.startswith("refused 0 "), result


@pytest.mark.parametrize("engine", ["container", "process"])
def test_huge_pages_of_the_host_are_refused(engine):
    result = hoard("huge", 64 << 20, engine=engine)
    assert result.stdout == f"refused 0 errno {errno.EPERM}\n", result


@pytest.mark.parametrize("weaken", [None, WATCHED])
def test_child_that_shares_its_memory_counts_once(weaken):
    """As vfork makes them: with what it has of its parent's a program would be over its limit."""
    code = "import subprocess, time\nx = bytearray(b'x') * (110 << 20)\nfor i in range(40): subprocess.run(['/bin/sleep', '0.02'])\nprint('fine')"
    result = box.python(code, "--memory", "160M", "--wall", "20s", engine="process", weaken=weaken)
    assert result.stdout == "fine\n", result


@pytest.mark.parametrize("weaken", [None, WATCHED])
def test_who_keeps_the_watchdog_busy_is_not_watched_less(weaken):
    """As many mappings as the kernel gives, in as many processes: to go through all of them would take seconds."""
    limits = ("--memory", "256M", "--wall", "3s", "--pids", "40", "--cpu", "60s")
    result, seconds = attack.timed(hoard, "mappings", 40, engine="process", limits=limits, weaken=weaken)
    assert result.cause in ("memory", "wall_time"), result
    assert seconds < 8 and result.usage["wall_ms"] < 5500, (seconds, result.usage)


@pytest.mark.parametrize("kind", ["in-flight", "epoll", "timers", "mlock", "stack", "xattrs", "directories", "tmpfs"])
def test_what_is_bounded_in_the_process_engine_stays_so(kind):
    """xattrs, directories and files are disk there, with limits of its own."""
    result = hoard(kind, 2000 << 20, engine="process", limits=("--memory", str(LIMIT), "--wall", "3s", "--cpu", "30s", "--disk", "32M",
                                                                                "--inodes", "1500"))
    assert not result.stdout.startswith("had"), result
    assert result.cause in ("memory", "disk", "exit", "signal", "wall_time", "pids"), result


def test_memory_bomb_of_python(engine):
    for code in ("x = [0] * (10 ** 9)\nx[:] = range(len(x))", "s = 'x'\nwhile True: s += s", "d = {}\ni = 0\nwhile True: d[i] = str(i) * 10; i += 1"):
        result = box.python(code, "--memory", "96M", "--wall", "10s", engine=engine)
        assert result.cause in ("memory", "exit"), result
        assert result.cause == "memory" or "MemoryError" in result.stderr


def test_memory_bomb_of_node(engine):
    code = "const x = []; for (;;) x.push(Buffer.alloc(1 << 20, 1))"
    assert box.run("-l", "javascript", "-e", code, "--memory", "128M", "--wall", "15s", engine=engine).cause == "memory"


def test_memory_of_a_box_is_all_given_back(engine):
    """Boxes that fill their memory one after the other: the host has as much as before."""
    available = attack.memory_available()
    for kind in ("private", "tmpfs", "tables", "private-in-children") * 2:
        hoard(kind, 300 << 20, engine=engine, limits=("--memory", "128M", "--wall", "3s", "--disk", "100M", "--pids", "64"))
    deadline = time.monotonic() + 3
    while attack.memory_available() < available - (600 << 20) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert attack.memory_available() > available - (600 << 20)


def test_huge_reservation_without_use_is_no_crime(engine):
    result = box.python("import mmap; m = mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | 0x4000 | mmap.MAP_ANONYMOUS); m[0] = 1; print('fine')",
                        "--memory", "64M", engine=engine)
    assert result.stdout == "fine\n", result


def test_cached_pages_of_inputs_do_not_end_the_box(engine, tmp_path):
    path = tmp_path / "big"
    path.write_bytes(b"x" * (100 << 20))
    result = box.python("import os\nf = open(os.environ['CLOCHE_INPUT'] + '/big', 'rb')\nn = 0\nwhile b := f.read(1 << 20): n += len(b)\nprint(n)",
                        "--input", path, "--memory", "48M", engine=engine)
    assert result.stdout == f"{100 << 20}\n", result


COPY_ON_WRITE = """
import os, time
b = bytearray(b'x') * (100 << 20)
for k in range(9):
    if os.fork() == 0:
        time.sleep(0.5 + 0.1 * k)
        for i in range(0, len(b), 4096): b[i] = 2
        time.sleep(9)
time.sleep(4)
print('had it', flush=True)
os._exit(0)
"""


def test_pages_that_stop_being_shared_count(engine):
    """Shared at first, 100 MB for all ten, then ten times that: what processes use by themselves does not change by it."""
    result = box.python(COPY_ON_WRITE, "--memory", "200M", "--wall", "9s", "--cpu", "60s", engine=engine)
    assert (result.cause, result.stdout) == ("memory", ""), result


MAPPED_BY_SEVERAL = """
import mmap, os, time
held = bytearray(os.urandom(1 << 20) * MEGABYTES)
with open(os.environ['TMPDIR'] + '/mapped', 'w+b') as file:
    file.truncate(40 << 20)
    mapped = mmap.mmap(file.fileno(), 40 << 20)
for i in range(0, len(mapped), 4096): mapped[i] = 1
for _ in range(2):
    if os.fork() == 0:
        sum(mapped[i] for i in range(0, len(mapped), 4096))
        time.sleep(0.6)
        os._exit(0)
for _ in range(2): os.wait()
print('fine')
"""


@pytest.mark.parametrize("megabytes, cause", [(40, "exit"), (110, "memory")])
def test_mapped_file_in_memory_counts_once(engine, megabytes, cause):
    """It is memory of the box as a file, and as pages of whoever maps it: 80 MB are not 120."""
    code = MAPPED_BY_SEVERAL.replace("MEGABYTES", str(megabytes))
    result = box.python(code, "--memory", "128M", "--disk", "60M", "--wall", "8s", engine=engine)
    assert result.cause == cause, result
    assert cause != "exit" or result.stdout == "fine\n", result
