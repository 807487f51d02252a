"""The bash runner by itself: what a context prints and reports, and how its runs end."""
import os
import signal
import time

import harness
import pytest


def output(context, code, **fields):
    ended = context.run(code, **fields)
    return ended.stdout


def test_ready_tells_protocol_and_version(bash):
    assert (bash.ready["type"], bash.ready["protocol"], bash.ready["language"]) == ("ready", 1, "bash")
    assert int(bash.ready["version"].split(".")[0]) >= 4


STATE = ("x=5; declare -A map=([a]=1 ['b c']=2); list=(a 'b  c'); f() { echo \"f $1 $x\"; }; mkdir -p d; cd d; shopt -s extglob\n"
         "set -o pipefail; export EXPORTED='it'\\''s'; readonly FIXED=9; declare -i number=3; umask 027; alias ll='ls -l'; unset LANG")
SHOWN = ("f 1; echo ${map[a]} ${map['b c']} \"${list[1]}\" ${PWD##*/} $FIXED; number=number+4; echo $number; sh -c 'echo \"$EXPORTED\"'\n"
         "[[ -o pipefail ]] && shopt -q extglob && umask; echo ${LANG-no LANG}; [[ aab == +(a)b ]] && echo matched; (FIXED=1) 2>/dev/null || echo fixed\n"
         "alias ll; number=3")
EXPECTED = "f 1 5\n1 2 b  c d 9\n7\nit's\n0027\nno LANG\nmatched\nfixed\nalias ll='ls -l'\n"


def test_state_stays(bash):
    assert bash.run(STATE).status == "ok"
    assert output(bash, SHOWN) == EXPECTED


@pytest.mark.parametrize("code", ["exit 3", "set -e; false", "set -u; echo $nothing", "echo ${nothing:?}", "f() { exit 3; }; f",
                                  "kill -INT $$", "for i in 1; do break 9; done"])
def test_state_outlives_the_end_of_a_shell(bash, code):
    bash.run(STATE)
    before = output(bash, "echo $$")
    assert bash.run(f"y=in; {code}; y=behind").status == "exit"
    bash.run("set +eu; f() { echo \"f $1 $x\"; }")
    assert output(bash, SHOWN) == EXPECTED and output(bash, "echo $y") == "in\n"
    assert output(bash, "echo $$") != before


def test_options_outlive_the_end_of_a_shell(bash):
    assert bash.run("set -e; false").status == "exit"
    assert "e" in output(bash, "echo $-")
    ended = bash.run("false; echo no")
    assert (ended.status, ended.end["exit_code"], ended.stdout) == ("exit", 1, "")


def test_arguments_and_traps_outlive_the_end_of_a_shell(bash):
    bash.run("set -- one 'two  words'; trap 'echo usr' USR1; exit")
    assert output(bash, "echo $# \"$2\"; kill -USR1 $$") == "2 two  words\nusr\n"


@pytest.mark.parametrize("code,status,exit_code", [
    ("true", "ok", 0), ("", "ok", 0), ("# nothing", "ok", 0), ("false", "error", 1), ("(exit 7)", "error", 7), ("false | true", "ok", 0),
    ("exit 3", "exit", 3), ("exit", "exit", 0), ("exit 256", "exit", 0), ("false; exit", "exit", 1), ("no-such-command", "error", 127),
    ("set -e; false; true", "exit", 1), ("! true", "error", 1), ("sh -c 'kill -TERM $$'", "error", 143),
])
def test_status_of_a_run(bash, code, status, exit_code):
    ended = bash.run(code)
    assert (ended.status, ended.end["exit_code"]) == (status, exit_code)
    if status == "error":
        error = ended.end["error"]
        assert (error["name"], error["value"], error["traceback"]) == ("ExitStatus", str(exit_code), "")
    assert output(bash, "echo alive") == "alive\n"


def test_status_is_there_for_the_next_run(bash):
    bash.run("(exit 7)")
    assert output(bash, "echo $?") == "7\n"
    assert output(bash, "echo $?") == "0\n"
    bash.run("set -e")
    assert output(bash, "false || echo one; (exit 5) || true; echo two") == "one\ntwo\n"
    assert bash.run("true; (exit 4); echo no").end["exit_code"] == 4


def test_messages_tell_the_line_of_the_code(bash):
    assert bash.run("echo a\n\nno-such-command\n").stderr == "bash: line 3: no-such-command: command not found\n"
    bash.run("exit 1")
    assert output(bash, "echo $LINENO\necho $LINENO $0") == "1\n2 bash\n"


@pytest.mark.parametrize("code,words", [("echo ok\nif (\n", "unexpected end of file"), ("echo 'x", "unexpected EOF"), ("fi", "near unexpected token"),
                                        ("echo )", "near unexpected token"), ("a | | b", "near unexpected token")])
