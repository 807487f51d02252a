"""Copies of a live interpreter: what it has open, what it waits for, and what outlives what."""
import subprocess

import box
import pytest


def session(text, *options):
    return subprocess.run([box.CLOCHE, "repl", "--lines", *options], input=text, text=True, timeout=120, capture_output=True)


def fork_and_back(before, after, *options):
    """What the copy of a copy prints: it has been through both."""
    return session(f"{before}\n:fork\n:back\n{after}\n", *options)


# ---- open files ----

def test_files_go_on_in_the_copy_where_they_were():
    done = fork_and_back("import os; f = open('/tmp/log', 'w'); n = f.write('one '); f.flush(); r = open('/tmp/log'); a = open('/tmp/log', 'a')",
                         "g = open('/tmp/precious', 'w'); n = f.write('two '); f.flush(); n = a.write('three'); a.flush()\n"
                         "print(r.read(), [open('/tmp/precious').read()], g.fileno() in (f.fileno(), r.fileno(), a.fileno()))\n"
                         ":back\nprint(r.read(), a.tell(), f.tell())")
    assert done.stdout == "one two three [''] False\none  4 4\n", done
    assert done.stderr.count("cloche:") == 1, done  # that it was kept


def test_what_was_not_written_yet_is_written_by_each():
    done = fork_and_back("f = open('/tmp/log', 'w'); n = f.write('one ')", "n = f.write('two'); f.close(); print(open('/tmp/log').read())\n"
                         ":back\nn = f.write('three'); f.close(); print(open('/tmp/log').read())")
    assert done.stdout == "one two\none three\n", done


def test_two_numbers_of_one_open_file_stay_one():
    done = fork_and_back("import os; f = os.open('/tmp/log', os.O_RDWR | os.O_CREAT); d = os.dup(f); e = os.open('/tmp/log', os.O_RDWR)",
                         "n = os.write(f, b'one'), os.write(d, b'two'); print(os.pread(e, 9, 0), os.lseek(e, 0, 1), os.get_inheritable(d))")
    assert done.stdout == "b'onetwo' 0 False\n", done


def test_logs_directories_and_devices_go_on():
    done = fork_and_back("import logging, os; logging.basicConfig(filename='/tmp/my.log'); logging.error('one')\n"
                         "os.mkdir('/tmp/place'); d = os.open('/tmp/place', os.O_PATH); n = open('/dev/null', 'w')",
                         "logging.error('two'); print(open('/tmp/my.log').read().split(), n.write('x'))\n"
                         "os.close(os.open('in', os.O_CREAT | os.O_WRONLY, dir_fd=d)); print(os.listdir('/tmp/place'))")
    assert done.stdout == "['ERROR:root:one', 'ERROR:root:two'] 1\n['in']\n", done


def test_output_that_was_turned_to_a_file_stays_there_and_can_be_turned_back():
    done = fork_and_back("import os; f = open('/tmp/out', 'wb', buffering=0); kept = os.dup(1); n = os.dup2(f.fileno(), 1)",
                         "n = os.write(1, b'one'); n = os.dup2(kept, 1); n = os.write(1, b'raw\\n'); print(open('/tmp/out').read())")
    assert sorted(done.stdout.split()) == ["one", "raw"], done


@pytest.mark.parametrize("make, name", [
    ("import socket; x = socket.socketpair()", "(a socket)"),
    ("import os; x = os.pipe()", "(a pipe)"),
    ("import select; x = select.epoll()", "(epoll)"),
    ("import os; x = os.eventfd(0)", "(eventfd)"),
    ("import os; x = os.memfd_create('bee')", "(memory that looks like a file)"),
    ("import tempfile; x = tempfile.TemporaryFile()", "no name any more"),
    ("import os; x = open('/tmp/bee', 'w'); os.remove('/tmp/bee')", "(/tmp/bee, which has no name any more)"),
    ("import os; x = open('/tmp/bee', 'w'); os.rename('/tmp/bee', '/tmp/two'); y = open('/tmp/bee', 'w'); os.rename('/tmp/two', '/tmp/bee')",
     "(/tmp/bee, which has no name any more)"),
    ("import os; x = os.open('/proc/self', os.O_RDONLY)", "which is about this process"),
    ("import sqlite3; x = sqlite3.connect('/tmp/bee'); y = x.execute('create table t(a)')", "(the database /tmp/bee)"),
    ("import sqlite3; x = sqlite3.connect('/tmp/bee')", "(the database /tmp/bee)"),
    ("import mmap; f = open('/tmp/bee', 'w+'); f.truncate(2); x = mmap.mmap(f.fileno(), 2, access=mmap.ACCESS_READ); f.close()", "memory is shared, which a copy would go on sharing: /tmp/bee"),
])
def test_what_a_copy_cannot_have_is_named(make, name):
    done = session(make + "\n:fork\nprint('on')\n")
    assert "cannot be forked" in done.stderr and name in done.stderr and done.stdout.endswith("on\n"), done


