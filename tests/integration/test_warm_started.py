"""Spares that are started, each on its own: javascript and bash; and with them what the process engine forks."""
import os
import signal
import subprocess
import time

import pytest

import box
import keeper
from leftovers import leftovers
from test_warm import SAME as PYTHON

STARTED = ("python/process", "javascript", "javascript/process", "bash", "bash/process")
EXTENSIONS = {"python": "py", "javascript": "js", "bash": "sh"}


@pytest.fixture(scope="module")
def kept():
    with keeper.Keeper("--spares", "2", "--preload", "json,decimal", "--language", ",".join(STARTED)) as made:
        for kind in STARTED:
            made.await_spares(kind)
        yield made


@pytest.fixture
def no_keeper(kept):
    kept.close()


def options_of(kind):
    language, _, isolation = kind.partition("/")
    return "--language", language, "--isolation", isolation or "container"


def cold(kind, code, *arguments, **options):
    return box.run(*options_of(kind), "-e", code, *arguments, **options)


def warm(kept, kind, code, *arguments, **options):
    """In a spare, or it fails."""
    kept.await_spares(kind)
    before = kept.kind(kind)["hits"]
    result = box.run("--warm", *options_of(kind), "-e", code, *arguments, **options)
    assert kept.kind(kind)["hits"] == before + 1, result
    return result


JAVASCRIPT = [
    ("console.log(1); console.error(2)", ()),
    ("process.exit(3)", ()),
    ("process.exitCode = 4; setTimeout(() => console.log('late'), 50)", ()),
    ("throw new Error('wrong')", ()),
    ("function f() { null.x }\nf()", ()),
    ("console.log(", ()),
    ("Promise.reject(new Error('nobody listens'))", ()),
    ("setTimeout(() => { throw new TypeError('later') }, 5)", ()),
    ("console.log(new Error('here').stack)", ()),
    ("process.on('exit', (code) => console.log('bye', code)); process.on('uncaughtException', (e) => console.log(e.stack)); throw new Error('x')", ()),
    ("process.kill(process.pid, 'SIGKILL'); setTimeout(() => {}, 10000)", ()),
    ("process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 10000)", ()),
    ("process.on('SIGINT', () => { console.log('caught'); process.exit(0) }); process.kill(process.pid, 'SIGINT'); setTimeout(() => {}, 9999)", ()),
    ("process.abort()", ()),
    ("for (;;);", ("--wall", "0.5s")),
    ("const x = []; for (;;) x.push(Buffer.alloc(1 << 20, 1))", ("--memory", "128M")),
    ("for (;;) require('fs').writeSync(1, 'x'.repeat(65536))", ("--output-limit", "64K")),
    ("console.log(process.argv, process.argv0, process.execPath, process.execArgv, process.title, process.cwd(), __filename, __dirname)", ()),
    ("console.log(JSON.stringify(process.env), Object.keys(process.env))", ("--env", "A=b=c", "--env", "HOME=/elsewhere")),
    ("console.log(Object.getOwnPropertyNames(globalThis).sort().join())", ()),
    ("console.log(Object.keys(require.cache), require.main === module, module.id, module.parent, module.children, module.paths, require.main.filename)", ()),
    ("const M = require('module'); console.log(M.runMain.name, Object.getOwnPropertyDescriptor(M, 'runMain'), Object.keys(M._pathCache))", ()),
    ("const d = Object.getOwnPropertyNames(process).sort().join(); console.log(d, process.eventNames(), process.listenerCount('exit'))", ()),
    ("console.log(process._getActiveHandles().length, process._getActiveRequests().length, process.getActiveResourcesInfo())", ()),
    ("process.stdin.on('data', (d) => console.log(String(d))); process.stdin.on('end', () => console.log('end'))", ()),
    ("console.log(require('fs').readFileSync(0, 'utf8'))", ()),
    ("console.log(require('child_process').execFileSync('sh', ['-c', 'echo $0; env | sort; ls /proc/self/fd; ulimit -a']).toString())", ()),
    ("const { Worker } = require('worker_threads'); new Worker('console.log(process.argv, process.execArgv, Object.keys(require.cache))', "
     "{ eval: true }).on('exit', (c) => console.log('over', c))", ()),
    ("const c = require('child_process').spawnSync(process.execPath, ['-p', '[process.argv, process.execArgv]']); console.log(String(c.stdout), String(c.stderr))", ()),
    ("import('fs').then((m) => console.log(typeof m.readFileSync)); console.log(typeof import.meta)", ()),
    ("(async () => { const m = await import('node:path'); console.log(m.join('a', 'b')) })()", ()),
    ("require('./missing')", ()),
    ("try { require('fs').writeFileSync('/code/main.js', '') } catch (e) { console.log(e.code) }", ()),
    ("console.log(require('v8').getHeapStatistics().heap_size_limit)", ("--memory", "256M")),
    ("console.log(process.umask(), process.getuid(), process.getgid(), process.getgroups(), process.ppid, require('os').hostname(), require('os').homedir())", ()),
    ("console.log(Intl.DateTimeFormat().resolvedOptions(), (1.5).toLocaleString())", ()),
    ("queueMicrotask(() => console.log(3)); process.nextTick(() => console.log(2)); setImmediate(() => console.log(4)); console.log(1)", ()),
    ("require('fs').writeFileSync('a.txt', 'x'); require('fs').mkdirSync('d'); require('fs').writeFileSync('d/b', 'y')", ()),
    ("require('fs').writeFileSync('/tmp/f', Buffer.alloc(200 << 20))", ()),
    ("console.log(require('async_hooks').executionAsyncId(), new Error().stack.split('\\n').length, Error.stackTraceLimit)", ()),
]