def test_syntax_error_is_told_and_ends_nothing(bash, code, words):
    bash.run("x=1")
    before = output(bash, "echo $$")
    ended = bash.run(code)
    assert ended.status == "error" and ended.end["exit_code"] == 2
    assert ended.end["error"]["name"] == "SyntaxError" and words in ended.end["error"]["value"]
    assert words in ended.stderr and output(bash, "echo $x $$") == f"1 {before}"


def test_output_comes_as_it_is_written(bash):
    bash.start("echo first; sleep 1; echo second")
    started = time.monotonic()
    _, body = bash.receive()
    assert body == b"first\n" and time.monotonic() - started < 0.8
    assert bash.wait().stdout == "second\n"


def test_streams_are_kept_apart(bash):
    ended = bash.run("for i in 1 2 3; do echo $i; sleep 0.05; echo -$i >&2; sleep 0.05; done; echo in >/dev/stdout; echo err >/dev/stderr")
    assert (ended.stdout, ended.stderr) == ("1\n2\n3\nin\n", "-1\n-2\n-3\nerr\n")
    assert [header["type"] for header, _ in ended.events][:6] == ["stdout", "stderr"] * 3


def test_all_output_comes_before_the_end(bash):
    for count in (1, 65536, 65537, 3_000_000):
        ended = bash.run(f"head -c {count} /dev/zero; head -c {count} /dev/zero >&2")
        for kind in ("stdout", "stderr"):
            data = b"".join(body for header, body in ended.events if header["type"] == kind)
            assert data == bytes(count), (count, kind, len(data))


def test_any_bytes_can_be_written(bash):
    ended = bash.run(r"printf 'a\0b\xff\xfe\n'")
    assert b"".join(body for _, body in ended.events) == b"a\0b\xff\xfe\n"


def test_jobs_in_the_background_do_not_hold_the_end(bash):
    started = time.monotonic()
    ended = bash.run("{ sleep 1; echo late; } & echo now")
    assert ended.stdout == "now\n" and time.monotonic() - started < 0.8
    header, body = bash.receive()
    assert (header["type"], header["run"], body) == ("stdout", None, b"late\n")
    assert output(bash, "wait; echo waited") == "waited\n"


def test_job_that_prints_for_ever_does_not_hold_the_end(bash):
    assert bash.run("yes & sleep 0.2; pid=$!").status == "ok"
    assert bash.run("kill $pid; wait $pid 2>/dev/null; :").status == "ok"


def test_stdin_is_for_the_commands_of_its_run(bash):
    assert output(bash, "read a; echo \"[$a]\"; cat", stdin="one\ntwo é") == "[one]\ntwo é"
    assert output(bash, "cat; cat; echo end", stdin="once\n") == "once\nend\n"
    assert output(bash, "cat | wc -c", stdin="x" * 500_000) == "500000\n"
    assert output(bash, "cat; read a || echo nothing") == "nothing\n"
    assert output(bash, "cat", stdin="nul\0nul").encode() == b"nul\0nul"
    bash.run("exec </dev/zero")
    assert output(bash, "cat", stdin="own") == "own"


def test_arguments_are_given(bash):
    assert output(bash, "echo $# \"$1\" \"$2\"", arguments=["it's", "ü \"b\" \\"]) == "2 it's ü \"b\" \\\n"
    assert output(bash, "echo $#") == "2\n"


def test_odd_code(bash):
    assert output(bash, "cat <<E\nhere $((1 + 1))\nE") == "here 2\n"
    assert output(bash, "echo '\U0001f514' \"é\"") == "\U0001f514 é\n"
    assert output(bash, "break; echo no") == "" and output(bash, "continue; echo no") == ""
    assert output(bash, "declare local_to_nothing=1") == "" and output(bash, "echo $local_to_nothing") == "1\n"
    assert output(bash, "#" + "x" * 1_000_000 + "\necho long") == "long\n"
    ended = bash.run("echo a\0b")
    assert ended.status == "error" and "NUL" in ended.end["error"]["value"]


def test_own_traps_on_exit_are_kept(bash):
    ended = bash.run("trap 'echo bye $?' EXIT; trap -p EXIT; exit 4")
    assert (ended.stdout, ended.end["exit_code"]) == ("trap -- 'echo bye $?' EXIT\nbye 4\n", 4)
    assert output(bash, "trap -p EXIT; exit") == ""
    ended = bash.run("z=8; trap 'exit 9' EXIT; false; exit")
    assert (ended.status, ended.end["exit_code"]) == ("exit", 9) and output(bash, "echo $z") == "8\n"
    assert output(bash, "(trap 'echo inner' EXIT); trap 'echo gone' EXIT; trap - EXIT; exit") == "inner\n"


@pytest.mark.parametrize("code", ["sleep 100", "while :; do :; done", "while sleep 0.05; do echo t; done", "sleep 100 | cat", "(sleep 100)",
                                  "y=$(sleep 100)", "sleep 100 & wait", "read <> <(sleep 100)", "f() { sleep 100; }; f; f"])
