"""cloche repl in JavaScript and bash: the runners in real boxes."""
import os
import signal
import subprocess
import time

import box
import pytest


def session(language, text, *options, engine="container"):
    """As if somebody typed it."""
    return script(language, text, "--lines", *options, engine=engine)


def script(language, text, *options, engine="container"):
    return subprocess.run([box.CLOCHE, "repl", "--language", language, "--isolation", engine, *options], input=text, text=True,
                          timeout=60, capture_output=True)


def test_javascript_values_blocks_and_errors(engine):
    done = session("javascript", "let x = 20\nlet x = 21\nx * 2\nfunction f(n) {\n  return n.y.z\n}\nf({})\nimport os from 'os'\nos.platform()\n"
                   "await new Promise((done) => setTimeout(done, 20, 'waited'))\n", engine=engine)
    assert (done.returncode, done.stdout) == (0, "42\n'linux'\n'waited'\n"), done
    assert "TypeError" in done.stderr and "at f (<run 4>:2:14)" in done.stderr and "runner.js" not in done.stderr


def test_javascript_files_and_directory_stay(engine):
    done = session("javascript", "const fs = require('fs')\nfs.mkdirSync('d'); process.chdir('d')\nfs.writeFileSync('own.mjs', 'export default 7')\n"
                   "(await import('./own.mjs')).default\nfs.readdirSync('.')\n", engine=engine)
    assert done.stdout == "7\n[ 'own.mjs' ]\n", done


def test_bash_state_blocks_and_errors(engine):
    done = session("bash", "x=20\nf() {\n  echo \"f $x\"\n}\nf\nmkdir d && cd d && echo kept >g\nls; false\necho $?\nno-such-command\nfi\ncat <<E\n"
                   "here $x\nE\nhead -c 100000 /dev/zero | wc -c\n", engine=engine)
    assert (done.returncode, done.stdout) == (0, "f 20\ng\n1\nhere 20\n100000\n"), done
    assert "no-such-command: command not found" in done.stderr and "syntax error near unexpected token `fi'" in done.stderr


@pytest.mark.parametrize("language,text", [("javascript", "console.log(1)\nprocess.exit(3)\nconsole.log(2)\n"), ("bash", "echo 1\nexit 3\necho 2\n"),
                                           ("bash", "echo 1; set -e\nfalse\necho 2\n")])
def test_exit_ends_the_session(language, text, engine):
    for done in (session(language, text, engine=engine), script(language, text, engine=engine)):
        assert (done.returncode, done.stdout) == (1 if "set -e" in text else 3, "1\n"), done


@pytest.mark.parametrize("language,text,status,shown", [
    ("javascript", "console.log(1)\nthrow new Error('no')\nconsole.log(2)\n", 1, "1\n"), ("javascript", "function f() {\n\n  return 1\n}\nf()\n", 0, "1\n"),
    ("bash", "echo 1\nfalse\n", 1, "1\n"), ("bash", "no-such-command; echo 1\n: ${x:=5}\n:limit\necho $x\n", 0, "1\n5\n")])
def test_pipe_is_one_piece_and_its_status_is_that_of_the_code(language, text, status, shown, engine):
    done = script(language, text, engine=engine)
    assert (done.returncode, done.stdout) == (status, shown), done


@pytest.mark.parametrize("language,busy,following", [
    ("javascript", "let n = 1; while (true) n = 2", "console.log(n)"), ("javascript", "let n = 2; await new Promise(() => {})", "console.log(n)"),
    ("javascript", "let n = 2; setTimeout(() => { for (;;); }, 1); await new Promise(() => {})", "console.log(n)"),
    ("bash", "n=2; sleep 100", "echo $n"), ("bash", "while :; do n=2; done", "echo $n")])
def test_run_that_takes_too_long_is_interrupted_and_its_state_stays(language, busy, following, engine):
    done = session(language, f"{busy}\n{following}\n", "--wall", "700ms", engine=engine)
    assert "its time is over" in done.stderr and "died" not in done.stderr and done.stdout == "2\n", done


@pytest.mark.parametrize("language,busy,following", [("javascript", "console.log('on'); while (true);", "'alive'"), ("bash", "echo on; sleep 100", "echo \"'alive'\"")])
def test_interrupt_from_outside(language, busy, following, engine):
    with subprocess.Popen([box.CLOCHE, "repl", "--lines", "--language", language, "--isolation", engine], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, bufsize=0) as process:
        process.stdin.write(f"{busy}\n{following}\n")
        assert process.stdout.readline() == "on\n"
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "'alive'\n"
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.mark.parametrize("language,deadly", [("javascript", "process.kill(process.pid, 'SIGKILL')"), ("bash", "kill -KILL $$"), ("bash", "exec true")])
def test_death_is_told_and_a_new_interpreter_started(language, deadly, engine):
    alive = "console.log('again')" if language == "javascript" else "echo again"
    done = session(language, f"{deadly}\n{alive}\n", engine=engine)
    assert "the interpreter died" in done.stderr and done.stdout == "again\n", done


@pytest.mark.parametrize("language,bomb", [
    ("javascript", "const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1))"),
    ("bash", "x=$(head -c 300000000 /dev/urandom | base64)")])
def test_memory_limit_is_named(language, bomb):
    done = session(language, bomb + "\n", "--memory", "192M", "--disk", "20M")
    assert "memory limit was reached" in done.stderr, done


def test_output_limit_holds(engine):
    for language, flood in (("javascript", "for (let i = 0; i < 200; i++) console.log('x'.repeat(99))"), ("bash", "head -c 20000 /dev/zero | tr '\\0' x")):
        done = session(language, flood + "\n", "--output-limit", "5000", engine=engine)
        assert len(done.stdout) <= 5000 and "bytes of output were left out" in done.stderr, done


def test_other_languages_are_refused():
    done = session("go", "")
    assert done.returncode == box.BAD_SPEC and "python, javascript, bash" in done.stderr and "'go'" in done.stderr
