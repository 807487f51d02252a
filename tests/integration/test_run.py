"""cloche run as a command: what goes in, what comes out, and how it exits."""
import base64
import hashlib
import os
import signal
import subprocess
import time

import box
import pytest


def popen(*args, **options):
    return subprocess.Popen([str(box.CLOCHE), "run", *map(str, args)], **options)


def test_file_runs_by_its_extension(engine, tmp_path):
    script = tmp_path / "hello.py"
    script.write_text("print('from', __file__.rsplit('/', 1)[-1])")
    done = box.raw("run", "--isolation", engine, script)
    assert (done.returncode, done.stdout) == (0, b"from hello.py\n")


def test_extension_chooses_the_language(engine, tmp_path):
    for name, code, expected in [("a.py", "print(2 ** 10)", b"1024\n"), ("a.sh", "echo $((2 ** 10))", b"1024\n"),
                                 ("a.js", "console.log(2 ** 10)", b"1024\n"), ("a.bash", "echo $0 | grep -c bash", b"1\n")]:
        (tmp_path / name).write_text(code)
        done = box.raw("run", "--isolation", engine, tmp_path / name)
        assert (done.returncode, done.stdout) == (0, expected), (name, done)


def test_code_on_the_command_line_is_python(engine):
    done = box.raw("run", "--isolation", engine, "-e", "import sys; print(sys.version_info[0])")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"3\n", b"")


def test_language_option_names_the_language_of_code(engine):
    done = box.raw("run", "--isolation", engine, "-l", "bash", "-e", "echo $BASH_VERSION")
    assert done.returncode == 0 and done.stdout.strip()


def test_language_option_beats_the_extension(tmp_path):
    script = tmp_path / "really-bash.py"
    script.write_text("echo $((1 + 1))")
    done = box.raw("run", "--language", "bash", script)
    assert (done.returncode, done.stdout) == (0, b"2\n")


def test_file_without_a_known_extension_asks_for_the_language(tmp_path):
    for name in ("script", "script.xyz"):
        (tmp_path / name).write_text("print(1)")
        done = box.raw("run", tmp_path / name)
        assert done.returncode == box.BAD_SPEC and done.stdout == b""
        assert b"--language" in done.stderr and name.encode() in done.stderr


def test_command_runs_as_it_is(engine):
    done = box.raw("run", "--isolation", engine, "--", "/bin/echo", "-n", "a  b", "--json", "-e")
    assert (done.returncode, done.stdout) == (0, b"a  b --json -e")


def test_command_is_found_on_the_path(engine):
    done = box.raw("run", "--isolation", engine, "--", "echo", "found")
    assert (done.returncode, done.stdout) == (0, b"found\n")


def test_command_that_does_not_exist_says_so(engine):
    for command in ("no-such-command", "/usr/bin/no-such-command", "./no-such-command"):
        done = box.raw("run", "--isolation", engine, "--", command)
        assert done.returncode == box.BAD_SPEC and done.stdout == b"", done
        assert command.encode() in done.stderr


def test_directory_as_a_command_says_so(engine):
    done = box.raw("run", "--isolation", engine, "--", "/usr/bin")
    assert done.returncode == box.BAD_SPEC and b"/usr/bin" in done.stderr


def test_file_that_does_not_exist_says_so(tmp_path):
    for path in (tmp_path / "nothing.py", tmp_path):
        done = box.raw("run", path)
        assert done.returncode == box.BAD_SPEC and str(path).encode() in done.stderr


def test_nothing_to_run_says_what_to_give():
    done = box.raw("run")
    assert done.returncode == box.BAD_SPEC
    for word in (b"FILE", b"-e", b"COMMAND"):
        assert word in done.stderr


def test_code_and_file_and_command_exclude_each_other(tmp_path):
    script = tmp_path / "a.py"
    script.write_text("print(1)")
    done = box.raw("run", "-e", "print(1)", "-e", "print(2)")
    assert done.returncode == box.BAD_SPEC and b"twice" in done.stderr and done.stdout == b""


def test_arguments_after_the_file_belong_to_it(engine, tmp_path):
    script = tmp_path / "args.py"
    script.write_text("import sys; print(sys.argv[1:])")
    done = box.raw("run", "--isolation", engine, script, "-x", "--json", "--", "a b", "")
    assert (done.returncode, done.stdout) == (0, b"['-x', '--json', '--', 'a b', '']\n")


