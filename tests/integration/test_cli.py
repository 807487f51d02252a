"""The command line itself: help, man page, suggestions, terminals."""
import os
import pty
import re
import select
import signal
import subprocess
import time

import box
import pytest
from terminal import on_terminal

COMMANDS = ("run", "repl", "doctor", "image", "reap")
ESCAPE = b"\x1b"


def test_overview_lists_every_command():
    for args in (("help",), ("--help",), ("-h",)):
        done = box.raw(*args)
        assert done.returncode == 0 and done.stderr == b""
        for command in COMMANDS:
            assert f"cloche {command}".encode() in done.stdout
        for code in (b"249", b"250", b"251", b"252", b"128+N"):
            assert code in done.stdout


def test_overview_has_its_columns_in_line():
    lines = [line for line in box.raw("help").stdout.decode().splitlines() if line.startswith("  cloche ")]
    usages = lines[:next(i for i, line in enumerate(lines) if "--server URL" in line) + 1]
    starts = {re.match(r".*?\S(  +)(?=\S)", line[2:]).end() for line in usages}
    assert len(usages) > 10 and len(starts) == 1, usages


def test_no_command_shows_the_overview_and_fails():
    done = box.raw()
    assert done.returncode == box.BAD_SPEC and b"cloche run" in done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(command):
    texts = {box.raw(*args).stdout for args in (("help", command), (command, "--help"), (command, "-h"))}
    assert len(texts) == 1
    text = texts.pop().decode()
    assert text.startswith("Usage: cloche " + command) and "--help" in text
    for line in text.splitlines():
        assert len(line) <= 120, line


def test_help_does_not_run_anything():
    done = box.raw("run", "-e", "print('ran')", "--help")
    assert done.returncode == 0 and b"ran\n" not in done.stdout


def options_of(command):
    text = box.raw("help", command).stdout.decode()
    return set(re.findall(r"^\s+(?:-\w, )?(--[\w-]+)", text, re.MULTILINE))


@pytest.fixture(scope="module")
def manual():
    path = box.BUILD / "cloche.1"
    done = subprocess.run(["man", "-l", "--warnings=w", "--no-hyphenation", str(path)], capture_output=True,
                          env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "PAGER": "cat"})
    assert done.returncode == 0
    return re.sub(".\x08", "", done.stdout.decode()), done.stderr.decode()


def test_man_page_renders_without_warnings(manual):
    text, warnings = manual
    assert warnings == ""
    for section in ("NAME", "SYNOPSIS", "COMMANDS", "CAUSES", "EXIT STATUS", "FILES"):
        assert f"\n{section}\n" in text, section


def test_man_page_is_ascii():
    """Whatever the reader's locale: groff leaves out what that does not have, with a warning."""
    assert (box.BUILD / "cloche.1").read_bytes().isascii()


def test_man_page_of_the_build_is_that_of_the_program():
    assert box.raw("man").stdout == (box.BUILD / "cloche.1").read_bytes()


def test_man_page_has_every_option_of_the_help(manual):
    text = manual[0].replace("‐", "-").replace("−", "-")
    for command in COMMANDS:
        options = options_of(command)
        assert options, command
        for option in options:
            assert re.search(re.escape(option) + r"\b", text), (command, option)


def test_man_page_has_causes_and_exit_codes(manual):
    text = manual[0]
    for word in ("wall_time", "denied_syscall", "host_failure", "249", "250", "251", "252", "/etc/cloche.conf", "isolation.min"):
        assert word in text, word


def test_man_page_has_defaults_and_ceilings(manual):
    text = " ".join(manual[0].split())
    assert "Default 512 MiB, ceiling 64 GiB" in text and "Default 30 s" in text


def test_every_documented_option_is_accepted(tmp_path):
    """Nothing in the help is a dead letter: each option is known to the parser."""
    for command in COMMANDS:
        for option in options_of(command):
            done = box.raw(command, option, "--help", cwd=tmp_path)  # which is a directory for some of them
            assert b"there is no option" not in done.stderr, (command, option)


@pytest.mark.parametrize("given, meant", [("rnu", "run"), ("docotr", "doctor"), ("images", "image"), ("raep", "reap")])
def test_unknown_command_suggests(given, meant):
    done = box.raw(given)
    assert done.returncode == box.BAD_SPEC and done.stdout == b""
    assert f"'{given}'".encode() in done.stderr and f"cloche {meant}".encode() in done.stderr