BASH = [
    ("echo out; echo err >&2", ()),
    ("exit 3", ()),
    ("false", ()),
    ("set -e; false; echo not reached", ()),
    ("set -u; echo $nothing", ()),
    ("if", ()),
    ("no_such_command", ()),
    ("echo $0 $# \"$@\" $BASH_SOURCE $LINENO $PWD $SHLVL $- $$ $PPID $_ $BASH_SUBSHELL $SECONDS", ()),
    ("echo $BASH $BASHPID $SHELLOPTS $BASHOPTS; tr '\\0' ' ' < /proc/$$/cmdline; cat /proc/$$/comm", ()),
    ("env | sort; declare -x; set -o; shopt", ("--env", "A=b c", "--env", "LC_ALL=C", "--env", "PYTHONHASHSEED=1")),
    ("kill -9 $$", ()),
    ("kill -15 $$", ()),
    ("trap 'echo bye' EXIT; trap 'echo int' INT; kill -INT $$", ()),
    ("trap -p; ps 2>/dev/null | head -1; kill -l | head -1; ls /proc/self/fd | wc -l; jobs", ()),
    ("while :; do :; done", ("--wall", "0.5s")),
    ("while :; do :; done", ("--cpu", "0.5s")),
    ("ulimit -a; ulimit -Ha", ()),
    ("ulimit -a; ulimit -Ha", ("--open-files", "50", "--cpu", "7s", "--disk", "20M", "--pids", "33")),
    ("ulimit -a; ulimit -Ha", ("--open-files", "2000", "--cpu", "40s", "--disk", "200M", "--pids", "300")),
    ("x=$(head -c 300000000 /dev/zero | tr '\\0' x)", ("--memory", "64M")),
    ("exec 2>/dev/null; for i in 1 2 3 4 5 6 7 8; do sleep 20 & done; exit 1", ("--pids", "5", "--wall", "1s")),
    ("yes | head -c 50000000 > /tmp/f; echo $?", ("--disk", "10M")),
    ("yes", ("--output-limit", "64K")),
    ("cat; read x; echo \"$x\" $?", ()),
    ("sleep 0.1 & echo started; wait; echo over", ()),
    ("echo x > a.txt; mkdir d; echo y > d/b", ()),
    ("ls -la /code /data /data/input | sed 's/ [A-Z][a-z][a-z] .*:.. / /; s/total.*//'; echo > /code/main.sh; echo $?; echo > /code/x; rm -f /code/main.sh; echo $?", ()),
    ("id; umask; hostname; ls -a / /tmp /home/user /dev/shm", ()),
    ("printf 'raw\\xff\\0z'; exec echo replaced", ()),
]

