"""cloche repl: an interactive session in a box, by a pipe and on a terminal."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import box
import pytest


def script(text, *options, engine="container", directory=None):
    """What comes through a pipe, as a file would be."""
    return subprocess.run([box.CLOCHE, "repl", "--isolation", engine, *options], input=text, text=True, timeout=60,
                          capture_output=True, cwd=directory)


def session(text, *options, **how):
    """As if somebody typed it."""
    return script(text, "--lines", *options, **how)


def test_values_blocks_and_errors(engine):
    done = session("x = 20\nx + 1\nfor i in range(2):\n    print(i)\n\n1 / 0\n'still ' + 'here'\n", engine=engine)
    assert (done.returncode, done.stdout) == (0, "21\n0\n1\n'still here'\n"), done
    assert "ZeroDivisionError" in done.stderr and '"<run 4>", line 1' in done.stderr and "runner" not in done.stderr


def test_input_that_ends_inside_a_block_is_run(engine):
    assert session("if True:\n    print('ran')", engine=engine).stdout == "ran\n"


def test_exit_and_quit_end_the_session():
    assert session("print(1)\nexit()\nprint(2)\n").stdout == "1\n"
    done = session("print(1)\nimport sys; sys.exit('no data')\nprint(2)\n")
    assert (done.returncode, done.stdout, done.stderr) == (1, "1\n", "no data\n")
    assert session("print(1)\n:quit\nprint(2)\n").stdout == "1\n"


def test_pipe_is_one_piece_with_empty_lines_where_a_file_may_have_them(engine):
    done = script("class A:\n    x = 20\n\n    y = 21\n\nA.x\nif A.x:\n    1\n\nelse:\n    2\nA.y", engine=engine)
    assert (done.returncode, done.stdout, done.stderr) == (0, "20\n21\n", "")


def test_orders_stand_between_the_pieces_of_a_pipe_and_not_in_texts():
    done = script("x = 1\n:fork\nx = 2\n:back\nprint(x)\ns = \"\"\"\n:quit\n\"\"\"\nprint(s)\n:quit\nprint('never')\n")
    assert (done.returncode, done.stdout) == (0, "1\n\n:quit\n\n"), done


@pytest.mark.parametrize("text,status,said", [
    ("print(1)\n1 / 0\nprint(2)\n:limits\n", 1, "ZeroDivisionError"), ("print(1)\nimport sys\nsys.exit(4)\nprint(2)\n", 4, ""),
    ("print(1)\nimport sys\nsys.exit('no data')\n", 1, "no data\n"), ("print(1)\nimport os\nos._exit(3)\n:limits\n", 3, "died: exit 3\n"),
    ("print(1)\nimport os\nos.kill(os.getpid(), 11)\n", 139, "died: signal 11 (SIGSEGV)\n"), ("print(1)\nexit(251)\n", 249, ""),
    ("print(1)\nimport time\ntime.sleep(30)\n:limits\n", 137, "its time is over (--wall)")])
def test_pipe_ends_at_the_first_error_with_its_status(text, status, said, engine):
    done = script(text, "--wall", "1500ms", engine=engine)
    assert (done.returncode, done.stdout) == (status, "1\n") and said in done.stderr, done


def test_interrupted_pipe_is_not_run_by_half():
    with subprocess.Popen([box.CLOCHE, "repl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=0) as repl:
        repl.stdin.write("print('on')\n:help\nprint('half')\n")
        assert repl.stdout.readline() == "on\n" and repl.stdout.readline().startswith(":help")
        os.kill(repl.pid, signal.SIGINT)
        time.sleep(0.3)
        out, _ = repl.communicate(timeout=30)
        assert repl.returncode == 130 and "half" not in out, out


def test_interrupt_ends_what_came_through_a_pipe():
    with subprocess.Popen([box.CLOCHE, "repl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=0) as repl:
        repl.stdin.write("import time\nprint('on')\ntime.sleep(20)\n:help\n")
        assert repl.stdout.readline() == "on\n"
        os.kill(repl.pid, signal.SIGINT)
        out, err = repl.communicate(timeout=30)
        assert (repl.returncode, out) == (130, "") and "KeyboardInterrupt" in err


def test_figures_are_saved_beside_what_is_there(tmp_path):
    (tmp_path / "cloche-1.png").write_text("mine")
    done = session("import matplotlib.pyplot as plt\nplt.plot([1, 2]);\n", "--save", str(tmp_path))
    assert "cloche-2.png" in done.stdout, done
    assert (tmp_path / "cloche-1.png").read_text() == "mine"
    assert (tmp_path / "cloche-2.png").read_bytes().startswith(b"\x89PNG")


def test_figure_grows_line_by_line(tmp_path):
    done = session("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nn = ax.plot([1, 2])\nt = plt.title('x')\n1\nplt.savefig('saved.png')\n"
                   "len(set(map(tuple, plt.imread('saved.png').reshape(-1, 4)))) > 2\n", "--save", str(tmp_path / "made" / "here"))
    assert done.stdout.splitlines()[-2:] == ["1", "True"] and done.stdout.count("saved as") == 2, done
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (tmp_path / "made" / "here").iterdir())


def test_texts_with_a_form_are_shown_as_text(tmp_path):
    done = session("import cloche\ncloche.Markdown('*m*')\ncloche.Latex('$x$')\ncloche.JSON({'k': 1})\n"
                   "class Foreign:\n    _repr_markdown_ = lambda self: '*f*'\n\nForeign()\n", directory=tmp_path)
    assert done.stdout == "*m*\n$x$\n{\"k\": 1}\n*f*\n" and os.listdir(tmp_path) == [], done


def test_files_of_the_session_are_collected(tmp_path, engine):
    where = tmp_path / "new" / "out"
    done = script("import os\nopen('r.csv', 'w').write('1,2');\nos.mkdir('d'); open('d/a', 'w').write('a'); os.symlink('/etc/passwd', 'link')\n",
                  "-o", str(where), engine=engine)
    assert sorted(str(path.relative_to(where)) for path in where.rglob("*")) == ["d", "d/a", "r.csv"], done
    assert (where / "r.csv").read_text() == "1,2" and "not collected: link: not a regular file" in done.stderr, done


def test_limits_of_collection_hold_for_a_session(tmp_path):
    done = script("for n in range(4): open(str(n), 'w').close()\n:limits\n", "--output", str(tmp_path), "--collect-files", "2")
    assert len(os.listdir(tmp_path)) == 2 and done.stderr.count("more files than collect_files allows") == 2, done
    assert "collect_files" in done.stdout and "collect_files" not in script(":limits\n").stdout


def test_files_are_collected_before_an_interpreter_is_replaced_and_of_the_branch_that_was_kept(tmp_path):
    done = session("def w(name): open(name, 'w').close()\n\nw('restarted')\n:restart\ndef w(name): open(name, 'w').close()\n\n"
                   "w('died')\nimport os; os._exit(3)\ndef w(name): open(name, 'w').close()\n\nw('shared')\n:fork\nw('lost')\n:back\nw('kept')\n",
                   "--output", str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["died", "kept", "restarted", "shared"], done


def test_pictures_lie_where_the_files_go(tmp_path):
    done = script("import matplotlib.pyplot as plt\nplt.plot([1, 2]);\nplt.savefig('own.png')\n", "--output", str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["cloche-1.png", "own.png"], done


def test_output_that_cannot_be_had_starts_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    for option in ("--output", "--save"):
        done = script("print(1)\n", option, str(tmp_path / "file" / "d"))
        assert done.returncode == box.BAD_SPEC and done.stdout == "" and "file/d" in done.stderr, done


def test_output_over_the_limit_is_cut_and_not_dropped(engine):
    done = script("print('x' * 20_000)\n", "--output-limit", "5000", engine=engine)
    assert done.stdout == "x" * 5000 and "15001 bytes of output were left out" in done.stderr, done
    done = script("print('\u20ac' * 20_000)\n", "--output-limit", "5000", engine=engine)
    assert done.stdout == "\u20ac" * 1666, done  # and no character is cut


def test_interpreter_that_finds_no_room_says_so():
    done = script("", "--memory", "8M")
    assert done.returncode == box.BAD_SPEC and "the interpreter ended before it was ready: memory, the memory limit was reached" in done.stderr, done


def test_data_frames_are_shown_as_text(tmp_path):
    done = session("import pandas as pd\npd.DataFrame({'a': [1, 2]})\n", directory=tmp_path)
    assert "0  1" in done.stdout and os.listdir(tmp_path) == []


def test_death_is_told_and_a_new_interpreter_started(engine):
    done = session("x = 1\nimport os; os._exit(3)\ntry: x\nexcept NameError: print('gone')\n\n", engine=engine)
    assert "the interpreter died: exit 3\n" in done.stderr and "gone" in done.stdout, done


def test_memory_limit_is_named():
    done = session("x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1\n\n", "--memory", "128M")
    assert "memory limit was reached" in done.stderr, done


def test_run_that_takes_too_long_is_interrupted(engine):
    done = session("import time\ntime.sleep(30)\nprint('next')\n", "--wall", "500ms", engine=engine)
    assert "its time is over" in done.stderr and done.stdout == "next\n", done


def test_wrong_options_start_nothing():
    done = session("", "--memory", "lots")
    assert done.returncode == box.BAD_SPEC and "lots" in done.stderr
    done = session("", "--runs", "none")
    assert done.returncode == box.BAD_SPEC and "none" in done.stderr
    done = session("", "file.py")
    assert done.returncode == box.BAD_SPEC and "options only" in done.stderr


def test_wrong_times_and_numbers_start_nothing():
    for option, value in (("--idle", "soon"), ("--lifetime", "0"), ("--runs", "0"), ("--runs", "9999999999"), ("--cpu", "x")):
        done = session("print(1)\n", option, value)
        assert done.returncode == box.BAD_SPEC and value in done.stderr and not done.stdout, done


def test_unknown_order_gets_a_suggestion():
    done = session(":limit\n:nope\n")
    assert "':limit'; did you mean :limits?" in done.stderr and "':nope'; :help lists them" in done.stderr


def test_help_lists_every_order():
    shown = session(":help\n").stdout
    assert [line.split()[0] for line in shown.splitlines() if line.startswith(":")] == \
        [":help", ":limits", ":fork", ":back", ":restart", ":quit"]


def test_limits_show_what_is_used_and_what_is_allowed(engine):
    shown = session("x = bytearray(60 << 20)\n:limits\n", "--memory", "300M", "--pids", "32", "--wall", "7s", "--runs", "9",
                    "--lifetime", "90s", engine=engine).stdout
    cells = {line.split()[0]: [cell.strip() for cell in line[13:].split("  ") if cell.strip()] for line in shown.splitlines()}
    number, unit = cells["memory"][0].split()
    assert unit == "MiB" and 60 < float(number) < 200 and cells["memory"][1] == "300 MiB"
    assert cells["pids"] == ["1", "32"] and cells["wall"] == ["-", "7 s", "each run"] and cells["runs"] == ["1", "9"]
    assert cells["lifetime"][1] == "90 s"


def test_restart_empties_the_interpreter_and_gives_all_its_runs_again(engine):
    done = session("x = 1\nopen('f', 'w').close()\n:restart\nimport os; print('x' in globals(), os.path.exists('f'))\n",
                   "--runs", "2", engine=engine)
    assert done.stdout == "False False\n" and "a new interpreter was started" in done.stderr, done


# ---- points ----

POINT = "x = 1\nimport os; n = open('f', 'w').write('one')\n"


def test_back_returns_to_the_point_as_often_as_one_likes():
    done = session(POINT + ":fork\nx = 2; n = open('f', 'w').write('two'); os.chdir('/tmp')\n:back\nprint(x, open('f').read(), os.getcwd())\n"
                   "x = 3; os.remove('f')\n:back\nprint(x, open('f').read())\n:b\nprint(x)\n")
    assert (done.returncode, done.stdout) == (0, "1 one /data/output\n1 one\n1\n"), done
    assert "kept; :back returns here" in done.stderr


def test_points_have_names():
    done = session("x = 1\n:fork one\nx = 2\n:fork two\nx = 3\n:back one\nprint(x)\n:back two\nprint(x)\n:back\nprint(x)\n"
                   ":fork one\n:back one\nprint(x)\n")
    assert done.stdout == "1\n2\n2\n2\n", done  # a name is for one point, the last
    assert "kept as 'one'; :back one returns here" in done.stderr


def test_point_that_is_not_there_is_named():
    done = session("x = 1\n:back\n:back here\nprint(x)\n:fork\n:back here\nprint(x)\n")
    assert "no point is kept; :fork keeps one" in done.stderr and "there is no point 'here'; :fork here keeps one" in done.stderr
    assert done.stdout == "1\n1\n"


def test_names_of_points_are_whole_or_refused():
    name, too_long = "n" * 63, "n" * 64
    done = session(f"x = 1\n:fork {name}\nx = 2\n:back {name}\nprint(x)\n:fork {too_long}\nprint(x)\n")
    assert done.stdout == "1\n1\n" and "at most 63 bytes" in done.stderr, done
    done = session("x = 1\n:fork a  \nx = 2\n:back a\nprint(x)\n")  # blanks at the end are none of it
    assert done.stdout == "1\n", done


def test_restart_forgets_the_points():
    done = session("x = 1\n:fork here\n:back here\n:fork again\n:restart\nprint('x' in globals())\n:back here\ny = 5\n:fork\ny = 6\n:back\nprint(y)\n")
    assert done.stdout == "False\n5\n" and "the points that were kept are gone too" in done.stderr, done
    assert "there is no point 'here'" in done.stderr and "a new interpreter was started" in done.stderr


def test_what_cannot_be_kept_is_named_and_the_session_goes_on():
    done = session("import threading; go = threading.Event(); t = threading.Thread(target=go.wait, name='bee'); t.start()\n:fork\n"
                   "go.set(); t.join()\nx = 1\n:fork\nx = 2\n:back\nprint(x)\n")
    assert "bee" in done.stderr and done.stdout == "1\n", done
    done = session("x = 1\n:fork\nprint(x)\n", engine="process")
    assert "isolation 'process'" in done.stderr and done.stdout == "1\n", done


def test_death_after_back_returns_to_the_point():
    done = session("x = 1\n:fork\n:back\nx = 2; import os; os._exit(3)\nprint(x)\n:fork\n:back\nprint('on')\n")
    assert done.stdout == "1\non\n" and "the interpreter died" in done.stderr, done
    assert "back at the point that was kept last" in done.stderr and "gone" not in done.stderr, done
    done = session("x = 1\n:fork\nimport os; os._exit(3)\n:restart\nprint('x' in globals())\nos._exit(3)\n:back\nprint('on')\n")
    assert done.stdout == "False\non\n" and "no point is kept" in done.stderr, done


def test_more_points_than_are_kept():
    done = session("".join(f"x = {n}\n:fork p{n}\n" for n in range(34)) + ":back p0\n:back p1\n:back p2\nprint(x)\n:back p33\nprint(x)\n")
    assert done.stdout == "2\n33\n" and done.stderr.count("the oldest goes") == 2, done
    assert "there is no point 'p0'" in done.stderr and "there is no point 'p1'" in done.stderr


def test_generations_of_points_come_to_an_end_that_is_told():
    done = session("x = 0\n" + "x += 1\n:fork\n:back\n" * 31 + "print(x)\n", "--memory", "256M")
    assert done.stdout == "28\n" and done.stderr.count("generations of forks already, and a point could not be returned to") == 3, done


def below(pid):
    """All processes below one: forks of boxes are children of those who forked them."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children") as file:
                children = [int(child) for child in file.read().split()]
            found += children + [one for child in children for one in below(child)]
        except OSError:
            pass  # it has just ended
    return found