def test_unknown_command_without_a_likeness():
    done = box.raw("frobnicate")
    assert done.returncode == box.BAD_SPEC and b"frobnicate" in done.stderr and b"did you mean" not in done.stderr
    assert box.raw("help", "frobnicate").returncode == box.BAD_SPEC


@pytest.mark.parametrize("given, meant", [("--memroy", "--memory"), ("--wal", "--wall"), ("--isolaton", "--isolation"),
                                          ("--langauge=x", "--language"), ("--ouput", "--output"), ("--jsn", "--json")])
def test_unknown_option_suggests(given, meant):
    done = box.raw("run", given, "x", "-e", "print('ran')")
    assert done.returncode == box.BAD_SPEC and done.stdout == b""
    assert given.split("=")[0].encode() in done.stderr and meant.encode() + b"?" in done.stderr


def test_unknown_letter_is_named():
    done = box.raw("run", "-Z", "-e", "print('ran')")
    assert done.returncode == box.BAD_SPEC and b"-Z" in done.stderr and done.stdout == b""


def test_value_for_a_flag_is_refused():
    done = box.raw("run", "--json=yes", "-e", "1")
    assert done.returncode == box.BAD_SPEC and b"--json" in done.stderr


def test_letters_may_stand_together():
    done = box.raw("run", "-jq", "-e", "print(1)")
    assert done.returncode == 0 and done.stdout.startswith(b'{"exit_code":0')
    assert box.raw("run", "-qeprint(5)").stdout == b"5\n"


def test_version():
    for args in (("version",), ("--version",)):
        done = box.raw(*args)
        assert done.returncode == 0 and re.fullmatch(rb"cloche \d+\.\d+\.\d+\n", done.stdout)


def test_doctor_and_reap_refuse_what_they_do_not_know():
    for command in ("doctor", "reap"):
        assert box.raw(command, "--frobnicate").returncode == box.BAD_SPEC
        done = box.raw(command, "superfluous")
        assert done.returncode == box.BAD_SPEC and done.stderr, command


def test_image_refuses_what_it_does_not_know():
    done = box.raw("image", "frobnicate")
    assert done.returncode == box.BAD_SPEC and b"frobnicate" in done.stderr and b"import" in done.stderr


def test_quiet_has_no_closing_remarks(engine):
    args = ("--isolation", engine, "--wall", "300ms", "--output-limit", "10", "-e", "print('x' * 100); import time; time.sleep(9)")
    assert b"wall_time" in box.raw("run", *args).stderr
    done = box.raw("run", "--quiet", *args)
    assert (done.returncode, done.stdout, done.stderr) == (137, b"x" * 10, b"")


def test_cut_output_says_so_with_its_bytes(engine):
    done = box.raw("run", "--isolation", engine, "--output-limit", "10", "-e",
                   "import sys; sys.stdout.write('x' * 100); sys.stderr.write('y' * 30)")
    assert done.stdout == b"x" * 10 and b"90 bytes" in done.stderr and b"20 bytes" in done.stderr and b"cut" in done.stderr


# terminals

def test_progress_line_on_a_terminal(engine):
    code, seen, _ = on_terminal("run", "--isolation", engine, "--wall", "20s", "-e", "import time; x = bytearray(60 << 20); time.sleep(3)")
    assert code == 0
    text = seen.decode(errors="replace")
    lines = re.findall(r"(\d+\.\d) s of 20 s \| CPU (\d+\.\d) s of 30 s \| memory ([\d.]+) MiB of 512 MiB", text)
    assert len(lines) >= 3, seen
    assert 1.0 <= float(lines[0][0]) < 2.0 and float(lines[-1][0]) > 2.0
    assert 55 < max(float(line[2]) for line in lines) < 120
    assert seen.endswith(b"\r\x1b[K") or b"\r\x1b[K" in seen[-20:], "the line must be wiped at the end"


def test_no_progress_line_for_a_short_run():
    code, seen, _ = on_terminal("run", "-e", "print(1)")
    assert (code, seen) == (0, b"1\r\n")


def test_no_progress_line_when_piped(engine):
    done = box.raw("run", "--isolation", engine, "-e", "import time; time.sleep(1.3)")
    assert (done.stdout, done.stderr) == (b"", b"")
    code, seen, piped = on_terminal("run", "--isolation", engine, "-e", "import time; time.sleep(1.3)", stderr=False)
    assert (code, seen, piped) == (0, b"", b"")