def test_arguments_after_code_belong_to_it(engine):
    done = box.raw("run", "--isolation", engine, "-e", "import sys; print(sys.argv[1:])", "--", "--wall", "x")
    assert (done.returncode, done.stdout) == (0, b"['--wall', 'x']\n")


def test_code_may_hold_anything_but_nul(engine):
    text = "π \\ ' \" $HOME `id` %s {code} {tmp}"
    done = box.raw("run", "--isolation", engine, "-e", f"print({text!r})")
    assert done.stdout.decode() == text + "\n"


def test_empty_code_runs(engine):
    done = box.raw("run", "--isolation", engine, "-e", "")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_large_code_runs_and_larger_is_refused(tmp_path):
    script = tmp_path / "large.py"
    script.write_text("x = '" + "y" * (8 << 20) + "'\nprint(len(x))\n")
    assert box.raw("run", script).stdout == b"8388608\n"
    script.write_text("#" * (17 << 20))
    done = box.raw("run", script)
    assert done.returncode == box.BAD_SPEC and b"16 MiB" in done.stderr


# stdin

def test_stdin_is_passed_through(engine):
    data = bytes(range(256)) * 16
    done = box.raw("run", "--isolation", engine, "--", "cat", input=data)
    assert (done.returncode, done.stdout) == (0, data)


def test_stdin_of_20_megabytes_arrives_whole(engine):
    data = os.urandom(1 << 20) * 20
    code = "import sys, hashlib; d = sys.stdin.buffer.read(); print(len(d), hashlib.sha256(d).hexdigest())"
    done = box.raw("run", "--isolation", engine, "-e", code, input=data)
    assert done.stdout.decode().split() == [str(len(data)), hashlib.sha256(data).hexdigest()]


def test_stdin_that_nobody_reads_does_not_hold_the_run(engine):
    before = time.monotonic()
    done = box.raw("run", "--isolation", engine, "-e", "print('done')", input=bytes(20 << 20))
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert time.monotonic() - before < 5


