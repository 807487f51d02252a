"""Languages: those of the built-in table, their compile steps, and rows that an operator adds without any C."""
import json
import os

import box
import pytest

HELLO = {
    "python": ("py", "print('hello')"),
    "javascript": ("js", "console.log('hello')"),
    "typescript": ("ts", "const word: string = 'hello';\ninterface A { b: number }\nconsole.log(word)"),
    "bash": ("sh", "echo hello"),
    "go": ("go", 'package main\nimport "fmt"\nfunc main() { fmt.Println("hello") }'),
    "c": ("c", '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }'),
    "c++": ("cpp", '#include <iostream>\nint main() { std::cout << "hello\\n"; }'),
}
COMPILED = ("typescript", "go", "c", "c++")


@pytest.mark.parametrize("language", HELLO)
def test_hello(engine, language):
    result = box.run("--language", language, "-e", HELLO[language][1], engine=engine)
    assert (result.stdout, result.stderr, result.exit_code) == ("hello\n", "", 0), result


@pytest.mark.parametrize("language", HELLO)
def test_file_with_arguments_and_exit_code(tmp_path, language):
    programs = {
        "python": "import sys; print(sys.argv[1:]); sys.exit(7)",
        "javascript": "console.log(process.argv.slice(2)); process.exit(7)",
        "typescript": "declare var process: any;\nconsole.log(process.argv.slice(2)); process.exit(7)",
        "bash": "echo \"['$1', '$2']\"; exit 7",
        "go": 'package main\nimport ("fmt"; "os")\nfunc main() { fmt.Printf("[\'%s\', \'%s\']\\n", os.Args[1], os.Args[2]); os.Exit(7) }',
        "c": '#include <stdio.h>\nint main(int c, char **v) { printf("[\'%s\', \'%s\']\\n", v[1], v[2]); return 7; }',
        "c++": '#include <cstdio>\nint main(int c, char **v) { printf("[\'%s\', \'%s\']\\n", v[1], v[2]); return 7; }',
    }
    path = tmp_path / f"prog.{HELLO[language][0]}"
    path.write_text(programs[language])
    done = box.raw("run", path, "--x", "y z")
    assert done.returncode == 7, done
    assert done.stdout.replace(b"[ ", b"[").replace(b" ]", b"]") == b"['--x', 'y z']\n"


@pytest.mark.parametrize("name", ["a.mjs", "a.cjs"])
def test_module_kinds_of_javascript(tmp_path, name):
    (tmp_path / name).write_text("import fs from 'fs'; console.log(typeof fs.readFileSync)" if name == "a.mjs"
                                 else "console.log(typeof require('fs').readFileSync)")
    assert box.raw("run", tmp_path / name).stdout == b"function\n"


def test_name_of_the_file_is_in_the_messages(tmp_path, engine):
    for name, code in (("my_script.py", "1/0"), ("my_script.js", "throw new Error('x')"), ("my_script.c", "int main(void) { return x; }"),
                       ("my_script.sh", "nosuchcommand")):
        (tmp_path / name).write_text(code)
        done = box.raw("run", "--isolation", engine, tmp_path / name)
        assert done.returncode != 0 and name.encode() in done.stderr, done


ERRORS = {
    "typescript": "const x: = 5", "go": "package main\nfunc main() { undefined() }", "c": "int main(void) { return undeclared; }",
    "c++": "int main() { return undeclared; }",
}


@pytest.mark.parametrize("language", ERRORS)
def test_compile_error_is_the_result(engine, language):
    result = box.run("--language", language, "-e", ERRORS[language], engine=engine)
    assert result.cause == "exit" and result.exit_code not in (0, None), result
    assert result.stdout == "" and "main." in result.stderr and len(result.stderr) > 20
    assert "compiled" in result.detail
    assert result.compile["exit_code"] == result.exit_code
    done = box.raw("run", "--isolation", engine, "--language", language, "-e", ERRORS[language])
    assert done.returncode == result.exit_code and b"main." in done.stderr and done.stdout == b""


@pytest.mark.parametrize("language, code", [("python", "def"), ("javascript", "let let"), ("bash", "if")])
def test_syntax_error_of_an_interpreted_language_is_an_exit(engine, language, code):
    result = box.run("--language", language, "-e", code, engine=engine)
    assert result.cause == "exit" and result.exit_code not in (0, None) and result.stderr