def test_no_progress_line_with_quiet_or_json():
    assert on_terminal("run", "--quiet", "-e", "import time; time.sleep(1.3)")[1] == b""
    code, seen, piped = on_terminal("run", "--json", "-e", "import time; time.sleep(1.3)", stdout=False)
    assert seen == b"" and piped.startswith(b"{")


def test_progress_line_does_not_mix_with_output():
    code, seen, _ = on_terminal("run", "--wall", "20s", "-e",
                                "import time\nfor i in range(3): time.sleep(0.9 if i else 1.9); print('line', i)")
    text = seen.decode()
    assert re.search(r"s of 20 s", text)
    for i in range(3):
        before = text.split(f"line {i}\r\n")[0]
        assert before == "" or before.endswith(("\r\x1b[K", "\n")), text


def test_progress_line_stays_away_from_a_line_that_has_not_ended(engine):
    """A question, and what is typed behind it, are not wiped."""
    code, seen, _ = on_terminal("run", "--isolation", engine, "-e", "import time\nprint('name: ', end='', flush=True)\ntime.sleep(2)\nprint()\ntime.sleep(1.2)")
    assert code == 0 and seen.startswith(b"name: \r\n") and re.search(rb"s of 30 s", seen), seen


ESCAPES = {
    "colour": b"\x1b[31mred\x1b[0m", "title": b"\x1b]0;owned\x07", "clear": b"\x1b[2J\x1b[H", "report": b"\x1b[6n", "string": b"\x1bP$q\x1b\\",
    "clipboard": b"\x1b]52;c;YQ==\x07", "eight-bit": "\x9b31m".encode(), "bell": b"\x07", "backspace": b"safe\x08\x08\x08\x08evil",
    "delete": b"\x7f", "shift-out": b"\x0e", "vertical": b"\x0b\x0c", "nul": b"a\x00b", "raw-c1": b"\x9b31m", "link": b"\x1b]8;;http://x\x07y\x1b]8;;\x07",
}


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_terminal_escapes_never_reach_a_terminal_raw(name, stream):
    code, seen, _ = on_terminal("run", "-q", "-e", f"import sys; sys.{stream}.buffer.write(b'<' + {ESCAPES[name]!r} + b'>\\n')")
    assert code == 0 and b"<" in seen and b">" in seen
    assert not any(byte < 0x20 and byte not in b"\r\n\t" for byte in seen), seen
    assert b"\x7f" not in seen and "\x9b".encode() not in seen
    if name == "raw-c1":
        assert b"\x9b" not in seen.replace("›".encode(), b""), seen


def test_terminal_escape_cut_into_pieces_does_not_reach_a_terminal():
    """U+009B in two writes: the two bytes arrive one by one."""
    code, seen, _ = on_terminal("run", "-q", "-e", "import sys, time\nfor b in (b'<', b'\\xc2', b'\\x9b', b'31m', b'>'):\n"
                                "  sys.stdout.buffer.write(b); sys.stdout.buffer.flush(); time.sleep(0.1)")
    assert "\x9b".encode() not in seen, seen


def test_letters_of_all_the_world_reach_a_terminal():
    code, seen, _ = on_terminal("run", "-q", "-e", "print('naïve ✓ 漢字 🙂')")
    assert seen.decode() == "naïve ✓ 漢字 🙂\r\n"


def test_escapes_reach_a_pipe_as_they_are():
    assert box.raw("run", "-e", "print('\\x1b[31mred')").stdout == b"\x1b[31mred\n"


def test_escapes_in_messages_of_ours_do_not_reach_a_terminal(tmp_path):
    """File names, languages and options are the attacker's or the user's words."""
    evil = "x\x1b]0;owned\x07y"
    (tmp_path / (evil + ".py")).write_text("1")
    for args in (("run", "--language", evil, "-e", "1"), ("run", "--memory", evil, "-e", "1"), ("run", "--" + evil), (evil,),
                 ("run", tmp_path / "nothing" / evil), ("run", "--", evil), ("run", "--image", evil, "-e", "1"),
                 ("run", "-e", "import os; os.mkfifo('a\\x1b[31mb')"),
                 ("run", "-l", "c", "-e", "int main(void) { return '\x1b[31m'; }"), ("image", "remove", evil), ("image", evil)):
        code, seen, _ = on_terminal(*args)
        assert ESCAPE not in seen.replace(b"\r\x1b[K", b"") and b"\x07" not in seen, (args, seen)


