"""cloche --server: the same lines with the same results as without one, and what only a server has."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import box
import pytest

MODES = ("embedded", "remote")


def url(serving):
    return f"http://127.0.0.1:{serving.port}"


@pytest.fixture
def remote(serving):
    """remote("run", "-e", …): a line of cloche's against the server."""
    return lambda *args, **options: box.raw("--server", url(serving), *args, **options)


@pytest.fixture(params=MODES)
def cloche(request, remote):
    """The same for both modes."""
    return remote if request.param == "remote" else box.raw


@pytest.fixture
def sandbox(remote):
    """The id of a new sandbox."""
    made = remote("sandbox", "create", "--metadata", "test=remote")
    assert made.returncode == 0, made
    name = made.stdout.decode().strip()
    assert re.fullmatch(r"sbx_\w{22}", name)
    yield name
    remote("sandbox", "delete", name)


# ---- run: as without a server ----

LINES = {
    "prints": ["-e", "print(6 * 7)"],
    "both streams": ["-e", "import sys; print('out'); print('err', file=sys.stderr)"],
    "exit code": ["-e", "import sys; sys.exit(3)"],
    "reserved exit code": ["-e", "import sys; sys.exit(250)"],
    "traceback": ["-e", "1/0"],
    "bytes that are no text": ["-e", "import sys; sys.stdout.buffer.write(bytes(range(256)))"],
    "signal": ["--", "/bin/sh", "-c", "kill -TERM $$"],
    "command": ["--", "/bin/echo", "-n", "a b", "c"],
    "no such command": ["--", "/does/not/exist"],
    "bash": ["-l", "bash", "-e", "echo $((6*7)); exit 4"],
    "environment": ["--env", "NAME=value=x", "-l", "bash", "-e", "echo $NAME"],
    "directory": ["--cwd", "/tmp", "-l", "bash", "-e", "pwd"],
    "arguments": ["-e", "import sys; print(sys.argv[1:])", "--", "-x", "ä"],
    "wall time": ["--wall", "300ms", "-e", "while True: pass"],
    "memory": ["-m", "64M", "-e", "x = [bytearray(10**6) for i in range(1000)]"],
    "process engine": ["-i", "process", "-e", "print(1)"],
    "cut output": ["--output-limit", "1K", "-e", "print('x' * 5000)"],
    "quiet": ["-q", "--wall", "300ms", "-e", "while True: pass"],
    "no such option": ["--memroy", "1G", "-e", "1"],
    "bad limit": ["--memory", "much", "-e", "1"],
    "limit out of range": ["--memory", "300G", "-e", "1"],
    "no such language": ["-l", "cobol", "-e", "1"],
    "no such file": ["nothing.py"],
    "nothing to run": [],
    "two things to run": ["-e", "1", "--spec", "-"],
    "no such image": ["--image", "nowhere", "-e", "1"],
    "no such input": ["--input", "nothing.csv", "-e", "1"],
    "compile error": ["-l", "c", "-e", "int main(void) { return x; }"],
}


@pytest.mark.parametrize("name", LINES)
def test_lines_do_the_same_here_and_on_a_server(remote, name, tmp_path):
    stdin = b'{"code": "2"}' if "--spec" in LINES[name] else b""
    here = box.raw("run", *LINES[name], cwd=tmp_path, input=stdin)
    there = remote("run", *LINES[name], cwd=tmp_path, input=stdin)
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout), (here, there)
    assert there.stderr == here.stderr


@pytest.mark.parametrize("line", [
    ["-e", "print('ä'); open('f', 'w').write('x')"],
    ["-e", "import sys; sys.stdout.buffer.write(b'\\xff\\0')"],
    ["--wall", "300ms", "-e", "while True: pass"],
    ["--", "/bin/sh", "-c", "exit 251"],
], ids=lambda line: line[-1][:20])
def test_json_is_the_same_with_an_id(remote, line):
    here = box.raw("run", "--json", *line)
    there = remote("run", "--json", *line)
    assert there.returncode == here.returncode and there.stderr == b""
    told, own = json.loads(there.stdout), json.loads(here.stdout)
    told.pop("vet", None)  # a warm box looks at code without being asked
    assert set(told) == set(own) | {"id"}
    for fields in (told, own):
        fields.pop("id", None), fields.pop("usage")
    assert told == own