def test_compile_warnings_do_not_disturb_the_output():
    done = box.raw("run", "-l", "c", "-e", '#include <stdio.h>\n#warning careful\nint main(void) { puts("x"); return 0; }')
    assert (done.returncode, done.stdout, done.stderr) == (0, b"x\n", b"")


# The compiler reads an endless file: a compile step needs limits as much as a run.
ENDLESS = '#include "/dev/zero"\nint main(void) { return 0; }'
SLOW = "#define A(x) x x x x x x x x x x\nint main(void) { int y = 0; A(A(A(A(A(A(A(y++;))))))) return y; }"


def test_compile_wall_limit(engine):
    result = box.run("-l", "c", "--compile", "wall=400ms", "-e", SLOW, engine=engine)
    assert result.cause == "wall_time" and result.timed_out and result.returncode == 137, result
    assert "compiled" in result.detail and "400 ms" in result.detail
    assert result.compile["cause"] == "wall_time"


def test_compile_cpu_limit(engine):
    result = box.run("-l", "c", "--compile", "cpu=400ms", "-e", SLOW, engine=engine)
    assert result.cause == "cpu_time" and "compiled" in result.detail


def test_compile_memory_limit(engine):
    result = box.run("-l", "c", "--compile", "memory=100M", "--compile", "wall=20s", "-e", ENDLESS, engine=engine)
    assert result.cause == "memory" and "100 MiB" in result.detail, result


def test_compile_limits_leave_the_run_alone(engine):
    code = "#include <unistd.h>\nint main(void) { usleep(900000); return 5; }"
    result = box.run("-l", "c", "--compile", "wall=800ms", "-e", code, engine=engine)
    assert (result.cause, result.exit_code) == ("exit", 5), result


def test_run_limits_leave_the_compiler_alone(engine):
    """A compiler needs more than 40 MB; the program does not."""
    code = '#include <iostream>\n#include <map>\nint main() { std::map<int, int> m; m[1] = 2; std::cout << m[1] << "\\n"; }'
    result = box.run("-l", "c++", "--memory", "16M", "--pids", "1", "-e", code, engine=engine)
    assert (result.stdout, result.exit_code) == ("2\n", 0), result


def test_compiler_output_is_bounded(engine):
    """Errors without end come back cut, and the launcher survives them."""
    code = "\n".join(f"int f{i}(void) {{ return undeclared{i}; }}" for i in range(500))
    result = box.run("-l", "c", "--compile", "output_limit=10K", "-e", code, engine=engine)
    assert result.exit_code not in (0, None) or result.cause == "output", result
    assert 0 < len(result.stderr) <= 10 << 10
    assert result.compile["truncated"]["stderr"] > 0


def test_compile_step_is_in_a_box_too(engine):
    """#include reaches what the image shows, and nothing of the host."""
    secret = "/root/.integration-canary"
    open(secret, "w").write("#error CANARY-OF-THE-HOST\n")
    os.chmod(secret, 0o644)
    try:
        result = box.run("-l", "c", "-e", f'#include "{secret}"\nint main(void) {{ return 0; }}', engine=engine)
    finally:
        os.unlink(secret)
    assert result.exit_code not in (0, None) and "CANARY-OF-THE-HOST" not in result.stderr


def test_artifact_is_what_the_compiler_wrote_and_nothing_else():
    """.incbin of a host file, and a program that is a link, do not come out."""
    code = '__asm__(".section .rodata\\n.incbin \\"/etc/shadow\\"");\nint main(void) { return 0; }'
    result = box.run("-l", "c", "-e", code)
    assert result.exit_code not in (0, None)


def test_files_of_the_compile_step_are_not_collected(engine):
    result = box.run("-l", "c", "-e", "int main(void) { return 0; }", engine=engine)
    assert result.files == [] and result.compile["files"] == []


# rows of the operator's

@pytest.fixture
def table(tmp_path):
    """table(row, …) writes rows and a configuration that names them; returns its path."""
    def write(*rows, text=None):
        (tmp_path / "rows.json").write_text(text if text is not None else json.dumps(rows))
        (tmp_path / "cloche.conf").write_text(f"languages = {tmp_path}/rows.json\n")
        return tmp_path / "cloche.conf"
    return write


