"""Output without end: cut at the declared bytes, counted, in bounded memory and time."""
import json
import os
import pathlib
import re
import subprocess
import threading
import time

import attack
import box
import pytest

FLOOD = r"""
/* flood STREAM SIZE TOTAL BYTE: writes TOTAL bytes in writes of SIZE. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int fd = atoi(argv[1]);
    size_t size = (size_t)atoll(argv[2]);
    int64_t total = atoll(argv[3]);
    char *data = malloc(size);
    memset(data, atoi(argv[4]), size);
    while (total > 0) {
        ssize_t length = write(fd, data, (int64_t)size < total ? size : (size_t)total);
        if (length < 0 && errno != EAGAIN)
            return 3;
        if (length > 0)
            total -= length;
    }
    return 0;
}
"""


def flood_command(stream, size, total, byte=ord("x"), engine="container", more=()):
    program = attack.program("abuse-flood", FLOOD)
    return [str(box.CLOCHE), "run", "--isolation", engine, "--read", str(attack.directory()), *more, "--", str(program), str(stream), str(size),
            str(total), str(byte)]


class Watched:
    """Runs a command and keeps the peak of its resident memory, asked from outside."""

    def __init__(self, command, started=None, **options):
        self.peak = 0
        before = time.monotonic()
        self.process = subprocess.Popen(command, **options)
        if started:
            started(self.process)
        thread = threading.Thread(target=self.watch)
        thread.start()
        self.output, self.errors = self.process.communicate(timeout=60)
        self.seconds = time.monotonic() - before
        thread.join()
        self.returncode = self.process.returncode

    def watch(self):
        path = pathlib.Path("/proc", str(self.process.pid), "status")
        while self.process.poll() is None:
            try:
                found = re.search(r"VmHWM:\s+(\d+) kB", path.read_text())
            except OSError:
                break
            if found:
                self.peak = max(self.peak, int(found[1]) * 1024)
            time.sleep(0.01)


TEN_GIGABYTES = 10 << 30


@pytest.mark.parametrize("stream", [1, 2])
def test_ten_gigabytes_are_cut_at_the_declared_bytes(engine, stream):
    done = Watched(flood_command(stream, 65536, TEN_GIGABYTES, engine=engine, more=("--json", "--output-limit", "1M")), stdout=subprocess.PIPE)
    result = json.loads(done.output)
    name = {1: "stdout", 2: "stderr"}[stream]
    assert result["cause"] == "output" and done.returncode == 137
    assert result[name] == "x" * (1 << 20)
    assert 15 << 20 <= result["truncated"][name] <= 40 << 20, "it is ended at sixteen times the limit"
    assert done.seconds < 10 and attack.small(done.peak, 48 << 20), (done.seconds, done.peak)


def test_ten_gigabytes_with_the_default_limit(engine):
    done = Watched(flood_command(1, 65536, TEN_GIGABYTES, engine=engine, more=("--quiet",)), stdout=subprocess.PIPE)
    assert done.returncode == 137 and len(done.output) == 16 << 20
    assert done.seconds < 15 and attack.small(done.peak, 96 << 20), (done.seconds, done.peak)