@pytest.mark.parametrize("line", [["--memory", "300G", "-e", "1"], ["--frob"], ["-l", "cobol", "-e", "1"]])
def test_refusals_as_json_are_the_same(remote, line):
    here, there = box.raw("run", "--json", *line), remote("run", "--json", *line)
    assert there.returncode == here.returncode == box.BAD_SPEC
    assert json.loads(there.stdout) == json.loads(here.stdout)


def test_auto_names_the_engine_that_it_chose(remote):
    told = remote("run", "--isolation", "auto", "--isolation-min", "container", "-e", "print(1)")
    assert told.stdout == b"1\n" and b"auto chose container: " in told.stderr, told


@pytest.mark.parametrize("stdin", [b"", b"text\n", b"nul \0 there", bytes(range(256)) * 2000, b"line\n" * (10 << 20)],
                         ids=["none", "text", "nul", "large", "larger than a request"])
def test_stdin_arrives(cloche, stdin):
    done = cloche("run", "-e", "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", input=stdin)
    assert done.stdout.decode().strip() == hashlib.sha256(stdin).hexdigest(), done


def test_stdin_from_a_slow_pipe_can_be_cancelled(serving, remote):
    line = [box.CLOCHE, "--server", url(serving), "run", "-q", "-e", "1"]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(b"x" * (2 << 20))  # more than a request holds, and than a pipe: it is being sent
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == -signal.SIGINT
    process.stdin.close()
    assert remote("files", "list").stdout == b"" and not list(pathlib.Path(serving.data).glob("partial/*/*"))


def test_a_script_keeps_its_name(cloche, tmp_path):
    (tmp_path / "hello.py").write_text("import sys\nprint(sys.argv)\n1/0\n")
    done = cloche("run", "hello.py", "--flag", "x", cwd=tmp_path)
    assert b"['/code/hello.py', '--flag', 'x']" in done.stdout and b'hello.py", line 3' in done.stderr and done.returncode == 1


def test_files_go_both_ways(cloche, tmp_path):
    small, large = b"small\n", os.urandom(3 << 20)
    (tmp_path / "small").write_bytes(small)
    (tmp_path / "large").write_bytes(large)
    code = """
import os, shutil
os.makedirs("deep/er")
shutil.copy("/data/input/small", "deep/er/one ä")
shutil.copy("/data/input/other", "two")
open("ten", "wb").write(bytes(9 << 20))
open("empty", "w")
"""
    done = cloche("run", "--input", "small", "--input", "large:other", "--output", "out/put", "-e", code, cwd=tmp_path)
    assert done.returncode == 0, done
    out = tmp_path / "out" / "put"
    assert (out / "deep/er/one ä").read_bytes() == small and (out / "two").read_bytes() == large
    assert (out / "ten").read_bytes() == bytes(9 << 20) and (out / "empty").read_bytes() == b""
    assert sorted(os.listdir(out)) == ["deep", "empty", "ten", "two"]


@pytest.fixture
def directory():
    """One that every user may read, as boxes of the process engine must: pytest's own are closed to all but root."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="remote-", dir="/tmp"))
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path)


# What a box sees below /data/input: kinds, contents, where links lead, what can be executed; and that nothing can be written.
TREE = """
import hashlib, json, os
os.chdir(os.environ["CLOCHE_INPUT"])
seen = {}
for path, names, files in os.walk(b".", followlinks=False):
    for name in names + files:
        name = os.path.join(path, name)
        if os.path.islink(name):
            what = ["link", os.readlink(name).decode("latin-1")]
        elif os.path.isdir(name):
            what = ["directory"]
        else:
            content = open(name, "rb").read()
            what = ["file", len(content), hashlib.sha256(content).hexdigest(), os.access(name, os.X_OK)]
        seen[name.decode("latin-1")] = what
for place in ("dir/new", "dir/.hidden", "dir/sub/large"):
    try:
        open(place, "wb").write(b"x")
        seen[place] = "written"
    except OSError:
        pass
