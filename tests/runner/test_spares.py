"""Runners that wait for their only program: node and bash as they would start it themselves."""
import os
import resource
import signal
import subprocess

import harness
import pytest

ENVIRONMENT = ["PATH=/usr/bin:/bin", "HOME=/", "A=b=c", "EMPTY="]


def become(spare, path, code, *arguments, environment=ENVIRONMENT, rlimits=(), runtime=None, **_):
    """What is left when the runner has become this program: its exit status, and what it wrote."""
    path.write_text(code)
    spare.send({"type": "main", "path": str(path), "arguments": arguments, "environment": environment, "rlimits": rlimits,
                "command": [runtime, str(path), *arguments]})
    out, err = spare.process.communicate(timeout=30)
    return spare.process.returncode, out.decode(), err.decode()


def cold(spare, path, code, *arguments, runtime):
    path.write_text(code)
    done = subprocess.run([runtime, str(path), *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=spare.home.name,
                          env=dict(setting.split("=", 1) for setting in ENVIRONMENT))
    return done.returncode, done.stdout, done.stderr


def javascript(spare, path, code, *arguments, **fields):
    return become(spare, path, code, *arguments, runtime=harness.JavaScriptContext.COMMAND[0], **fields)


# ---- both ----

def test_ready_tells_protocol_and_language(javascript_spare, bash_spare):
    for spare, language in ((javascript_spare, "javascript"), (bash_spare, "bash")):
        assert (spare.ready["type"], spare.ready["protocol"], spare.ready["language"]) == ("ready", 1, language)


@pytest.mark.parametrize("make", [harness.JavaScriptSpare, harness.BashSpare])
def test_ends_when_the_host_is_gone(make):
    spare = make()
    spare.socket.close()
    assert spare.process.wait(10) == 0
    spare.close()


@pytest.mark.parametrize("make", [harness.JavaScriptSpare, harness.BashSpare])
def test_takes_no_other_order(make):
    spare = make()
    spare.send({"type": "run", "run": 1}, b"1")
    out, err = spare.process.communicate(timeout=10)
    assert (spare.process.returncode, out, err) == (0, b"", b"")
    spare.close()


# ---- javascript ----

PROGRAMS = [
    "console.log(process.argv, process.execArgv, process.env, process.argv0)", "process.exit(3)", "throw new Error('wrong')",
    "console.log(", "Promise.reject(1)", "process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 9999)",
    "console.log(Object.keys(require.cache), require.main === module, module.id, module.parent, require.resolve('./hello.js'))",
    "setTimeout(() => console.log('late'), 20); process.on('exit', () => console.log('bye'))",
    "console.log(require('module').runMain.name, Object.keys(globalThis), process.getActiveResourcesInfo())",
    "const w = new (require('worker_threads').Worker)('console.log(process.execArgv, Object.keys(require.cache)); throw 1', { eval: true });\n"
    "w.on('error', (e) => console.log('error', e))",
]


@pytest.mark.parametrize("code", PROGRAMS)
def test_javascript_is_as_node_runs_it(javascript_spare, tmp_path, code):
    path, node = tmp_path / "hello.js", harness.JavaScriptContext.COMMAND[0]
    expected = cold(javascript_spare, path, code, "a", "", runtime=node)
    assert javascript(javascript_spare, path, code, "a", "") == expected


def test_javascript_modules_run_as_such(javascript_spare, tmp_path):
    status, out, err = javascript(javascript_spare, tmp_path / "hello.mjs",
                                  "import { basename } from 'path'; console.log(basename(import.meta.url), await 5); throw new Error('x')")
    assert (status, out) == (1, "hello.mjs 5\n") and "spare" not in err and "hello.mjs:1" in err


def test_javascript_has_no_channel_to_the_host(javascript_spare, tmp_path):
    status, out, _ = javascript(javascript_spare, tmp_path / "hello.js",
                                "const fs = require('fs'); console.log(fs.readdirSync('/proc/self/fd').filter((n) => {"
                                "try { return fs.readlinkSync('/proc/self/fd/' + n).startsWith('socket') } catch { return false } }))")
    assert (status, out) == (0, "[]\n")
    assert javascript_spare.socket.recv(1) == b""


def test_javascript_keeps_no_variable_that_is_not_given(javascript_spare, tmp_path):
    assert javascript(javascript_spare, tmp_path / "a.js", "console.log(Object.entries(process.env).join(' '))")[1] == \
        "PATH,/usr/bin:/bin HOME,/ A,b=c EMPTY,\n"


# ---- bash ----

@pytest.mark.parametrize("code", ["echo $0 $# \"$@\" $A [$EMPTY] $SHLVL; env | sort", "exit 3", "no_such_command", "if", "kill -TERM $$",
                                  "ls -l /proc/self/fd | grep -c socket; trap -p", "umask; ulimit -a"])
def test_bash_is_as_bash_runs_it(bash_spare, tmp_path, code):
    path = tmp_path / "hello.sh"
    expected = cold(bash_spare, path, code, "a", "b \"'\\\n\u00e9\U0001f600", runtime="/bin/bash")
    assert become(bash_spare, path, code, "a", "b \"'\\\n\u00e9\U0001f600", runtime="/bin/bash") == expected


def test_bash_puts_its_limits_on(bash_spare, tmp_path):
    limits = [[resource.RLIMIT_NOFILE, 64], [resource.RLIMIT_FSIZE, 1 << 40], [resource.RLIMIT_CPU, 7]]
    assert become(bash_spare, tmp_path / "a.sh", "ulimit -n; ulimit -Hn; ulimit -f; ulimit -t", rlimits=limits,
                  runtime="/bin/bash")[1] == f"64\n64\n{1 << 30}\n7\n"


def test_bash_leaves_a_limit_that_is_lower(tmp_path):
    former = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (former[0], former[0]))  # hard too, for what is started
    try:
        spare = harness.BashSpare()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, former)
    status, out, _ = become(spare, tmp_path / "a.sh", "ulimit -Hn", rlimits=[[resource.RLIMIT_NOFILE, former[0] + 1000]], runtime="/bin/bash")
    assert (status, out) == (0, f"{former[0]}\n")
    spare.close()


def test_a_program_that_is_not_there_is_named(bash_spare, tmp_path):
    status, _, err = become(bash_spare, tmp_path / "a.sh", "", runtime="/no/such/bash")
    assert status == 127 and "/no/such/bash" in err


def test_interrupt_ends_a_program_as_any_other(bash_spare, tmp_path):
    path = tmp_path / "a.sh"
    path.write_text("echo on; sleep 30")
    bash_spare.send({"type": "main", "path": str(path), "environment": ENVIRONMENT, "command": ["/bin/bash", str(path)]})
    assert bash_spare.process.stdout.readline() == b"on\n"
    os.kill(bash_spare.process.pid, signal.SIGTERM)
    assert bash_spare.process.wait(10) == -signal.SIGTERM