def test_cut_is_told_with_its_bytes(engine):
    done = Watched(flood_command(1, 65536, 3 << 20, engine=engine, more=("--output-limit", "1M")), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0 and len(done.output) == 1 << 20
    assert b"stdout was cut: 2097152 bytes are missing" in done.errors


def test_exactly_the_limit_is_not_cut(engine):
    for total, missing in ((65536, 0), (65537, 1)):
        result = box.run("--output-limit", "65536", "--", "head", "-c", total, "/dev/zero", engine=engine)
        assert len(result.stdout) == 65536 and result.truncated["stdout"] == missing, total


def test_both_streams_at_once(engine):
    code = "import os\nwhile True: os.write(1, b'o' * 65536); os.write(2, b'e' * 65536)"
    result, seconds = attack.timed(box.python, code, "--output-limit", "100K", "--wall", "10s", engine=engine)
    assert result.cause == "output" and seconds < 5
    assert result.stdout == "o" * (100 << 10) and result.stderr == "e" * (100 << 10)


def test_many_writers_at_once(engine):
    code = "import os\nfor i in range(4): os.fork()\nwhile True: os.write(1, b'x' * 65536)"
    result, seconds = attack.timed(box.python, code, "--output-limit", "1M", "--wall", "10s", engine=engine)
    assert result.cause == "output" and len(result.stdout) == 1 << 20 and seconds < 6


def test_single_bytes(engine):
    """A million writes of one byte each: every one of them is counted."""
    done = Watched(flood_command(1, 1, 300000, engine=engine, more=("--json", "--output-limit", "100K", "--cpu", "30s", "--wall", "20s")),
                   stdout=subprocess.PIPE)
    result = json.loads(done.output)
    assert len(result["stdout"]) == 100 << 10 and result["truncated"]["stdout"] == 300000 - (100 << 10)
    assert done.seconds < 15


@pytest.mark.parametrize("byte", [0, 0x1b, 0x22, 0x5c, 0xff, 0x0a])
def test_bytes_that_grow_in_json_stay_bounded(engine, byte):
    """A NUL is six characters of JSON, a wrong byte three and its base64."""
    done = Watched(flood_command(1, 65536, 64 << 20, byte, engine=engine, more=("--json", "--output-limit", "2M")), stdout=subprocess.PIPE)
    result = json.loads(done.output)
    assert len(result["stdout"]) == 2 << 20
    assert attack.small(done.peak, 96 << 20) and done.seconds < 10, (done.peak, done.seconds)


def test_flood_without_a_newline_reaches_a_terminal_in_bounded_memory():
    import pty
    master, slave = pty.openpty()
    stop = threading.Event()

    def drain():
        while not stop.is_set():
            try:
                os.read(master, 65536)
            except OSError:
                break

    reader = threading.Thread(target=drain)
    reader.start()
    done = Watched(flood_command(1, 65536, 8 << 20, 0x1b, more=("--quiet", "--output-limit", "2M")), stdout=slave, stderr=slave)
    os.close(slave)
    stop.set()
    reader.join(2)
    os.close(master)
    assert done.returncode == 0 and attack.small(done.peak, 48 << 20), done.peak


def test_flood_at_a_reader_that_does_not_read(engine):
    """Nobody takes it: the program waits, the launcher does not grow, the wall limit ends the box, a signal the waiting."""
    read, write = os.pipe()
    timer = None
    try:
        command = flood_command(1, 65536, TEN_GIGABYTES, engine=engine, more=("--quiet", "--wall", "1s"))
        ended = []

        def end(process_of):
            ended.append(attack.gone("abuse-flood", 0.1))
            process_of().terminate()
            time.sleep(2)
            process_of().kill()

        watched = []
        timer = threading.Timer(2.2, end, [lambda: watched[0]])
        timer.start()
        done = Watched(command, started=watched.append, stdout=write)
        assert ended == [True], "the box outlived its limit"
        assert done.returncode == -15 and attack.small(done.peak, 24 << 20) and done.seconds < 4, (done.returncode, done.peak, done.seconds)
    finally:
        if timer:
            timer.cancel()
        os.close(read)
        os.close(write)


def test_flood_after_the_reader_left(engine):
    process = subprocess.Popen(flood_command(1, 65536, TEN_GIGABYTES, engine=engine, more=("--quiet",)), stdout=subprocess.PIPE)
    process.stdout.read(100000)
    process.stdout.close()
    before = time.monotonic()
    assert process.wait(10) != 0 and time.monotonic() - before < 3


def test_launcher_is_small(engine):
    """Issue 2: the launcher's own peak is under 4 MB."""
    done = Watched([str(box.CLOCHE), "run", "--isolation", engine, "-e", "import time; time.sleep(0.3)"])
    assert done.returncode == 0 and attack.small(done.peak, 4 << 20), done.peak


def test_stdin_flood_does_not_grow_the_launcher(engine):
    """Ten gigabytes for a program that sleeps: one pipe's worth is taken."""
    zeros = open("/dev/zero", "rb")
    done = Watched([str(box.CLOCHE), "run", "--quiet", "--isolation", engine, "--wall", "1s", "-e", "import time; time.sleep(9)"], stdin=zeros)
    assert done.returncode == 137 and attack.small(done.peak, 8 << 20), done.peak


def test_echo_of_an_endless_stdin_is_ended_as_output(engine):
    zeros = open("/dev/zero", "rb")
    done = Watched([str(box.CLOCHE), "run", "--json", "--isolation", engine, "--output-limit", "100K", "--wall", "10s", "--", "cat"], stdin=zeros,
                   stdout=subprocess.PIPE)
    assert json.loads(done.output)["cause"] == "output" and done.seconds < 5


PIPES = r"""
/* Plays with the descriptors it was given: size, flags, owner; writes through /proc too. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
int main(void)
{
    char chunk[4096];
    memset(chunk, 'x', sizeof chunk);
    for (int fd = 0; fd < 3; fd++) {
        fcntl(fd, F_SETPIPE_SZ, 1 << 20);
        fcntl(fd, F_SETFL, O_NONBLOCK | O_DIRECT | O_ASYNC);
    }
    for (int i = 0; i < 2000; i++)
        if (write(1, chunk, sizeof chunk) < 0 && errno == EAGAIN)
            usleep(100);
    int again = open("/proc/self/fd/1", O_RDWR | O_NONBLOCK);
    if (again >= 0) {
        read(again, chunk, sizeof chunk); /* steals from the reader, if it can */
        write(again, "again\n", 6);
    }
    return 4;
}
"""


def test_play_with_the_pipes_harms_nobody(engine):
    result = attack.run(attack.program("abuse-pipes", PIPES), limits=("--wall", "5s"), engine=engine)
    assert (result.cause, result.exit_code) == ("exit", 4), result
    assert set(result.stdout) <= set("xagin\n")


def test_flags_of_the_caller_descriptors_stay_as_they_are(engine):
    """Pipes of the caller's are shared by all who hold them: O_NONBLOCK set by a box would break the caller's shell."""
    import fcntl
    ends = [os.pipe() for _ in range(3)]
    try:
        subprocess.run([box.CLOCHE, "run", "-q", "--isolation", engine, "--read", attack.directory(), "--", attack.program("abuse-pipes", PIPES)],
                       stdin=ends[0][0], stdout=open("/dev/null", "w"), stderr=ends[2][1], timeout=20)
        for pair in ends:
            for end in pair:
                assert not fcntl.fcntl(end, fcntl.F_GETFL) & os.O_NONBLOCK
    finally:
        for pair in ends:
            for end in pair:
                os.close(end)