PERL = {"name": "perl", "extensions": ["pl"], "find": ["/nowhere/perl", "/usr/bin/perl"], "file": "main.pl",
        "run": ["{runtime}", "-w", "{code}"], "environment": {"FROM_ROW": "{tmp}!"}, "missing": "apt-get install perl"}


def test_row_adds_a_language(engine, table, tmp_path):
    config = table(PERL)
    code = 'print "hello $ARGV[0] $ENV{FROM_ROW}\\n";'
    done = box.raw("run", "--config", config, "--isolation", engine, "-l", "perl", "-e", code, "--", "x")
    assert done.returncode == 0 and done.stdout.startswith(b"hello x ") and done.stdout.endswith(b"tmp!\n"), done
    (tmp_path / "prog.pl").write_text(code)
    done = box.raw("run", "--config", config, "--isolation", engine, tmp_path / "prog.pl", "y")
    assert done.returncode == 0 and done.stdout.startswith(b"hello y "), done


def test_row_by_extension(engine, table, tmp_path):
    (tmp_path / "sum.awk").write_text("{ sum += $1 } END { print sum }")
    config = table({"name": "awk", "extensions": ["awk"], "find": ["/usr/bin/awk"], "file": "main.awk", "run": ["{runtime}", "-f", "{code}"]})
    done = box.raw("run", "--config", config, "--isolation", engine, tmp_path / "sum.awk", input=b"1\n2\n39\n")
    assert (done.returncode, done.stdout) == (0, b"42\n"), done


def test_row_may_stand_alone(table):
    assert box.raw("run", "--config", table(text=json.dumps(PERL)), "-l", "perl", "-e", "print 1").stdout == b"1"


def test_row_with_a_compile_step(engine, table):
    config = table({"name": "shout", "extensions": ["txt"], "file": "main.txt",
                    "compile": {"find": ["/usr/bin/tr"], "run": ["/bin/sh", "-c", '"$0" a-z A-Z <"$1" >"$2"', "{compiler}", "{code}",
                                                                  "{artifact}"], "artifact": "loud.txt"},
                    "find": ["/bin/cat"], "run": ["{runtime}", "{code}"]})
    result = box.run("--config", config, "-l", "shout", "-e", "hello {braces} {code}", engine=engine)
    assert (result.stdout, result.compile["exit_code"]) == ("HELLO {BRACES} {CODE}", 0), result


def test_row_of_the_operator_comes_before_the_built_in_one(table):
    config = table({"name": "python", "extensions": ["py"], "file": "main.py", "find": ["/bin/cat"], "run": ["{runtime}", "{code}"]})
    assert box.raw("run", "--config", config, "-e", "print(1)").stdout == b"print(1)"


def test_row_whose_probe_fails_is_passed_over(table):
    row = {"name": "python", "extensions": ["py"], "file": "main.py", "find": ["/bin/cat"], "run": ["{runtime}", "{code}"]}
    assert box.raw("run", "--config", table({**row, "probe": ["/bin/false"]}), "-e", "print(1)").stdout == b"1\n"
    assert box.raw("run", "--config", table({**row, "probe": ["/bin/true"]}), "-e", "print(1)").stdout == b"print(1)"


def test_language_that_the_image_lacks_says_how_to_get_it(engine, table):
    config = table({**PERL, "name": "ruby", "find": ["/usr/bin/no-ruby-here"], "missing": "install ruby: apt-get install ruby"})
    done = box.raw("run", "--config", config, "--isolation", engine, "-l", "ruby", "-e", "puts 1")
    assert done.returncode == box.BAD_SPEC and done.stdout == b""
    for word in (b"ruby", b"host", b"apt-get install ruby"):
        assert word in done.stderr, done


def test_every_built_in_language_says_how_to_get_it(table):
    """Every name of the list has words for an image that lacks it."""
    done = box.raw("run", "-l", "cobol", "-e", "x")
    names = done.stderr.decode().split("there are: ")[1].split(".")[0].split(", ")
    assert set(HELLO) <= set(names)
    rows = json.loads((box.ROOT / "src/runtime/languages.json").read_text())
    for name in names:
        assert any(row["name"] == name and len(row.get("missing", "")) > 20 for row in rows), name


