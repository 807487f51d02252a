"""cloche repl: an interactive session in a box, by a pipe and on a terminal."""
import os
import pty
import re
import signal
import subprocess
import time

import box


def session(text, *options, engine="container", directory=None):
    return subprocess.run([box.CLOCHE, "repl", "--isolation", engine, *options], input=text, text=True, timeout=60,
                          capture_output=True, cwd=directory)


def test_values_blocks_and_errors(engine):
    done = session("x = 20\nx + 1\nfor i in range(2):\n    print(i)\n\n1 / 0\n'still ' + 'here'\n", engine=engine)
    assert (done.returncode, done.stdout) == (0, "21\n0\n1\n'still here'\n"), done
    assert "ZeroDivisionError" in done.stderr and '"<run 4>", line 1' in done.stderr and "runner" not in done.stderr


def test_input_that_ends_inside_a_block_is_run(engine):
    assert session("if True:\n    print('ran')", engine=engine).stdout == "ran\n"


def test_exit_and_quit_end_the_session():
    assert session("print(1)\nexit()\nprint(2)\n").stdout == "1\n"
    assert session("print(1)\n:quit\nprint(2)\n").stdout == "1\n"


def test_figures_are_saved_beside_what_is_there(tmp_path):
    (tmp_path / "cloche-1.png").write_text("mine")
    done = session("import matplotlib.pyplot as plt\nplt.plot([1, 2]);\n", "--save", str(tmp_path))
    assert "cloche-2.png" in done.stdout, done
    assert (tmp_path / "cloche-1.png").read_text() == "mine"
    assert (tmp_path / "cloche-2.png").read_bytes().startswith(b"\x89PNG")


def test_data_frames_are_shown_as_text(tmp_path):
    done = session("import pandas as pd\npd.DataFrame({'a': [1, 2]})\n", directory=tmp_path)
    assert "0  1" in done.stdout and os.listdir(tmp_path) == []


def test_death_is_told_and_a_new_interpreter_started(engine):
    done = session("x = 1\nimport os; os._exit(3)\ntry: x\nexcept NameError: print('gone')\n\n", engine=engine)
    assert "the interpreter died" in done.stderr and "gone" in done.stdout, done


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


def test_unknown_colon_command_is_refused():
    assert ":nope" in session(":nope\n").stderr
    assert ":quit" in session(":help\n").stdout


def read_until(terminal, wanted, seconds=20):
    seen, deadline = b"", time.monotonic() + seconds
    while not re.search(wanted, seen) and time.monotonic() < deadline:
        try:
            seen += os.read(terminal, 4096)
        except OSError:
            break
    assert re.search(wanted, seen), seen
    return seen


def test_prompts_and_interrupt_on_a_terminal():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(box.CLOCHE, [str(box.CLOCHE), "repl"])
    try:
        read_until(terminal, rb">>> ")
        os.write(terminal, b"if 1:\n")
        read_until(terminal, rb"\.\.\. ")
        os.write(terminal, b"    6 * 7\n\n")
        read_until(terminal, rb">>> ")
        os.write(terminal, b"import time; print('on'); time.sleep(60)\n")
        read_until(terminal, rb"\non\r\n")
        os.write(terminal, b"\x03")
        read_until(terminal, rb"KeyboardInterrupt[\s\S]*>>> ")
        os.write(terminal, b"'alive'\n")
        read_until(terminal, rb"\n'alive'\r\n")
        os.write(terminal, b"\x04")
        deadline = time.monotonic() + 10
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            assert time.monotonic() < deadline, "it did not end"
            time.sleep(0.05)
        pid = None
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)