def test_program_has_no_terminal_even_if_we_have_one(engine):
    """stdin, stdout and stderr are pipes inside; there is no controlling terminal to push characters into."""
    code, seen, _ = on_terminal("run", "-q", "--isolation", engine, "-e",
                                "import os\nprint([os.isatty(i) for i in range(3)])\ntry: os.open('/dev/tty', os.O_RDWR); print('tty')\nexcept OSError: print('none')")
    assert seen == b"[False, False, False]\r\nnone\r\n"


def test_ctrl_c_on_a_terminal_cancels():
    pid, master = pty.fork()
    if pid == 0:
        os.execv(str(box.CLOCHE), ["cloche", "run", "-e", "import time; print('up'); time.sleep(20)"])
    seen = b""
    while b"up" not in seen:
        seen += os.read(master, 1000)
    os.write(master, b"\x03")
    before = time.monotonic()
    try:
        while True:
            seen += os.read(master, 1000)
    except OSError:
        pass
    _, status = os.waitpid(pid, 0)
    os.close(master)
    assert time.monotonic() - before < 3
    assert os.waitstatus_to_exitcode(status) == -signal.SIGINT and b"cancelled" in seen, "a shell sees that it was Ctrl-C, and goes no further"


def test_what_is_typed_does_not_stop_a_run_in_the_background():
    """It goes to the shell in front; the run must not try to read it, and goes on watching its limits."""
    pid, master = pty.fork()
    if pid == 0:
        run = os.fork()
        if run == 0:
            os.setpgid(0, 0)
            os.execv(str(box.CLOCHE), ["cloche", "run", "--wall", "1s", "-q", "-e", "import time; print('up'); time.sleep(20)"])
        _, status = os.waitpid(run, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.kill(run, signal.SIGKILL)
        os._exit(99 if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status))
    os.write(master, b"typed\n")
    try:
        while os.read(master, 1000):
            pass
    except OSError:
        pass
    _, status = os.waitpid(pid, 0)
    os.close(master)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGKILL


# reap

def test_reap_has_nothing_to_do_after_clean_runs(engine):
    box.python("1", engine=engine)
    done = box.raw("reap")
    assert done.returncode == 0


def test_reap_removes_what_a_kill_left(engine):
    process = subprocess.Popen([box.CLOCHE, "run", "--isolation", engine, "--", "sleep", "77.125"])
    deadline = time.monotonic() + 5
    while subprocess.run(["pgrep", "-f", "^/usr/bin/sleep 77.125"], stdout=subprocess.DEVNULL).returncode and time.monotonic() < deadline:
        time.sleep(0.02)
    records = {record.split("-")[-1] for record in box.census()["records"]}
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.3)
    assert box.raw("reap").returncode == 0
    assert subprocess.run(["pgrep", "-f", "^/usr/bin/sleep 77.125"], stdout=subprocess.DEVNULL).returncode == 1
    after, later = box.census(), box.census()  # boxes of others may come and go meanwhile
    gone = records - {record.split("-")[-1] for record in after["records"]}
    assert gone
    for kind in ("groups", "directories"):
        assert not [item for item in after[kind] if item in later[kind] and item.split("-")[-1] in gone], kind


def test_tables_of_functions_cannot_be_written_to(engine):
    """What the linker marks as constant after relocation is so in the program that is started for every run."""
    headers = subprocess.run(["readelf", "-lW", box.CLOCHE], capture_output=True, text=True, check=True).stdout
    offset = int(re.search(r"GNU_RELRO\s+0x[0-9a-f]+ 0x([0-9a-f]+)", headers)[1], 16)
    process = subprocess.Popen([box.CLOCHE, "run", "--isolation", engine, "-e", "print('up', flush=True); input()"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    with open(f"/proc/{process.pid}/maps") as lines:
        maps = [(*(int(part, 16) for part in line.split()[0].split("-")), line.split()[1]) for line in lines if line.rstrip().endswith(str(box.CLOCHE))]
    process.communicate("\n")
    base = min(first for first, _, _ in maps)
    assert [access for first, end, access in maps if first <= base + offset < end] == ["r--p"], maps


def test_words_that_are_too_many_are_refused():
    for line in (("image", "list", "extra"), ("image", "import", "file", "extra"), ("keep", "--spares", "5", "--spares-max", "2")):
        done = box.raw(*line)
        assert done.returncode == box.BAD_SPEC and (b"extra" in done.stderr or b"5" in done.stderr), done


def test_what_can_be_done_without_may_stand_in_one_word():
    assert box.run("--accept", "memory,cpus", "-e", "print(1)").stdout == "1\n"
    assert box.raw("run", "--accept", "memory,seccomp", "-e", "1").returncode == box.BAD_SPEC