def test_unknown_language_lists_those_there_are(table):
    done = box.raw("run", "--language", "cobol", "-e", "x")
    assert done.returncode == box.BAD_SPEC
    for word in (b"cobol", b"python", b"javascript", b"bash", b"go", b"c", b"languages ="):
        assert word in done.stderr
    assert b"perl" in box.raw("run", "--config", table(PERL), "--language", "cobol", "-e", "x").stderr


@pytest.mark.parametrize("change, word", [
    ({"name": None}, "name"), ({"file": None}, "file"), ({"file": "../x"}, "file"), ({"file": "a/b"}, "file"), ({"run": None}, "run"),
    ({"run": "perl"}, "run"), ({"run": [5]}, "run"), ({"find": "x"}, "find"), ({"extensions": "pl"}, "extensions"),
    ({"environment": {"A B": "1"}}, "environment"), ({"environment": {"A": 1}}, "environment"), ({"environment": "A=1"}, "environment"),
    ({"compile": {"run": ["x"]}}, "artifact"), ({"compile": {"run": ["x"], "artifact": "../x"}}, "artifact"), ({"compile": 5}, "compile"),
    ({"compile": {"artifact": "x"}}, "run"), ({"name": 5}, "name"), ({"probe": 5}, "probe"), ({"missing": 5}, "missing"),
    ({"unknown_key": 5}, "unknown_key"), ({"fnid": ["/x"]}, "fnid")])
def test_wrong_row_is_refused_with_its_file(table, change, word):
    row = {key: value for key, value in {**PERL, **change}.items() if value is not None}
    done = box.raw("run", "--config", table(row), "-l", "perl", "-e", "print 1")
    assert done.returncode == box.BAD_SPEC and b"rows.json" in done.stderr and word.encode() in done.stderr, done


@pytest.mark.parametrize("text", ["", "{", "5", "[5]", "null", '[{"name": "x", "name": "y"}]', "[[]]"])
def test_table_that_is_no_table_is_refused_with_its_file(table, text):
    done = box.raw("run", "--config", table(text=text), "-e", "print(1)")
    assert done.returncode == box.BAD_SPEC and b"rows.json" in done.stderr, done


def test_table_that_is_not_there_is_refused(config):
    done = box.raw("run", "--config", config("languages = /nowhere/rows.json"), "-e", "print(1)")
    assert done.returncode == box.BAD_SPEC and b"/nowhere/rows.json" in done.stderr


def test_language_can_be_named_by_an_extension():
    assert box.raw("run", "-l", "js", "-e", "console.log(6 * 7)").stdout == b"42\n"
    assert box.raw("run", "-l", "sh", "-e", "echo $((6 * 7))").stdout == b"42\n"
    done = box.raw("run", "-l", "x.js", "-e", "1")
    assert done.returncode == box.BAD_SPEC and b"there is no 'x.js'" in done.stderr, done


@pytest.mark.parametrize("line, code", [("#!/usr/bin/env python3", "print(6 * 7)"), ("#!/usr/bin/python3.11 -I", "print(6 * 7)"),
                                        ("#!/usr/bin/env -S node --no-warnings", "console.log(6 * 7)"), ("#!/bin/sh", "echo 42"),
                                        ("#! /bin/bash -e", "echo 42")])
def test_language_is_told_by_the_first_line(tmp_path, line, code):
    (tmp_path / "tool").write_text(f"{line}\n{code}\n")
    done = box.raw("run", tmp_path / "tool")
    assert (done.returncode, done.stdout) == (0, b"42\n"), done


@pytest.mark.parametrize("line", ["", "#!", "#!/usr/bin/env", "#!/usr/bin/no-such", "# python3"])
def test_first_line_that_tells_nothing_is_refused(tmp_path, line):
    (tmp_path / "tool").write_text(f"{line}\nprint(1)\n")
    done = box.raw("run", tmp_path / "tool")
    assert done.returncode == box.BAD_SPEC and b"cannot tell from the name 'tool'" in done.stderr, done


def test_code_comes_on_stdin():
    done = box.raw("run", "-", "a", "b", input=b"import sys; print(sys.argv[1:], repr(sys.stdin.read()))")
    assert (done.returncode, done.stdout) == (0, b"['a', 'b'] ''\n"), done