print(json.dumps(seen, sort_keys=True))
"""


def grow(path):
    """A directory with one of each kind; what a box must see of it."""
    (path / "sub" / "deeper").mkdir(parents=True)
    (path / "empty").mkdir()
    (path / ".hidden").write_bytes(b"hidden")
    (path / "nothing").write_bytes(b"")
    (path / "sub" / "large").write_bytes(os.urandom(3 << 20))
    (path / "sub" / "deeper" / "n\u00e4me with \n 'all' $kinds").write_bytes(b"x")
    (path / "run.sh").write_text("#!/bin/sh\necho it runs\n")
    (path / "tool").write_bytes(b"#!/bin/sh\necho a large one, too\nexit 0\n" + bytes(1 << 20))
    for name in ("run.sh", "tool"):
        (path / name).chmod(0o755)
    (path / "within").symlink_to("sub/large")
    (path / "out").symlink_to("/etc/passwd")
    (path / "nowhere").symlink_to("../../no/such")
    with open(os.fsencode(path) + b"/\xff\xfe", "wb") as file:
        file.write(b"not UTF-8")


@pytest.mark.parametrize("isolation", ["container", "process"])
def test_a_directory_is_seen_as_without_a_server(remote, directory, isolation):
    grow(directory / "dir")
    line = ["run", "-i", isolation, "--input", "dir", "--input", "dir/:other", "-e", TREE]
    here, there = box.raw(*line, cwd=directory), remote(*line, cwd=directory)
    assert here.returncode == there.returncode == 0, (here, there)
    own, told = json.loads(here.stdout), json.loads(there.stdout)
    if isolation == "process":  # where inputs without a server are links to the directories themselves
        assert own.pop("./dir")[0] == own.pop("./other")[0] == "link"
        box_sees = json.loads(box.raw("run", "--input", "dir", "--input", "dir/:other", "-e", TREE, cwd=directory).stdout)
        assert told == box_sees
    else:
        assert told == own
    assert told["./dir/\xff\xfe"][0] == "file" and told["./dir/empty"] == ["directory"] and told["./other/out"] == ["link", "/etc/passwd"]
    assert told["./dir/tool"][3] and told["./dir/run.sh"][3] and not told["./dir/sub/large"][3]
    assert "dir/new" not in told and len(told) == 2 * 14
    assert remote("files", "list").stdout == b""


def test_programs_of_an_input_run(cloche, directory):
    grow(directory / "dir")
    line = ["run", "--input", "dir", "--input", "dir/tool:single", "-l", "bash", "-e",
            "/data/input/dir/run.sh; /data/input/dir/tool; /data/input/single"]
    done = cloche(*line, cwd=directory)
    assert done.stdout == b"it runs\na large one, too\na large one, too\n", done


@pytest.mark.parametrize("name", ["dir/", "dir/.", "link", "dir:x", "empty"])
def test_a_directory_has_the_same_name_as_without_a_server(remote, directory, name):
    (directory / "dir").mkdir()
    (directory / "dir" / "file").write_text("x")
    (directory / "empty").mkdir()
    (directory / "link").symlink_to("dir")
    line = ["run", "--input", name, "-l", "bash", "-e", "cd /data/input; find ."]
    here, there = box.raw(*line, cwd=directory), remote(*line, cwd=directory)
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout) and here.returncode == 0, (here, there)


def test_inputs_of_the_same_name_are_refused_with_the_same_words(remote, directory):
    for name in ("a", "b"):
        (directory / name / "dir").mkdir(parents=True)
    line = ["run", "--input", "a/dir", "--input", "b/dir", "-e", "1"]
    here, there = box.raw(*line, cwd=directory), remote(*line, cwd=directory)
    assert there.returncode == here.returncode == box.BAD_SPEC and there.stderr == here.stderr


def test_what_is_too_much_of_a_directory_is_named(remote, directory):
    os.mkfifo(directory / "pipe")
    done = remote("run", "--input", directory, "-e", "1")
    assert done.returncode == box.BAD_SPEC and b"/pipe' is neither a file nor a directory nor a link" in done.stderr
    (directory / "pipe").unlink()
    deep = directory / "/".join(["d"] * 101)
    deep.mkdir(parents=True)
    done = remote("run", "--input", directory, "-e", "1")
    assert done.returncode == box.BAD_SPEC and b"deeper than the 100 directories" in done.stderr
    shutil.rmtree(directory / "d")
    for i in range(10001):
        (directory / str(i)).symlink_to("x")
    done = remote("run", "--input", directory, "-e", "1")
    assert done.returncode == box.BAD_SPEC and b"one too many: a server takes 10000" in done.stderr
    (directory / "7").unlink()
    done = remote("run", "--input", f"{directory}:dir", "-e", "import os; print(len(os.listdir('/data/input/dir')))")
    assert done.stdout == b"10000\n", done


def test_many_small_files_are_more_than_a_request_holds(remote, directory):
    for i in range(104):
        (directory / str(i)).write_bytes(bytes([i]) * (250 << 10))  # 26 MB in all: the last ones are uploaded
    done = remote("run", "--input", f"{directory}:dir", "-e",
                  "import os; print(sum(set(open(f'/data/input/dir/{i}', 'rb').read()) == {i} for i in range(104)))")
    assert done.stdout == b"104\n", done
    assert remote("files", "list").stdout == b""


def test_what_is_at_the_place_of_a_file_is_not_followed(cloche, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "out" / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "out" / "taken").symlink_to(tmp_path)
    code = "import os; open('link', 'w').write('theirs'); os.mkdir('taken'); open('taken/file', 'w').write('theirs')"
    done = cloche("run", "--output", "out", "-e", code, cwd=tmp_path)
    assert done.returncode == 0 and b"not collected: taken/file: something else is at its place" in done.stderr, done
    assert (tmp_path / "precious").read_text() == "mine" and not (tmp_path / "file").exists()
    assert (tmp_path / "out" / "link").read_text() == "theirs" and not (tmp_path / "out" / "link").is_symlink()


def start(serving, mode, *args):
    line = [box.CLOCHE, *(["--server", url(serving)] if mode == "remote" else []), *args]
    return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("mode", MODES)
def test_output_comes_as_it_is_written(serving, mode):
    process = start(serving, mode, "run", "-e", "import time; print('first', flush=True); time.sleep(1); print('last')")
    assert process.stdout.readline() == b"first\n"
    seen = time.monotonic()
    assert process.communicate()[0] == b"last\n" and time.monotonic() - seen > 0.4


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_cancel_a_run(serving, mode, number):
    process = start(serving, mode, "run", "-e", "import time; print('there', flush=True); time.sleep(60)")
    process.stdout.readline()
    process.send_signal(number)
    output, errors = process.communicate(timeout=10)
    assert process.returncode == -number and errors == b"cloche: cancelled\n", (output, errors)


@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_run_has_a_result(serving, mode):
    process = start(serving, mode, "run", "--json", "-e", "import time; time.sleep(60)")
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=10)
    assert json.loads(output)["cause"] == "cancelled" and process.returncode == -signal.SIGINT, errors


# ---- what a server cannot do ----

@pytest.mark.parametrize("option, value", [("--read", "/etc"), ("--write", "/tmp"), ("--config", "x.conf")])
def test_what_only_this_machine_can_do_is_refused_by_name(remote, option, value):
    done = remote("run", option, value, "-e", "1")
    assert done.returncode == box.BAD_SPEC and option[2:].encode() in done.stderr and b"server" in done.stderr


def test_commands_that_are_done_here_say_so(remote):
    for command in ("repl", "keep", "image", "reap", "serve"):
        done = remote(command)
        assert done.returncode == box.BAD_SPEC and b"is done here" in done.stderr


@pytest.mark.parametrize("line, words", [
    (["--server"], "give the server's address"), (["--server", ""], "give the server's address"),
    (["--server", "ftp://host", "run", "-e", "1"], "is not an address"),
    (["--server", "http://127.0.0.1:1", "run", "-e", "1"], "`cloche serve` starts one"),
])
def test_addresses_that_lead_nowhere(line, words):
    done = box.raw(*line)
    assert words in done.stderr.decode() and done.returncode in (box.BAD_SPEC, box.HOST_FAILURE)


@pytest.mark.parametrize("answer, words", [
    (b"", "broke off its answer"),
    (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
    (b"HTTP/1.1 502 Bad\r\nContent-Length: 4\r\n\r\nhtml", "did not say why"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhtml", "no result"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent", "broke off"),
])
def test_what_answers_otherwise_is_told(answer, words):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        def serve():
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)
        thread = threading.Thread(target=serve)
        thread.start()
        done = box.raw("--server", f"127.0.0.1:{listening.getsockname()[1]}", "run", "-e", "1")
        thread.join()
    assert done.returncode == box.HOST_FAILURE and words in done.stderr.decode(), done


def test_the_environment_names_a_server_too(serving):
    done = box.raw("run", "--json", "-e", "1", env={"CLOCHE_SERVER": url(serving)})
    assert json.loads(done.stdout)["id"].startswith("run_")
    done = box.raw("sandbox", "list", "--quiet", env={"CLOCHE_SERVER": url(serving)})
    assert done.returncode == 0
    assert "id" not in json.loads(box.raw("run", "--json", "-e", "1", env={"CLOCHE_SERVER": ""}).stdout)


def test_keys_and_certificates_come_from_the_environment(fresh, tmp_path):
    made = box.raw("key", "add", "--tenant", "ours", "--data", tmp_path / "data")
    assert made.returncode == 0, made
    key = re.search(r"\S{20,}", made.stdout.decode())[0]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=test", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"], cwd=tmp_path, check=True,
                   capture_output=True)
    serving = fresh("--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem", data=tmp_path / "data")
    trusted = {"SSL_CERT_FILE": str(tmp_path / "cert.pem")}

    def ask(**env):
        return box.raw("--server", url(serving).replace("http:", "https:"), "run", "-e", "print(1)", env=env)
    done = ask(CLOCHE_KEY=key)
    assert done.returncode == box.HOST_FAILURE and b"certificate" in done.stderr, done
    done = ask(**trusted)
    assert done.returncode == box.HOST_FAILURE and b"CLOCHE_KEY" in done.stderr, done
    assert ask(CLOCHE_KEY="wrong", **trusted).returncode == box.HOST_FAILURE
    done = ask(CLOCHE_KEY=key, **trusted)
    assert done.stdout == b"1\n", done


def test_help_is_the_same(remote):
    for command in ("run", "doctor", "sandbox", "files", "fork", "top"):
        done = remote(command, "--help")
        assert done.returncode == 0 and done.stdout == box.raw("help", command).stdout


# ---- sandboxes ----

def test_a_sandbox_keeps_its_state(remote, sandbox):
    assert remote("sandbox", "run", sandbox, "-e", "x = 41").stdout == b""
    assert remote("sandbox", "run", sandbox, "-", input=b"x + 1").stdout == b"42\n"
    done = remote("sandbox", "run", sandbox, "-e", "import sys; print(input()); print('e', file=sys.stderr); 1/0", input=b"line\n")
    assert done.returncode == 1 and done.stdout == b"line\n"
    assert done.stderr.startswith(b"e\n") and b"ZeroDivisionError" in done.stderr
    told = json.loads(remote("sandbox", "run", sandbox, "--json", "-e", "x").stdout)
    assert told["status"] == "ok" and told["results"][0]["media"]["text/plain"] == "41"


def test_limits_of_a_run_in_a_sandbox(remote, sandbox):
    done = remote("sandbox", "run", sandbox, "--wall", "300ms", "-e", "while True: pass")
    assert done.returncode == 137 and b"wall_time: the wall time limit was reached" in done.stderr, done
    assert remote("sandbox", "run", sandbox, "-e", "1 + 1").stdout == b"2\n"


def test_a_sandbox_has_inputs_contexts_and_checkpoints(remote, tmp_path):
    (tmp_path / "small.txt").write_text("small")
    (tmp_path / "large").write_bytes(b"x" * (2 << 20))
    made = remote("sandbox", "create", "--input", "small.txt", "--input", "large:big", cwd=tmp_path)
    assert made.returncode == 0, made
    sandbox = made.stdout.decode().strip()
    look = "import os; print(open('/data/input/small.txt').read(), os.path.getsize('/data/input/big'))"
    assert remote("sandbox", "run", sandbox, "-e", look).stdout == b"small 2097152\n"
    assert remote("files", "list", "-q").stdout == b"", "what was uploaded for it is gone, and the sandbox has it"
    remote("sandbox", "run", sandbox, "-e", "x = 1")
    point = remote("sandbox", "checkpoint", "create", sandbox, "before").stdout.decode().strip()
    assert point.startswith("cp_") and remote("sandbox", "checkpoint", "list", sandbox).stdout.decode() == f"{point}  before\n"
    remote("sandbox", "run", sandbox, "-e", "x = 2")
    assert remote("sandbox", "rollback", sandbox, point).returncode == 0
    assert remote("sandbox", "run", sandbox, "-e", "print(x); " + look).stdout == b"1\nsmall 2097152\n"
    assert remote("sandbox", "checkpoint", "delete", sandbox, point).returncode == 0
    assert remote("sandbox", "checkpoint", "list", sandbox).stdout == b""
    shell = remote("sandbox", "context", "create", sandbox, "-l", "bash").stdout.decode().strip()
    assert remote("sandbox", "run", sandbox, "-c", shell, "-e", "echo from bash").stdout == b"from bash\n"
    assert f"{shell}  bash" in remote("sandbox", "context", "list", sandbox).stdout.decode()
    assert remote("sandbox", "context", "delete", sandbox, shell).returncode == 0
    assert shell not in remote("sandbox", "context", "list", sandbox).stdout.decode()
    for words in (("context", "make", sandbox), ("checkpoint", "delete", sandbox), ("rollback", sandbox)):
        assert remote("sandbox", *words).returncode == 250, words
    assert remote("sandbox", "delete", sandbox).returncode == 0


def test_sandboxes_are_listed_shown_and_extended(remote, sandbox):
    assert sandbox in remote("sandbox", "list").stdout.decode()
    assert remote("sandbox", "list", "-q", "--metadata", "test=remote").stdout.decode().split().count(sandbox) == 1
    assert remote("sandbox", "list", "-q", "--metadata", "test=other").stdout == b""
    assert b"test=remote" in remote("sandbox", "show", sandbox).stdout
    assert b"lives until" in remote("sandbox", "extend", sandbox, "30m").stdout
    more = json.loads(remote("sandbox", "extend", sandbox, "--runs", "77", "--idle", "9m", "--json").stdout)
    assert (more["runs_max"], more["idle_ms"]) == (77, 540000), more
    assert remote("sandbox", "delete", sandbox).returncode == 0
    done = remote("sandbox", "show", sandbox)
    assert done.returncode == box.BAD_SPEC and done.stderr


def test_restart_and_interrupt(remote, sandbox, serving):
    process = start(serving, "remote", "sandbox", "run", sandbox, "-e", "import time; print('on', flush=True); time.sleep(60)")
    process.stdout.readline()
    assert remote("sandbox", "interrupt", sandbox).returncode == 0
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 130 and b"KeyboardInterrupt" in errors, errors
    remote("sandbox", "run", sandbox, "-e", "x = 1")
    assert remote("sandbox", "restart", sandbox).returncode == 0
    assert b"NameError" in remote("sandbox", "run", sandbox, "-e", "x").stderr


def test_commands_in_a_sandbox(remote, sandbox):
    done = remote("sandbox", "exec", sandbox, "--env", "NAME=value", "--cwd", "/tmp", "--", "/bin/sh", "-c",
                  "cat; pwd; echo $NAME >&2; exit 4", input=b"in\n")
    assert (done.returncode, done.stdout, done.stderr) == (4, b"in\n/tmp\n", b"value\n"), done
    assert remote("sandbox", "exec", sandbox, "--", "/bin/sh", "-c", "kill -9 $$").returncode == 137


def test_pictures_are_saved(remote, sandbox, tmp_path):
    code = "class Picture:\n    def _repr_png_(self): return b'\\x89PNG picture'\nPicture()"
    done = remote("sandbox", "run", sandbox, "--save", ".", "-e", code, cwd=tmp_path)
    assert b"image/png saved as ./cloche-1.png" in done.stdout, done
    assert (tmp_path / "cloche-1.png").read_bytes() == b"\x89PNG picture"


def test_forks(remote, sandbox):
    remote("sandbox", "run", sandbox, "-e", "x = 10")
    done = remote("fork", sandbox, "--run", "x + 1", "--run", "print('two'); 1/0")
    assert done.returncode == 1 and b"ZeroDivisionError" in done.stderr
    assert sorted(re.findall(r"^--- (\d): ", done.stdout.decode(), re.M)) == ["0", "1"] and b"\n11\n" in done.stdout
    copies = remote("fork", sandbox, "--count", "2").stdout.decode().split()
    assert len(copies) == 2
    assert remote("sandbox", "run", copies[0], "-e", "x").stdout == b"10\n"
    assert remote("sandbox", "delete", *copies).returncode == 0


@pytest.mark.parametrize("line", [["sandbox", "shwo"], ["sandbox", "show"], ["sandbox", "show", "sbx_none"], ["files", "gte", "x"],
                                  ["fork"], ["fork", "sbx_none"], ["files", "get", "no-such"], ["sandbox", "create", "--memory", "x"],
                                  ["sandbox", "create", "--ttl", "soon"], ["top", "--interval", "x"]])
def test_mistakes_are_told_in_one_sentence(remote, line):
    done = remote(*line)
    assert done.returncode == box.BAD_SPEC and re.fullmatch(rb"cloche: [^\n]+\n", done.stderr), done


# ---- files ----

def test_files_of_a_sandbox(remote, sandbox, tmp_path):
    content = os.urandom(1 << 20)
    (tmp_path / "one").write_bytes(content)
    assert remote("files", "one", f"{sandbox}:/tmp/two", cwd=tmp_path).returncode == 0
    assert remote("files", "put", "one", f"{sandbox}:/tmp/", cwd=tmp_path).returncode == 0
    assert remote("files", "list", "-q", f"{sandbox}:/tmp").stdout.decode().split() == ["/tmp/one", "/tmp/two"]
    assert remote("files", f"{sandbox}:/tmp/two", "three", cwd=tmp_path).returncode == 0
    assert (tmp_path / "three").read_bytes() == content
    assert remote("files", "get", f"{sandbox}:/tmp/two", "-").stdout == content
    archive = remote("files", "get", "--tar", f"{sandbox}:/tmp").stdout
    assert remote("files", "put", "--tar", "-", f"{sandbox}:/home/user", input=archive).returncode == 0
    assert remote("files", "remove", f"{sandbox}:/tmp/two", f"{sandbox}:/tmp/one").returncode == 0
    assert remote("files", "list", f"{sandbox}:/tmp").stdout == b""
    assert remote("files", "get", f"{sandbox}:/home/user/two", "-").stdout == content
    done = remote("files", f"{sandbox}:/tmp/two", "four", cwd=tmp_path)
    assert done.returncode == box.BAD_SPEC and not (tmp_path / "four").exists()


def test_uploads(remote, tmp_path):
    (tmp_path / "sales ä.csv").write_text("day,sum\n1,10\n2,\n")
    done = remote("files", "put", "sales ä.csv", cwd=tmp_path)
    assert done.returncode == 0 and hashlib.sha256((tmp_path / "sales ä.csv").read_bytes()).hexdigest().encode() in done.stdout
    assert remote("files", "put", "-", "from-stdin", input=b"x").returncode == 0
    assert remote("files", "list", "-q").stdout.decode().splitlines() == ["from-stdin", "sales ä.csv"]
    assert remote("files", "list", "-q", "sales").stdout.decode().splitlines() == ["sales ä.csv"]
    told = remote("files", "profile", "sales ä.csv").stdout.decode()
    assert "csv, 16 bytes, 2 rows, 2 columns" in told and re.search(r"^sum +integer +1 +10 +10$", told, re.M), told
    assert remote("files", "get", "sales ä.csv", "-").stdout == (tmp_path / "sales ä.csv").read_bytes()
    assert remote("files", "remove", "sales ä.csv", "from-stdin").returncode == 0
    assert remote("files", "list").stdout == b""


def test_a_broken_upload_goes_on(remote, serving, tmp_path):
    content = os.urandom(4 << 20)
    (tmp_path / "long").write_bytes(content)
    for begin in (content, os.urandom(4 << 20)):  # of this file; of another one with that name
        with socket.create_connection(("127.0.0.1", serving.port)) as broken:
            broken.sendall(b"PUT /v1/files/long HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(content) + begin[:1 << 20])
            time.sleep(0.3)
        time.sleep(0.2)
        done = remote("files", "put", "long", cwd=tmp_path)
        assert done.returncode == 0 and hashlib.sha256(content).hexdigest().encode() in done.stdout, done
    remote("files", "remove", "long")


def test_inputs_leave_no_uploads(remote, tmp_path):
    (tmp_path / "large").write_bytes(bytes(1 << 20))
    assert remote("run", "--input", "large", "-e", "1", cwd=tmp_path).returncode == 0
    assert remote("files", "list").stdout == b""


# ---- how it is ----

def test_doctor_says_the_same(remote):
    here, there = box.raw("doctor"), remote("doctor")
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout)
    assert json.loads(remote("doctor", "--json").stdout)["engines"] == json.loads(box.raw("doctor", "--json").stdout)["engines"]


def test_top_shows_figures_once_into_a_pipe(remote):
    done = remote("top")
    assert done.returncode == 0 and re.search(rb"^runs +\d+", done.stdout, re.M) and b"python" in done.stdout
    assert "pool" in json.loads(remote("top", "--json").stdout)
