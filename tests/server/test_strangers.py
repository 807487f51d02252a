"""Connections without a key: they are many, they wait, and they keep nobody out."""
import contextlib
import http.client
import resource
import socket
import subprocess
import time

import box
import private_network
import pytest
import server

IDLE = 4300  # more than there is room for


@pytest.fixture(autouse=True)
def descriptors():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 16384), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def key(tmp_path):
    return subprocess.run([box.CLOCHE, "key", "add", "--tenant", "t", "--data", tmp_path], capture_output=True, text=True, check=True).stdout.strip()


def serve(tmp_path, key, **options):
    return server.Server("--spares", "0", "--preload", "json", data=tmp_path, key=key, **options)


@contextlib.contextmanager
def silent(port, count):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in range(count)]


def is_closed(connection, seconds):
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_many_who_say_nothing_keep_nobody_out(census, tmp_path, key):
    with serve(tmp_path, key) as serving, contextlib.closing(serving.connect(20)) as early:
        assert serving.get("/v1/sandboxes", connection=early).status == 200
        with silent(serving.port, IDLE) as idle:
            assert serving.post("/v1/run", {"code": "print(1)"}, connection=serving.connect(20)).json["stdout"] == "1\n"
            assert is_closed(idle[0], 20)  # the oldest went
            assert serving.get("/v1/sandboxes", connection=early).status == 200  # and not who was known


def test_who_takes_long_for_a_first_request_is_not_waited_for(census, tmp_path, key):
    with serve(tmp_path, key) as serving, contextlib.closing(serving.connect(60)) as known, serving.socket() as slow, serving.socket() as asked:
        assert serving.get("/v1/sandboxes", connection=known).status == 200
        asked.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert asked.recv(4096).startswith(b"HTTP/1.1 200")
        deadline = time.monotonic() + 60
        try:
            for byte in b"GET /health HTTP/1.1\r\nX: " + b"x" * 1000:  # byte by byte: never still, never done
                slow.sendall(bytes([byte]))
                assert time.monotonic() < deadline
                if is_closed(slow, 0.5):
                    break
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert is_closed(asked, 20)  # a question that needs no key does not make one known
        assert serving.get("/v1/sandboxes", connection=known).status == 200


def test_one_address_has_a_part_of_the_room(census, tmp_path, key):
    with private_network.entered(), serve(tmp_path, key, listen="0.0.0.0:0") as serving, silent(serving.port, 1100) as idle:
        def ask(source):
            connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=20, source_address=(source, 0))
            with contextlib.closing(connection):
                return serving.get("/v1/sandboxes", connection=connection).status
        assert is_closed(idle[-1], 20)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            ask("127.0.0.1")
        assert ask("127.0.0.2") == 200