# Numbers of processes are the host's there; and who is first, a watchdog or the end of the program, is not certain.
WITHOUT_NAMESPACES = [row for row in BASH if "$$ " not in row[0] and "/$$/" not in row[0] and "--pids" not in row[1]]
TABLES = [(kind, *row) for kind, table in
          (("javascript", JAVASCRIPT), ("bash", BASH), ("python/process", PYTHON), ("javascript/process", JAVASCRIPT[::3]),
           ("bash/process", WITHOUT_NAMESPACES[::2]))
          for row in table]


@pytest.mark.parametrize("kind, code, options", TABLES, ids=[f"{row[0]}-{at}" for at, row in enumerate(TABLES)])
def test_is_the_same_as_cold(kept, kind, code, options):
    given = {"input": b"given\nmore\n"}
    expected = keeper.comparable(cold(kind, code, *options, "one", "two words", **given))
    assert keeper.comparable(warm(kept, kind, code, *options, "one", "two words", **given)) == expected


FILES = [
    ("hello.mjs", "import fs, { readFileSync } from 'fs'; import { argv } from 'node:process';\nconsole.log(argv, import.meta.url, typeof require, "
                  "fs.readFileSync === readFileSync); console.log(await Promise.resolve(5)); throw new RangeError('from a module')"),
    ("hello.cjs", "console.log(__filename, require('path').basename(module.filename), process.argv); require('assert').strictEqual(1, 2)"),
    ("hello.js", "exports.a = 1; console.log(__filename, require.main === module, process.argv[1]); (() => { throw new Error('deep') })()"),
    ("module.js", "import fs from 'fs'; console.log(1)"),
    ("hello.sh", "echo $0 \"$@\"; nothing_here"),
    ("hello.bash", "cat <<< \"$BASH_SOURCE\"; return 3"),
]


@pytest.mark.parametrize("name, code", FILES, ids=[name for name, _ in FILES])
@pytest.mark.parametrize("isolation", ["container", "process"])
def test_files_have_their_own_name_and_kind(kept, tmp_path, name, code, isolation):
    (tmp_path / name).write_text(code)
    kind = ("bash" if name.endswith("sh") else "javascript") + ("/process" if isolation == "process" else "")
    expected = box.run("--isolation", isolation, tmp_path / name, "a", "b c")
    kept.await_spares(kind)
    before = kept.kind(kind)["hits"]
    seen = box.run("--warm", "--isolation", isolation, tmp_path / name, "a", "b c")
    assert kept.kind(kind)["hits"] == before + 1
    assert keeper.comparable(seen) == keeper.comparable(expected)


@pytest.mark.parametrize("kind, code", [
    ("bash", "cat /data/input/in.csv; echo x >> /data/input/in.csv || echo held; echo made > out.txt"),
    ("bash/process", "cat $CLOCHE_INPUT/in.csv; echo x >> $CLOCHE_INPUT/in.csv || echo held; echo made > out.txt"),
    ("javascript", "const fs = require('fs'); process.stdout.write(fs.readFileSync('/data/input/in.csv')); fs.writeFileSync('out.txt', 'made\\n');\n"
                   "try { fs.appendFileSync('/data/input/in.csv', 'x') } catch { console.log('held') }"),
    ("python/process", "import os\nname = os.environ['CLOCHE_INPUT'] + '/in.csv'\nprint(open(name).read(), end='')\nopen('out.txt', 'w').write('made\\n')\n"
                       "try: open(name, 'a')\nexcept OSError: print('held')"),
])
def test_inputs_are_shown_and_output_is_collected(kept, tmp_path, kind, code):
    (tmp_path / "in.csv").write_text("a,b\n")
    os.chmod(tmp_path / "in.csv", 0o600)
    result = warm(kept, kind, code, "--input", tmp_path / "in.csv", "--output", tmp_path / "out")
    assert result.stdout == "a,b\nheld\n", result
    assert (tmp_path / "out" / "out.txt").read_text() == "made\n"