def test_interrupt_ends_the_run_and_keeps_the_state(bash, code):
    for round_number in range(2):
        bash.start(f"x={round_number}; echo on; {code}; echo no")
        bash.receive()
        time.sleep(0.1)
        started = time.monotonic()
        bash.interrupt()
        ended = bash.wait()
        assert ended.status == "interrupted" and ended.end["error"]["name"] == "Interrupted", ended.end
        assert "no" not in ended.stdout and time.monotonic() - started < 2
        assert output(bash, "echo $x") == f"{round_number}\n"


@pytest.mark.parametrize("code", ["while :; do true | cat; done", "while :; do /bin/true; done", "while :; do head -c 300000 /dev/zero; done",
                                  "while :; do (:); x=$(echo y); done"])
def test_interrupt_reaches_what_consists_of_short_commands(bash, code):
    for round_number in range(20):
        bash.start(f"x={round_number}; echo on; {code}")
        bash.receive()
        time.sleep(0.0023 * round_number)
        bash.interrupt()
        assert bash.wait().status == "interrupted"
        assert bash.run("[[ $PWD ]] && echo $$").status == "ok"


def test_failing_trap_under_set_e_ends_the_run_only(bash):
    ended = bash.run("x=1; set -e; trap : NO_SUCH_SIGNAL; echo no")
    assert (ended.status, ended.stdout) == ("exit", "") and output(bash, "echo $x") == "1\n"


def test_code_may_handle_the_interrupt(bash):
    bash.start("trap 'echo caught' INT; echo on; sleep 100; echo rest; trap - INT")
    bash.receive()
    time.sleep(0.3)  # until it sleeps: the trap would be executed before it
    bash.interrupt()
    ended = bash.wait()
    assert ended.status == "ok" and ended.stdout == "caught\nrest\n"
    bash.start("trap 'n=$((n + 1))' INT; echo on; sleep 0.2; sleep 0.5; echo $n; trap - INT")
    bash.receive()
    time.sleep(0.1)
    bash.interrupt()
    assert bash.wait().stdout == "1\n"


def test_interrupt_between_runs_does_nothing(bash):
    before = output(bash, "echo $$")
    for _ in range(5):
        bash.interrupt()
        time.sleep(0.01)
    assert output(bash, "echo $$") == before


def test_interrupts_at_any_moment_lose_no_state(bash):
    bash.run("n=0")
    for round_number in range(60):
        bash.start(f"n={round_number}; :")
        time.sleep(round_number / 20_000)
        bash.interrupt()
        assert bash.wait().status in ("ok", "interrupted")
    assert bash.run("n=last").status == "ok" and output(bash, "echo $n") == "last\n"


def test_shell_that_leaves_nothing_is_the_end():
    for code, ends in (("exec true", 0), ("exec sh -c 'exit 5'", 5), ("kill -KILL $$", -signal.SIGKILL)):
        context = harness.BashContext()
        context.start(code)
        with pytest.raises(EOFError):
            context.wait()
        assert context.process.wait(10) == ends
        context.close()


@pytest.mark.parametrize("code,answer", [
    ("echo", "complete"), ("", "complete"), ("# c", "complete"), ("case a in @(a|b)) ;; esac", "complete"), ("echo \\\\", "complete"),
    ("if true", "incomplete"), ("for i in 1; do", "incomplete"), ("echo \"a", "incomplete"), ("cat <<E\nx", "incomplete"),
    ("echo a \\", "incomplete"), ("f() {", "incomplete"), ("a &&", "incomplete"), ("a |", "incomplete"),
    ("fi", "invalid"), ("echo )", "invalid"), ("a | | b", "invalid"),
])
def test_completeness(bash, code, answer):
    assert bash.completeness(code) == answer


def test_unknown_messages_are_refused(bash):
    bash.send({"type": "dance", "with": [{"a": ["\"}", 1.5e3, None, True]}]})
    assert bash.receive()[0]["type"] == "refused"
    assert output(bash, "echo on") == "on\n"


def test_environment_is_the_given_one():
    context = harness.BashContext(GIVEN="yes")
    assert output(context, "echo $GIVEN; env | grep -c '^[^=]*cloche'") == "yes\n0\n"
    context.run("unset GIVEN; exit")
    assert output(context, "echo [$GIVEN]") == "[]\n"
    context.close()


def test_code_does_not_have_the_channel(bash):
    names = output(bash, "for fd in /proc/self/fd/*; do readlink $fd; done")
    assert "socket:" not in names and "pipe:" in names


def test_runner_ends_with_its_socket_and_takes_the_shell_along():
    for code in (":", "sleep 100"):
        context = harness.BashContext()
        pid = int(output(context, "echo $$"))
        context.start(code)
        time.sleep(0.1)
        assert context.close() == 0
        deadline = time.monotonic() + 5
        while os.path.exists(f"/proc/{pid}/exe") and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not os.path.exists(f"/proc/{pid}/exe")