def test_nothing_of_the_points_is_left_after_the_session():
    repl = subprocess.Popen([box.CLOCHE, "repl", "--lines"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    repl.stdin.write("x = 1\n:fork a\n:back a\n:fork b\n:back a\nprint('there')\n")
    repl.stdin.flush()
    assert repl.stdout.readline() == "there\n"
    watched = [os.pidfd_open(pid) for pid in below(repl.pid)]
    assert len(watched) >= 8  # four boxes that live, each with an init and an interpreter
    _, err = repl.communicate(timeout=30)
    assert repl.returncode == 0, err
    for fd in watched:
        assert select.select([fd], [], [], 5)[0], "a process is left"
        os.close(fd)


def test_pipe_ends_when_the_runs_are_used_up():
    done = session("print(1)\nprint(2)\nprint(3)\nprint(4)\n", "--runs", "2")
    assert done.stdout == "1\n2\n" and done.stderr.count("all its 2 runs") == 1
    assert done.returncode == box.BAD_SPEC  # there were more


def test_run_that_uses_up_its_cpu_is_interrupted():
    done = session("while True: pass\n\nprint('next')\n", "--cpu", "300ms")
    assert "its time is over (--cpu)" in done.stderr and done.stdout == "next\n", done


def test_idle_interpreter_ends_and_is_replaced():
    repl = subprocess.Popen([box.CLOCHE, "repl", "--lines", "--idle", "500ms"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    repl.stdin.write("x = 1\n")
    repl.stdin.flush()
    time.sleep(3)
    out, err = repl.communicate("print('lost')\nprint('x' in globals())\n", timeout=30)
    assert out == "False\n" and "it was idle for 500 ms" in err and "a new interpreter was started" in err, (out, err)


def test_pipe_keeps_no_history(tmp_path):
    subprocess.run([box.CLOCHE, "repl"], input="1 + 1\n", text=True, env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
                   stdout=subprocess.DEVNULL, timeout=60, check=True)
    assert os.listdir(tmp_path) == []


# ---- on a terminal ----

UP, INTERRUPT, END = b"\x1b[A", b"\x03", b"\x04"
PROMPT = rb">>> "


class Terminal:
    """A session on a pseudo-terminal; what is read is looked at once."""

    def __init__(self, state, *options, columns=120, command=(box.CLOCHE, "repl")):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(XDG_STATE_HOME=str(state), TERM="xterm", LANG="C.UTF-8", PS1=">>> ")
            os.execv(command[0], [*map(str, command), *options])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.unread = b""
        self.modes = termios.tcgetattr(self.fd)
        self.until(PROMPT)

    def until(self, wanted, seconds=20):
        deadline = time.monotonic() + seconds
        while not (found := re.search(wanted, self.unread)):
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], f"{wanted} did not come: {self.unread}"
            try:
                self.unread += os.read(self.fd, 4096)
            except OSError:
                raise AssertionError(f"it ended before {wanted} came: {self.unread}")
        seen, self.unread = self.unread[:found.end()], self.unread[found.end():]
        return seen

    def type(self, keys):
        os.write(self.fd, keys)

    def say(self, line, wanted):
        """Types a line, and waits for what it brings and for the next prompt."""
        self.type(line + b"\n")
        return self.until(rb"\r\n[\s\S]*?" + wanted + rb"[\s\S]*?" + PROMPT)

    def end(self, keys=END):
        self.type(keys)
        deadline = time.monotonic() + 10
        while (done := os.waitpid(self.pid, os.WNOHANG)) == (0, 0):
            assert time.monotonic() < deadline, "it did not end"
            time.sleep(0.02)
        self.pid = None
        return os.waitstatus_to_exitcode(done[1])

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def open_terminal(*options, state=tmp_path, **how):
        opened.append(Terminal(state, *options, **how))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.close()


def test_prompts_and_interrupt_on_a_terminal(terminal):
    one = terminal()
    one.type(b"if 1:\n")
    one.until(rb"\.\.\. ")
    one.type(b"    6 * 7\n\n")
    one.until(PROMPT)
    one.type(b"import time; print('o' + 'n'); time.sleep(60)\n")
    one.until(rb"\non\r\n")
    one.type(INTERRUPT)
    one.until(rb"KeyboardInterrupt[\s\S]*>>> ")
    one.say(b"'ali' + 've'", rb"'alive'\r\n")
    assert one.end() == 0


def test_terminal_is_left_as_it_was_found(terminal):
    one = terminal()
    one.say(b"'ali' + 've'", rb"'alive'")
    assert termios.tcgetattr(one.fd) != one.modes  # while a line is edited: or this test would see nothing
    assert one.end() == 0
    assert termios.tcgetattr(one.fd) == one.modes


def test_interrupt_at_the_prompt_clears_what_was_typed(terminal):
    one = terminal()
    one.type(b"print('never')")
    one.until(rb"never'\)")
    one.type(INTERRUPT)
    one.until(rb"\^C\r\n[\s\S]*>>> ")
    one.type(b"if 1:\n")
    one.until(rb"\.\.\. ")
    one.type(b"    print('never')" + INTERRUPT)
    one.until(rb"\^C\r\n[\s\S]*>>> ")  # the whole block is forgotten
    seen = one.say(b"'ali' + 've'", rb"'alive'")
    assert b"\nnever" not in seen and b"KeyboardInterrupt" not in seen
    assert one.end() == 0


def test_session_can_be_suspended(terminal):
    shell = terminal(command=("/bin/bash", "--norc", "-i"))
    shell.type(b"%s repl\n" % bytes(box.CLOCHE))
    shell.until(rb":help for help[\s\S]*>>> ")
    shell.say(b"x = 5", rb"")
    shell.type(b"x + 1\x1a")
    shell.until(rb"Stopped[\s\S]*>>> ")
    shell.say(b"echo $((6 * 7))", rb"42\r\n")
    shell.type(b"fg\n")
    shell.until(rb">>> x \+ 1")  # what was typed is there again
    shell.say(b"0", rb"15\r\n")
    shell.type(END)
    shell.until(PROMPT)
    shell.say(b"stty -a | grep -c '^isig icanon'", rb"1\r\n")


def test_second_interrupt_ends_an_interpreter_that_does_not_listen(terminal):
    one = terminal()
    one.say(b"import time", rb"")
    one.type(b"while 1:\n    try: print('o' + 'n'); time.sleep(60)\n    except KeyboardInterrupt: pass\n\n")
    one.until(rb"on\r\n")
    one.type(INTERRUPT)
    one.until(rb"on\r\n")
    time.sleep(1.2)
    one.type(INTERRUPT)
    one.until(rb"the interpreter died: cancelled[\s\S]*a new interpreter was started[\s\S]*>>> ")
    one.say(b"'ali' + 've'", rb"'alive'")


def test_lines_of_before_come_back(terminal):
    one = terminal()
    one.say(b"40 + 1", rb"41\r\n")
    one.say(b"50 + 1", rb"51\r\n")
    one.say(UP + UP + b"00", rb"140\r\n")  # edited: 40 + 100
    assert one.end() == 0


def test_history_is_kept_for_the_next_session_and_for_nobody_else(terminal, tmp_path):
    old_mask = os.umask(0)
    try:
        one = terminal()
        other = terminal()  # at the same time
        one.say("gr\u00fc\u00dfe = 'hello'".encode(), rb"")
        other.say(b"60 + 1", rb"61\r\n")
        assert one.end() == other.end() == 0
    finally:
        os.umask(old_mask)
    file = tmp_path / "cloche" / "repl_history"
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    later = terminal()
    later.say(UP, rb"61\r\n")
    later.say(UP + UP, rb"")
    later.say("gr\u00fc\u00dfe + '!'".encode(), rb"'hello!'")
    assert later.end() == 0


def test_block_comes_back_whole(terminal):
    rows = rb"\nrow 0 10\r\nrow 0 11\r\nrow 1 10\r\nrow 1 11\r\n[\s\S]*>>> "
    one = terminal()
    one.type(b"for i in range(2):\n    for j in range(2):\n    \tprint('row', i, j + 10)\n\n")
    one.until(rows)
    one.type(UP + b"\n")  # from memory
    one.until(rows)
    assert one.end() == 0
    again = terminal()
    again.type(UP + b"\n")  # from the file
    again.until(rows)
    assert again.end() == 0


def test_history_that_cannot_be_kept_is_no_reason_to_fail(terminal, tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "cloche").mkdir()
    (tmp_path / "cloche" / "repl_history").symlink_to(tmp_path / "elsewhere")
    one = terminal()
    one.say(b"'ali' + 've'", rb"'alive'")
    assert one.end() == 0
    assert (tmp_path / "elsewhere").read_text() == "mine"
    two = terminal(state=tmp_path / "elsewhere")  # a file where a directory should be
    two.say(b"'ali' + 've'", rb"'alive'")
    assert two.end() == 0


def test_long_history_is_shortened(terminal, tmp_path):
    (tmp_path / "cloche").mkdir()
    file = tmp_path / "cloche" / "repl_history"
    file.write_text("_HiStOrY_V2_\n" + "".join(f"{number}\n" for number in range(5000)))
    one = terminal()
    one.type(UP)
    one.until(rb"4999")
    one.type(INTERRUPT)
    one.until(PROMPT)
    assert one.end() == 0
    lines = file.read_text().splitlines()
    assert len(lines) == 1001 and lines[1] == "4000" and lines[-1] == "4999" and file.stat().st_mode & 0o777 == 0o600


def test_long_run_shows_how_far_it_is(terminal):
    one = terminal("--wall", "20s")
    one.type(b"import cloche, time; cloche.progress(0.4, 'read\\x1b[31ming\\nfiles'); time.sleep(1.5); 'do' + 'ne'\n")
    seen = one.until(rb"'done'")
    lines = re.findall(rb"\r\x1b\[K([^\r]*s of 20 s [^\r]*)", seen)
    assert 2 <= len(lines) <= 6, seen
    assert all(b"40 % read^[[31ming files" in line and b"memory" in line for line in lines), lines
    assert float(re.search(rb"([\d.]+) s of", lines[0])[1]) < 1.2
    assert seen.rindex(b"\r\x1b[K") > seen.rindex(lines[-1])  # it is gone before the result comes
    one.until(PROMPT)
    assert b" of 20 s" not in one.say(b"time.sleep(0.2); 'sh' + 'ort'", rb"'short'")


def test_progress_fits_a_narrow_terminal(terminal):
    one = terminal(columns=30)
    one.type("import cloche, time; cloche.progress(0.4, '\u20ac' * 9); time.sleep(1.2); 'do' + 'ne'\n".encode())
    lines = re.findall(rb"\r\x1b\[K([^\r\x1b]*40 %[^\r\x1b]*)", one.until(rb"'done'"))
    assert lines and all(len(line.decode()) < 30 for line in lines), lines


def test_orders_on_a_terminal(terminal):
    one = terminal()
    one.say(b"x = 1", rb"")
    one.say(b":limits", rb"memory +[\d.]+ MiB +512 MiB")
    one.say(b":restart", rb"a new interpreter was started")
    one.say(b"'x' in globals()", rb"False\r\n")
    one.type(UP + UP)
    one.until(rb":restart")
    one.type(INTERRUPT)
    one.until(PROMPT)
    assert one.end(b":quit\n") == 0


def test_exit_status_is_that_of_exit_on_a_terminal(terminal):
    one = terminal()
    one.say(b"1 / 0", rb"ZeroDivisionError")
    assert one.end(b"exit(4)\n") == 4


def test_tqdm_leaves_nothing_behind_that_cannot_be_copied():
    """A thread of its own, or a lock that processes share."""
    pytest.importorskip("tqdm")
    done = session("from tqdm import tqdm\nfor i in tqdm(range(2)): pass\n\nx = 1\n:fork\nx = 2\n:back\nprint(x)\n")
    assert done.stdout.rstrip().endswith("1") and "cannot" not in done.stderr, done