def test_stdin_that_never_ends_does_not_hold_the_run(engine):
    process = popen("--isolation", engine, "-e", "print('done')", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.read() == b"done\n"
        assert process.wait(5) == 0
    finally:
        process.stdin.close()
        process.stdout.close()


def test_stdin_is_interactive(engine):
    process = popen("--isolation", engine, "-e", "import sys\nfor line in sys.stdin: print('got', line, end='')",
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for word in (b"one\n", b"two\n"):
        process.stdin.write(word)
        process.stdin.flush()
        assert process.stdout.readline() == b"got " + word
    process.stdin.close()
    assert process.wait(5) == 0
    process.stdout.close()


def test_stdin_closed_is_an_empty_one(engine):
    done = subprocess.run(["sh", "-c", f"'{box.CLOCHE}' run --isolation {engine} -e 'import sys; "
                           "print(len(sys.stdin.read()))' <&-"], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"0\n")


def test_stdin_of_a_compiled_language_goes_to_the_program_not_to_the_compiler():
    code = '#include <stdio.h>\nint main(void) { int n; return scanf("%d", &n) == 1 ? n : 99; }'
    assert box.raw("run", "-l", "c", "-e", code, input=b"42\n").returncode == 42


# stdout and stderr

def test_output_streams_as_it_comes(engine):
    code = "import sys, time\nprint('out')\nprint('err', file=sys.stderr)\ntime.sleep(2)\nprint('end')"
    process = popen("--isolation", engine, "-e", code, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    before = time.monotonic()
    assert process.stdout.readline() == b"out\n"
    assert process.stderr.readline() == b"err\n"
    assert time.monotonic() - before < 1.5 and process.poll() is None
    assert process.communicate() == (b"end\n", b"")
    assert process.returncode == 0


def test_stdout_and_stderr_stay_apart(engine):
    done = box.raw("run", "--isolation", engine, "--", "sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def test_output_of_many_bytes_comes_through_exactly(engine):
    done = box.raw("run", "--isolation", engine, "-e", "import sys; sys.stdout.write(''.join(f'{i:09d}\\n' for i in range(1000000)))")
    assert done.returncode == 0
    assert done.stdout == b"".join(b"%09d\n" % i for i in range(1000000))


def test_nul_and_invalid_utf8_come_through_raw(engine):
    code = "import sys; sys.stdout.buffer.write(bytes(range(256))); sys.stderr.buffer.write(b'\\x00\\xff\\xfe')"
    done = box.raw("run", "--isolation", engine, "-e", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, bytes(range(256)), b"\x00\xff\xfe")


def test_nul_and_invalid_utf8_come_through_json(engine):
    code = "import sys; sys.stdout.buffer.write(bytes(range(256))); sys.stderr.buffer.write(b'\\x00ok')"
    result = box.python(code, engine=engine)
    assert base64.b64decode(result.stdout_base64) == bytes(range(256))
    assert result.stdout.startswith("\x00\x01") and "�" in result.stdout
    assert result.stderr == "\x00ok" and "stderr_base64" not in result.json


def test_reader_that_goes_away_does_not_wedge_the_run(engine):
    for stream in ("stdout", "stderr"):
        process = popen("--isolation", engine, "--wall", "20s", "-e",
                        f"import sys\nwhile True: sys.{stream}.write('x' * 1000 + '\\n')",
                        **{stream: subprocess.PIPE, "stderr" if stream == "stdout" else "stdout": subprocess.DEVNULL})
        pipe = getattr(process, stream)
        pipe.readline()
        pipe.close()
        before = time.monotonic()
        assert process.wait(10) != 0
        assert time.monotonic() - before < 5, stream


def test_reader_that_stops_reading_holds_the_launcher_but_not_the_box(engine):
    """What was read is kept for it, as in any pipe; the box is gone at its limit, and a signal ends the waiting."""
    read, write = os.pipe()
    marker = f"stalled-{engine}"
    try:
        process = popen("--isolation", engine, "--wall", "1s", "-e", "while True: print('x' * 1000)", "--", marker, stdout=write,
                        stderr=subprocess.DEVNULL)
        time.sleep(2)
        assert subprocess.run(["pgrep", "-f", f"python3 .*{marker}"], stdout=subprocess.DEVNULL).returncode == 1
        process.terminate()
        assert process.wait(2) == -signal.SIGTERM
    finally:
        process.kill()
        os.close(read)
        os.close(write)


def test_slow_reader_gets_everything():
    """As any program in a pipe: `cloche run x.py | less` must not lose the end while somebody reads the beginning."""
    process = popen("-e", "print('x' * 150000)", stdout=subprocess.PIPE)
    time.sleep(6.5)
    output = process.stdout.read()
    process.stdout.close()
    assert process.wait(5) == 0
    assert len(output) == 150001


def test_program_that_closes_its_stdout_still_runs_on(engine):
    done = box.raw("run", "--isolation", engine, "--", "sh", "-c", "echo a; exec >&-; sleep 0.3; echo b >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"a\n", b"b\n")


def test_output_to_a_full_disk_is_not_a_success(engine):
    done = subprocess.run([box.CLOCHE, "run", "--isolation", engine, "-e", "print(1)"], stdout=open("/dev/full", "w"),
                          stderr=subprocess.PIPE)
    assert done.returncode != 0
    done = subprocess.run([box.CLOCHE, "run", "--json", "--isolation", engine, "-e", "print(1)"],
                          stdout=open("/dev/full", "w"), stderr=subprocess.PIPE)
    assert done.returncode != 0


# how it exits

def test_program_may_use_the_cpus_of_its_caller(engine):
    """Init and its launcher keep off each other's CPU while a box starts; its program does not know of that."""
    code = "import os; print(sorted(os.sched_getaffinity(0)), sorted(os.sched_getaffinity(os.getppid())))"
    for cpus in (sorted(os.sched_getaffinity(0)), [0]):
        for _ in range(3):
            done = subprocess.run([box.CLOCHE, "run", "--isolation", engine, "-e", code], capture_output=True, text=True,
                                  preexec_fn=lambda: os.sched_setaffinity(0, cpus))
            assert (done.stdout, done.stderr) == (f"{cpus} {cpus}\n", ""), cpus


def test_exit_codes_are_those_of_the_program(engine):
    for code in [*range(0, 249, 8), 1, 2, 127, 126, 128, 129, 248, 254, 255]:
        done = box.raw("run", "--isolation", engine, "--", "/bin/sh", "-c", f"exit {code}")
        assert (done.returncode, done.stderr) == (code, b""), code


def test_reserved_exit_codes_are_shown_as_249_and_exact_in_json(engine):
    for code in range(249, 254):
        done = box.raw("run", "--isolation", engine, "--", "/bin/sh", "-c", f"exit {code}")
        assert done.returncode == box.RESERVED
        assert str(code).encode() in done.stderr
        result = box.run("--", "/bin/sh", "-c", f"exit {code}", engine=engine)
        assert (result.returncode, result.exit_code, result.cause) == (box.RESERVED, code, "exit")


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "ABRT", "KILL", "USR1", "SEGV", "PIPE", "TERM", "BUS", "FPE"])
def test_death_by_signal_exits_with_128_plus_its_number(engine, name):
    number = getattr(signal, "SIG" + name)
    done = box.raw("run", "--isolation", engine, "--", "/bin/sh", "-c", f"kill -{name} $$; sleep 1")
    assert done.returncode == 128 + number, done
    assert f"signal {number}".encode() in done.stderr


def test_exit_code_is_that_of_the_program_not_of_its_children(engine):
    done = box.raw("run", "--isolation", engine, "--", "/bin/sh", "-c", "(exit 9); (kill -9 $$ & ) ; (sh -c 'kill -SEGV $$'); exit 4")
    assert done.returncode in (4, 137)
    done = box.raw("run", "--isolation", engine, "--", "/bin/sh", "-c", "(exit 9); sh -c 'kill -SEGV $$'; exit 4")
    assert done.returncode == 4


def test_run_ends_when_the_program_ends_and_takes_its_children_along(engine):
    before = time.monotonic()
    done = box.raw("run", "--isolation", engine, "--", "/bin/sh", "-c", "sleep 61.5 & sleep 61.5 & echo started")
    assert (done.returncode, done.stdout) == (0, b"started\n")
    assert time.monotonic() - before < 3
    assert subprocess.run(["pgrep", "-f", "sleep 61.5"], stdout=subprocess.DEVNULL).returncode == 1


def test_caller_environment_stays_outside(engine):
    done = box.raw("run", "--isolation", engine, "--", "env", env={"CANARY_SECRET": "s3cr3t"})
    assert done.returncode == 0 and b"CANARY" not in done.stdout and b"s3cr3t" not in done.stdout


def test_environment_can_be_set(engine):
    done = box.raw("run", "--isolation", engine, "--env", "A=1 2=3", "--env", "LANG=C", "--env", "EMPTY=", "--", "env")
    lines = done.stdout.decode().splitlines()
    assert "A=1 2=3" in lines and "LANG=C" in lines and "EMPTY=" in lines
    assert len([line for line in lines if line.startswith("LANG=")]) == 1


def test_environment_with_a_bad_name_is_refused():
    for pair in ("NOEQUALS", "1A=x", "=x", "A B=x", "A-B=x"):
        done = box.raw("run", "--env", pair, "--", "env")
        assert done.returncode == box.BAD_SPEC and pair.encode() in done.stderr


def test_working_directory_is_the_output_directory_unless_given(engine):
    result = box.python("import os; print(os.getcwd() == os.environ['CLOCHE_OUTPUT'])", engine=engine)
    assert result.stdout == "True\n"
    done = box.raw("run", "--isolation", engine, "--cwd", "/usr/bin", "--", "pwd")
    assert done.stdout == b"/usr/bin\n"


def test_working_directory_that_is_not_there_is_an_error(engine):
    done = box.raw("run", "--isolation", engine, "--cwd", "/usr/no-such-place", "--", "pwd")
    assert done.returncode == box.BAD_SPEC, done
    assert b"/usr/no-such-place" in done.stderr and done.stdout == b""


def test_working_directory_must_be_absolute():
    done = box.raw("run", "--cwd", "some/where", "--", "pwd")
    assert done.returncode == box.BAD_SPEC and b"cwd" in done.stderr and b"some/where" in done.stderr


def test_runs_at_once_do_not_meet(engine):
    code = "import os, time\nx = os.environ['TMPDIR'] + '/x'\nopen(x, 'w').write('{}')\ntime.sleep(0.3)\nprint(open(x).read())"
    processes = [popen("--isolation", engine, "-e", code.format(i), stdout=subprocess.PIPE) for i in range(8)]
    for i, process in enumerate(processes):
        assert process.communicate()[0] == b"%d\n" % i and process.returncode == 0