@pytest.mark.parametrize("kind, options, environment", [
    ("javascript", ("--open-files", "100"), ()), ("javascript", ("--disk", "5M"), ()), ("javascript", ("--cpu", "5s"), ()),
    ("javascript", ("--pids", "40"), ()), ("javascript", (), ("--env", "NODE_OPTIONS=--stack-trace-limit=1")),
    ("python/process", ("--cpus", "2"), ()), ("python/process", (), ("--env", "PYTHONOPTIMIZE=1")),
])
def test_what_an_interpreter_cannot_change_any_more_runs_cold(kept, kind, options, environment):
    code = {"javascript": "console.log(require('child_process').execSync('ulimit -a') + new Error().stack)",
            "python/process": "import os, sys; print(sys.flags.optimize, os.environ['OMP_NUM_THREADS'])"}[kind]
    before = kept.kind(kind)
    seen = box.run("--warm", *options_of(kind), *options, *environment, "-e", code)
    assert keeper.comparable(seen) == keeper.comparable(cold(kind, code, *options, *environment))
    after = kept.kind(kind)
    assert (after["hits"], after["misses"]) == (before["hits"], before["misses"])


@pytest.mark.parametrize("kind", STARTED)
def test_the_start_of_a_spare_is_not_the_runs(kept, kind):
    kept.await_spares(kind, 2)
    time.sleep(1.2)  # its age must not be told as the run's
    usage = warm(kept, kind, {"python": "print(1)", "javascript": "console.log(1)", "bash": "echo 1"}[kind.partition("/")[0]]).usage
    assert usage["wall_ms"] < 1000 and usage["cpu_user_ms"] + usage["cpu_system_ms"] < 100, usage


@pytest.mark.parametrize("kind", STARTED)
def test_no_residue_of_one_run_in_the_next(kept, kind):
    leave = {"python": "import os, subprocess; subprocess.run(['bash', '-c', LEAVE])", "bash": "LEAVE",
             "javascript": "require('child_process').execFileSync('bash', ['-c', LEAVE])"}[kind.partition("/")[0]]
    look = leave.replace("subprocess.run(['bash', '-c', LEAVE])", "print(subprocess.run(['bash', '-c', LEAVE], capture_output=True, text=True).stdout)")
    look = look.replace("require('child_process').execFileSync('bash', ['-c', LEAVE])", "console.log(String(require('child_process').execFileSync('bash', ['-c', LEAVE])))")
    shell = ("for place in $HOME $TMPDIR $CLOCHE_OUTPUT; do echo secret > $place/residue; done", "ls -A $HOME $TMPDIR $CLOCHE_OUTPUT | grep -v :$")
    quoted = [text if kind.startswith("bash") else repr(text) for text in shell]
    for _ in range(2):
        assert warm(kept, kind, leave.replace("LEAVE", quoted[0])).exit_code == 0
        assert warm(kept, kind, look.replace("LEAVE", quoted[1])).stdout.strip() == ""


def programs_of(kept, name):
    """Programs of the keeper's boxes, by their line of descent: keeper, init, program."""
    parents, names = keeper.processes()
    return [pid for pid in names if names[pid] == name and parents.get(parents[pid]) == kept.process.pid]