def test_database_in_memory_is_copied():
    done = fork_and_back("import sqlite3; c = sqlite3.connect(':memory:'); r = c.execute('create table t(a)')",
                         "r = c.execute('insert into t values (5)'); print(c.execute('select * from t').fetchall())")
    assert done.stdout == "[(5,)]\n", done


# ---- what is waited for ----

def test_timer_goes_on_with_what_was_left_when_the_copy_runs():
    done = fork_and_back("import signal, time; fired = []; s = signal.signal(signal.SIGALRM, lambda *_: fired.append(1)); s = signal.setitimer(signal.ITIMER_REAL, 5)",
                         "print(0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 5); s = signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(0.1); print(fired)")
    assert done.stdout == "True\n[1]\n", done


def test_timer_does_not_end_a_point_that_sleeps():
    done = session("import signal, time; s = signal.setitimer(signal.ITIMER_REAL, 0.5)\n:fork\ns = signal.setitimer(signal.ITIMER_REAL, 0)\n"
                   "time.sleep(1)\n:back\ns = signal.setitimer(signal.ITIMER_REAL, 0); print(0 < s[0] <= 0.5)\n")
    assert done.stdout == "True\n", done


def test_await_works_in_copies_of_what_has_awaited():
    done = fork_and_back("import asyncio\nawait asyncio.sleep(0)", "print(await asyncio.sleep(0, 'one'))\n:fork\n:back\nprint(await asyncio.sleep(0, 'two'))\n"
                         ":back\nprint(await asyncio.gather(asyncio.sleep(0, 3), asyncio.sleep(0, 4)))")
    assert done.stdout == "one\ntwo\n[3, 4]\n", done


def test_parent_goes_on_with_its_own_loop():
    done = session("import asyncio\nloop = await asyncio.sleep(0, 1) and asyncio.get_running_loop()\n:fork\n"
                   "print(await asyncio.sleep(0, 'one'), loop.is_closed())\n")
    assert done.stdout == "one False\n", done


def test_tasks_that_are_pending_are_named():
    text = "import asyncio\nasync def f(): global t; t = asyncio.create_task(asyncio.sleep(9), name='bee')\n\nawait f()\n:fork\n"
    done = session(text + "t.cancel()\nawait asyncio.sleep(0)\n:fork\n:back\nprint(await asyncio.sleep(0, 'on'))\n")
    assert "1 tasks of asyncio are pending: bee" in done.stderr and done.stdout == "True\non\n", done
    done = session("import asyncio\nc = await asyncio.sleep(0, 1) and asyncio.get_running_loop().call_later(9, print)\n:fork\n")
    assert "calls of asyncio are pending" in done.stderr and "print" in done.stderr, done


# ---- what outlives what ----

DEATHS = {"exit": "os._exit(1)", "signal": "os.kill(os.getpid(), 9)", "memory": "y = b'x' * (1 << 30)",
          "denied_syscall": "import ctypes; ctypes.CDLL(None).mount(0, 0, 0, 0, 0)"}


@pytest.mark.parametrize("cause", DEATHS)
def test_points_outlive_the_interpreter_that_they_came_from(cause):
    done = session(f"import os; x = 1\n:fork a\nx = 2\n:fork b\nx = 3\n{DEATHS[cause]}\nprint(x)\n{DEATHS[cause]}\nprint(x)\n:back a\nprint(x)\n"
                   ":fork c\nx = 4\n:back c\nprint(x)\n:back b\nprint(x)\n", "--memory", "128M")
    assert done.stdout == "2\n2\n1\n1\n2\n", done
    assert done.stderr.count(f"the interpreter died: {cause}") == 2 and done.stderr.count("back at the point 'b'") == 2, done


def test_nothing_of_a_dead_interpreter_runs_on_beside_its_points():
    """Neither children nor orphans of theirs: they would write into the file that the host shows."""
    done = session("import os, subprocess, time; x = 1\n:fork\n"
                   "p = subprocess.Popen(['sh', '-c', '(setsid sleep 0.5; echo stray) & sleep 9'], start_new_session=True); os._exit(0)\n"
                   "time.sleep(1); print(x)\n")
    assert done.stdout == "1\n" and "stray" not in done.stderr, done