@pytest.mark.parametrize("name, kind, code", [("node", "javascript", "console.log(1)"), ("cloche-shell", "bash", "echo 1")])
def test_a_killed_spare_is_not_handed_out(kept, name, kind, code):
    kept.await_spares(kind, 2)
    kept.await_spares(f"{kind}/process", 2)
    killed = programs_of(kept, name)
    assert len(killed) >= 4, killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.05)  # one that is taken in the very moment of its death reports it
    for suffix in ("", "/process"):
        for _ in range(3):
            assert box.run("--warm", *options_of(kind + suffix), "-e", code).stdout == "1\n"
        kept.await_spares(kind + suffix, 2)
    assert not set(killed) & set(programs_of(kept, name))


def test_a_waiting_box_tells_nothing_to_the_program(kept):
    """Neither the channel nor anything of the waiting runner is left."""
    fds = "ls -l /proc/self/fd | sed 's/.* -> //; s/:.*//' | sort"
    assert warm(kept, "bash", fds).stdout == cold("bash", fds).stdout
    node = "console.log(require('fs').readdirSync('/proc/self/fd').map((n) => { try { return require('fs').readlinkSync('/proc/self/fd/' + n)" \
           ".replace(/:\\[?\\d.*/, '') } catch { return 'gone' } }).sort().join())"
    assert warm(kept, "javascript", node).stdout == cold("javascript", node).stdout


def test_nothing_is_started_before_it_is_asked_for(no_keeper):
    with keeper.Keeper("--spares", "2", "--preload", "json") as made:
        assert all(kind["spares"] == 0 for kind in made.state()["kinds"] if kind["kind"] != "python")
        assert box.bash("echo 1", "--warm").stdout == "1\n"  # cold, and the sign that there will be more
        assert made.kind("bash")["misses"] == 1
        made.await_spares("bash", 1, 20)
        assert box.bash("echo 2", "--warm").stdout == "2\n"
        assert made.kind("bash")["hits"] == 1 and made.kind("bash")["spare_bytes"] > 0
        assert all(kind["spares"] == 0 for kind in made.state()["kinds"] if kind["kind"] not in ("python", "bash"))


def test_an_operators_own_language_without_a_runner_runs_cold_and_disturbs_nobody(no_keeper, tmp_path):
    (tmp_path / "own.json").write_text('{"name": "bash", "extensions": ["sh"], "find": ["/bin/bash"], "file": "main.sh", '
                                       '"run": ["{runtime}", "-x", "{code}"]}')
    (tmp_path / "cloche.conf").write_text(f"languages = {tmp_path}/own.json\n")
    with keeper.Keeper("--config", tmp_path / "cloche.conf", "--preload", "json", "--language", "bash,javascript") as made:
        made.await_state(lambda state: any(kind["kind"] == "bash" and kind["failures"] for kind in state["kinds"]), 20)
        result = box.bash("echo 1", "--warm")
        assert (result.stdout, result.stderr) == ("1\n", "+ echo 1\n")
        assert warm(made, "javascript", "console.log(2)").stdout == "2\n"
        assert box.python("print(3)", "--warm").stdout == "3\n" and made.kind("bash")["spares"] == 0


def test_a_wrong_language_is_refused():
    done = box.raw("keep", "--language", "cobol")
    assert done.returncode == box.BAD_SPEC and b"javascript" in done.stderr


@pytest.mark.parametrize("is_killed", [False, True], ids=["ends", "is killed"])
def test_nothing_is_left_when_the_keeper(no_keeper, is_killed):
    box.raw("reap")  # of what others left
    before = box.census()
    made = keeper.Keeper("--spares", "2", "--preload", "json", "--language", ",".join(STARTED))
    for kind in STARTED:
        made.await_spares(kind, 2)
    running = [subprocess.Popen([box.CLOCHE, "run", "--warm", "--quiet", *options_of(kind), "-e", "sleep 60"], stderr=subprocess.DEVNULL)
               for kind in ("bash", "bash/process")]
    made.await_state(lambda state: state["running"] == 2, 10)
    if is_killed:
        made.kill()
    else:
        for client in running:
            client.terminate()
        made.close()
    for client in running:
        client.wait(10)
    box.raw("reap")
    assert not leftovers(before)
