"""Uploaded files: up, down, resumed, named, counted, expired; what they hold; and that nothing of them is lost."""
import csv
import hashlib
import http.client
import io
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
import urllib.parse

import box
import pytest

CHUNK = 1 << 20


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def upload(serving, name, content, **headers):
    answer = serving.put(f"/v1/files/{name}", content, headers=headers)
    assert answer.status == 201, answer
    return answer.json


def names(serving):
    return [file["name"] for file in serving.get("/v1/files").json["files"]]


def begin(serving, name, content, until, total=None, extra=""):
    """Sends the head of an upload and its first bytes, and leaves it there."""
    connection = serving.socket()
    connection.sendall(f"PUT /v1/files/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {total or len(content)}\r\n{extra}\r\n".encode())
    connection.sendall(content[:until])
    return connection


def offset_of(serving, name):
    answer = serving.request("HEAD", f"/v1/files/{name}")
    return int(answer.headers["Upload-Offset"]) if answer.status in (200, 202) else None


def await_offset(serving, name, least, seconds=10):
    deadline = time.monotonic() + seconds
    while (offset_of(serving, name) or 0) < least:
        assert time.monotonic() < deadline, offset_of(serving, name)
        time.sleep(0.01)


@pytest.fixture
def clean(serving):
    for name in names(serving):
        serving.delete(f"/v1/files/{urllib.parse.quote(name)}")
    return serving


# ---- up and down ----

def test_file_goes_up_and_comes_down(clean):
    content = os.urandom(300_000)
    told = upload(clean, "a.bin", content)
    assert set(told) == {"name", "size", "sha256", "created_at", "expires_at"}
    assert (told["name"], told["size"], told["sha256"]) == ("a.bin", len(content), sha256(content))
    answer = clean.get("/v1/files/a.bin")
    assert answer.status == 200 and answer.body == content
    assert answer.headers["X-Content-SHA256"] == told["sha256"]
    assert answer.headers["Content-Disposition"] == "attachment"
    head = clean.request("HEAD", "/v1/files/a.bin")
    assert head.status == 200 and head.body == b"" and head.headers["Content-Length"] == str(len(content))


@pytest.mark.parametrize("asked, first, last", [("bytes=0-9", 0, 9), ("bytes=90-", 90, 99), ("bytes=-5", 95, 99), ("bytes=50-500", 50, 99)])
def test_part_of_a_file(clean, asked, first, last):
    content = bytes(range(100))
    upload(clean, "r", content)
    answer = clean.get("/v1/files/r", headers={"Range": asked})
    assert answer.status == 206 and answer.body == content[first:last + 1]
    assert answer.headers["Content-Range"] == f"bytes {first}-{last}/100"


def test_range_outside_of_the_file(clean):
    upload(clean, "r", b"abc")
    assert clean.get("/v1/files/r", headers={"Range": "bytes=3-"}).status == 416


def test_empty_file(clean):
    assert upload(clean, "empty", b"")["sha256"] == sha256(b"")
    assert clean.get("/v1/files/empty").body == b""


def test_length_that_is_not_told(clean):
    content = [os.urandom(1000) for _ in range(50)]
    connection = clean.connect()
    connection.request("PUT", "/v1/files/chunked", iter(content), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    answer = connection.getresponse()
    assert answer.status == 201 and json.loads(answer.read())["sha256"] == sha256(b"".join(content))
    connection.close()


def test_hundred_megabytes_come_back_as_they_were(clean):
    block = random.Random(5).randbytes(CHUNK)
    content = b"".join(bytes([i]) + block[1:] for i in range(100))
    assert upload(clean, "large", content)["sha256"] == sha256(content)
    connection = clean.connect()
    connection.request("GET", "/v1/files/large")
    answer, digest = connection.getresponse(), hashlib.sha256()
    while piece := answer.read(CHUNK):
        digest.update(piece)
    connection.close()
    assert digest.hexdigest() == sha256(content)
    clean.delete("/v1/files/large")


@pytest.mark.parametrize("name, shown", [("sales%202026.csv", "sales 2026.csv"), ("gr%C3%B6%C3%9Fe.csv", "größe.csv"), ("a%3Ab", "a:b"),
                                         ("%25", "%"), ("x" * 200, "x" * 200)])
def test_names_may_be_anything_plain(clean, name, shown):
    assert upload(clean, name, b"1")["name"] == shown
    assert clean.get(f"/v1/files/{name}").body == b"1"
    assert names(clean) == [shown]


@pytest.mark.parametrize("name", ["..", ".hidden", "a%2Fb", "a%0Ab", "%FF", "a%00b", "x" * 201, "%2e%2e%2fetc%2fpasswd"])
def test_names_that_are_none(clean, name):
    assert clean.put(f"/v1/files/{name}", b"1").status in (400, 404)
    assert names(clean) == []


def test_same_name_again_is_the_new_file(clean):
    upload(clean, "a", b"old")
    upload(clean, "a", b"new")
    assert clean.get("/v1/files/a").body == b"new" and names(clean) == ["a"]


def test_list_comes_in_pages(clean):
    for name in ("c", "a", "d", "b"):
        upload(clean, name, name.encode() * 10)
    first = clean.get("/v1/files?limit=3").json
    assert [file["name"] for file in first["files"]] == ["a", "b", "c"] and first["next"] == "c" and first["used_bytes"] == 40
    second = clean.get("/v1/files?limit=3&cursor=c").json
    assert [file["name"] for file in second["files"]] == ["d"] and "next" not in second
    assert clean.get("/v1/files?limit=0").error["field"] == "limit"


def test_deleted_file_is_gone(clean):
    upload(clean, "a", b"x")
    assert clean.delete("/v1/files/a").status == 204
    for answer in (clean.get("/v1/files/a"), clean.delete("/v1/files/a"), clean.get("/v1/files/a/profile")):
        assert answer.status == 404 and answer.error["code"] == "not_found"


def test_same_content_is_kept_once(clean):
    content = os.urandom(1000)
    for name in ("one", "two"):
        upload(clean, name, content)
    digest = sha256(content)
    place = clean.data / "store" / digest[:2] / digest
    assert place.stat().st_size == 1000
    clean.delete("/v1/files/one")
    assert place.exists()
    clean.delete("/v1/files/two")
    assert not place.exists()


# ---- uploads that break, and go on ----

def test_broken_upload_goes_on(clean):
    content = os.urandom(5 * CHUNK)
    begin(clean, "b", content, 3 * CHUNK).close()
    await_offset(clean, "b", 3 * CHUNK)
    answer = clean.get("/v1/files/b")
    assert answer.status == 202 and answer.json == {"name": "b", "state": "incomplete", "offset": 3 * CHUNK, "size": 5 * CHUNK}
    assert names(clean) == []
    answer = clean.put("/v1/files/b", content[3 * CHUNK:], headers={"Content-Range": f"bytes {3 * CHUNK}-{5 * CHUNK - 1}/{5 * CHUNK}"})
    assert answer.status == 201 and answer.json["sha256"] == sha256(content)


def test_upload_in_parts(clean):
    content = os.urandom(1000)
    for first in range(0, 1000, 250):
        answer = clean.put("/v1/files/p", content[first:first + 250], headers={"Content-Range": f"bytes {first}-{first + 249}/1000"})
        assert answer.status == (201 if first == 750 else 202), answer
        if first < 750:
            assert answer.headers["Upload-Offset"] == str(first + 250) and answer.json["state"] == "incomplete"
    assert clean.get("/v1/files/p").body == content


def test_part_that_leaves_a_gap_is_refused(clean):
    clean.put("/v1/files/g", b"abc", headers={"Content-Range": "bytes 0-2/10"})
    answer = clean.put("/v1/files/g", b"x", headers={"Content-Range": "bytes 5-5/10"})
    assert answer.status == 409 and answer.headers["Upload-Offset"] == "3" and answer.error["field"] == "Content-Range"
    clean.delete("/v1/files/g")


@pytest.mark.parametrize("text", ["bytes 0-3/10", "bytes 2-1/10", "bytes 0-2/2", "bytes 0-2/*", "octets 0-2/3", "bytes 0-2/3x", "bytes -1-1/3"])
def test_wrong_content_range(clean, text):
    answer = clean.put("/v1/files/w", b"abc", headers={"Content-Range": text})
    assert answer.status == 400 and answer.error["field"] == "Content-Range"


def test_all_is_there_already(clean):
    clean.put("/v1/files/s", b"abc", headers={"Content-Range": "bytes 0-2/6"})
    assert clean.put("/v1/files/s", b"", headers={"Content-Range": "bytes */6"}).status == 202
    clean.put("/v1/files/s", b"def", headers={"Content-Range": "bytes 3-5/6"})
    assert clean.get("/v1/files/s").body == b"abcdef"


def test_a_deleted_name_is_gone_with_an_upload_that_is_under_way(clean):
    first = begin(clean, "cut", b"a" * 100_000, 50_000)
    await_offset(clean, "cut", 50_000)
    assert clean.delete("/v1/files/cut").status == 204
    assert clean.request("HEAD", "/v1/files/cut").status == 404 and not list(clean.data.glob("partial/*/*"))
    first.sendall(b"a" * 50_000)
    assert b" 409 " in first.recv(65536)
    first.close()
    assert clean.request("HEAD", "/v1/files/cut").status == 404 and not list(clean.data.glob("partial/*/*"))


def test_later_upload_of_a_name_cuts_the_earlier_off(clean):
    first = begin(clean, "t", b"a" * 100_000, 50_000)
    await_offset(clean, "t", 50_000)
    upload(clean, "t", b"second")
    first.sendall(b"a" * 50_000)
    assert b" 409 " in first.recv(65536)
    first.close()
    assert clean.get("/v1/files/t").body == b"second"


def test_hash_that_must_hold(clean):
    upload(clean, "h", b"hello", **{"X-Content-SHA256": sha256(b"hello")})
    answer = clean.put("/v1/files/h2", b"jello", headers={"X-Content-SHA256": sha256(b"hello")})
    assert answer.status == 422 and answer.error["field"] == "X-Content-SHA256"
    assert clean.put("/v1/files/h2", b"", headers={"X-Content-SHA256": "5"}).status == 400
    assert names(clean) == ["h"]


@pytest.mark.parametrize("ttl", ["0s", "x", "9999h", "-1"])
def test_wrong_lifetime(clean, ttl):
    assert clean.put(f"/v1/files/l?ttl={ttl}", b"x").error["field"] == "ttl"


def test_file_expires(clean):
    upload(clean, "soon?ttl=2s", b"x")
    assert names(clean) == ["soon"]
    time.sleep(2.1)
    assert clean.get("/v1/files/soon").status == 404 and names(clean) == []
    assert not (clean.data / "store" / sha256(b"x")[:2] / sha256(b"x")).exists()


def test_quota(fresh, tmp_path):
    (tmp_path / "conf").write_text("upload_quota = 100K\n")
    serving = fresh("--config", tmp_path / "conf")
    upload(serving, "a", b"x" * 60_000)
    answer = serving.put("/v1/files/b", b"y" * 60_000)
    assert answer.status == 429 and answer.error["code"] == "quota" and answer.headers["Retry-After"]
    assert "delete" in answer.error["hint"]
    connection = serving.connect()  # one that does not tell its length is stopped on the way
    connection.request("PUT", "/v1/files/b", iter([b"y" * 10_000] * 6), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    assert connection.getresponse().status == 429
    connection.close()
    assert serving.request("HEAD", "/v1/files/b").status == 404, "what was refused leaves nothing"
    assert not list(serving.data.glob("partial/*/b*"))
    answer = serving.put("/v1/files/b", b"y" * 110_000)  # never, whatever is deleted
    assert answer.status == 413 and answer.error["code"] == "too_large" and answer.error["field"] == "name", answer
    connection = serving.connect()
    connection.request("PUT", "/v1/files/b", iter([b"y" * 10_000] * 11), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    assert connection.getresponse().status in (413, 429)
    connection.close()
    upload(serving, "a", b"z" * 90_000)
    assert serving.get("/v1/files").json["used_bytes"] == 90_000
    assert serving.get("/v1/files").json["quota_bytes"] == 102_400


# ---- ends at any moment ----

def await_anew(serving, old_pid):
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        try:
            if serving.pid not in (None, old_pid) and serving.get("/health").status == 200:
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.05)
    raise AssertionError("the server did not come back")


def test_server_is_killed_during_an_upload(fresh):
    serving = fresh()
    kept = os.urandom(100_000)
    upload(serving, "kept", kept)
    content = os.urandom(20 * CHUNK)
    for share in (1, 7, 13):
        connection = begin(serving, "k", content, share * CHUNK)
        await_offset(serving, "k", share * CHUNK)
        pid = serving.pid
        os.kill(pid, signal.SIGKILL)
        connection.close()
        await_anew(serving, pid)
        assert serving.get("/v1/files/kept").body == kept
        assert offset_of(serving, "k") == share * CHUNK and names(serving) == ["kept"]
    first = 13 * CHUNK
    answer = serving.put("/v1/files/k", content[first:], headers={"Content-Range": f"bytes {first}-{len(content) - 1}/{len(content)}"})
    assert answer.status == 201 and answer.json["sha256"] == sha256(content)
    pid = serving.pid
    os.kill(pid, signal.SIGKILL)
    await_anew(serving, pid)
    assert sha256(serving.get("/v1/files/k").body) == sha256(content)


def test_server_is_killed_at_the_end_of_uploads(fresh):
    """What was answered is there; what was not is whole or can go on."""
    serving = fresh()
    content = os.urandom(CHUNK)
    for turn in range(6):
        name = f"k{turn}"
        connection = begin(serving, name, content, len(content))
        time.sleep(turn * 0.004)
        pid = serving.pid
        os.kill(pid, signal.SIGKILL)
        try:
            answered = b" 201 " in connection.recv(4096)
        except OSError:
            answered = False
        connection.close()
        await_anew(serving, pid)
        state = serving.get(f"/v1/files/{name}")
        if state.status == 200:
            assert state.body == content
        else:
            assert not answered and state.status in (202, 404), state
            first = state.json["offset"] if state.status == 202 else 0
            total = len(content)
            span = f"bytes {first}-{total - 1}/{total}" if first < total else f"bytes */{total}"
            assert serving.put(f"/v1/files/{name}", content[first:], headers={"Content-Range": span}).json["sha256"] == sha256(content)


# ---- what they hold ----

def table(rows=2000):
    made = random.Random(1)
    into = io.StringIO()
    writer = csv.writer(into)
    writer.writerow(["id", "city", "amount", "when", "note"])
    for i in range(rows):
        writer.writerow([i, made.choice(["Berlin", "São Paulo", "New York"]), "" if i % 10 == 0 else round(made.uniform(-50, 50), 2),
                         f"2024-{made.randrange(1, 13):02}-01", made.choice(['say "hi"', "a,b", "two\nlines", "NA"])])
    return into.getvalue().encode()


def test_profile_of_a_table(clean):
    content = table()
    told = upload(clean, "sales.csv", content)
    answer = clean.get("/v1/files/sales.csv/profile")
    assert answer.status == 200, answer
    found = answer.json
    rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    assert (found["format"], found["delimiter"], found["header"], found["rows"]) == ("csv", ",", True, len(rows))
    assert (found["size"], found["sha256"]) == (len(content), told["sha256"])
    assert [(column["name"], column["type"]) for column in found["columns"]] == [
        ("id", "integer"), ("city", "text"), ("amount", "number"), ("when", "date"), ("note", "text")]
    amounts = [float(row["amount"]) for row in rows if row["amount"]]
    amount = found["columns"][2]
    assert (amount["nulls"], amount["min"], amount["max"]) == (len(rows) - len(amounts), min(amounts), max(amounts))
    assert found["columns"][4]["nulls"] == sum(row["note"] == "NA" for row in rows)
    assert found["sample"] == [list(row.values()) for row in rows[:20]]


def test_numbers_of_a_profile_have_no_more_digits_than_they_need(serving):
    serving.put("/v1/files/digits.csv", b"a,b,c\n0.1,0.30000000000000004,1e22\n0.7,8.41,3.0\n")
    answer = serving.get("/v1/files/digits.csv/profile")
    a, b, c = answer.json["columns"]
    assert (a["min"], a["max"], b["min"], b["max"], c["min"], c["max"]) == (0.1, 0.7, 0.30000000000000004, 8.41, 3.0, 1e22)
    for text in (b'"min":0.1,"max":0.7}', b'"min":0.30000000000000004,"max":8.41}', b'"max":1e+22}'):
        assert text in answer.body, answer.body
    assert serving.get("/v1/files/digits.csv/profile").body == answer.body
    serving.delete("/v1/files/digits.csv")


def test_profile_is_kept(clean):
    upload(clean, "a.csv", table(10))
    first = clean.get("/v1/files/a.csv/profile")
    started = time.monotonic()
    assert clean.get("/v1/files/a.csv/profile").body == first.body
    assert time.monotonic() - started < 0.2
    digest = first.json["sha256"]
    assert (clean.data / "profiles" / "local" / digest).exists()
    clean.delete("/v1/files/a.csv")
    assert not (clean.data / "profiles" / "local" / digest).exists()


@pytest.mark.parametrize("content, name", [(b'{"a":1}\n{"a":2}\n', "jsonl"), (b'[{"a":1}]', "json"), (os.urandom(50_000), "unknown"),
                                           (b"", "unknown"), (b'a,b\n"' + b"x" * 100_000, "csv"), (b"[" * 100_000, "json")],
                         ids=["jsonl", "json", "random", "empty", "open-quote", "nested"])
def test_profile_of_other_files(clean, content, name):
    upload(clean, "x", content)
    answer = clean.get("/v1/files/x/profile")
    assert answer.status == 200 and answer.json["format"] == name, answer


# ---- tenants ----

def new_key(serving, tenant, *options):
    done = subprocess.run([box.CLOCHE, "key", "add", "--data", serving.data, "--tenant", tenant, *options], capture_output=True, text=True, check=True)
    return re.search(r"\S{30,}", done.stdout)[0]


def test_files_of_another_tenant_do_not_exist(fresh):
    serving = fresh()
    anna = {"Authorization": f"Bearer {new_key(serving, 'anna')}"}
    bert = {"Authorization": f"Bearer {new_key(serving, 'bert', '--uploads', '10K')}"}
    content = table(400)
    assert serving.put("/v1/files/a.csv", content, headers=anna).status == 201
    assert serving.get("/v1/files/a.csv/profile", headers=anna).status == 200
    serving.put("/v1/files/part", b"abc", headers={**anna, "Content-Range": "bytes 0-2/6"})
    for method, path in (("GET", "a.csv"), ("HEAD", "a.csv"), ("DELETE", "a.csv"), ("GET", "a.csv/profile"), ("GET", "part"), ("DELETE", "part")):
        theirs = serving.request(method, f"/v1/files/{path}", headers=bert)
        nobodys = serving.request(method, f"/v1/files/{path.replace('a.csv', 'b.csv').replace('part', 'trap')}", headers=bert)
        assert theirs.status == nobodys.status == 404
        assert theirs.body.replace(b"a.csv", b"b.csv").replace(b"part", b"trap") == nobodys.body
    assert serving.get("/v1/files", headers=bert).json == {"files": [], "used_bytes": 0, "quota_bytes": 10240}
    assert serving.post("/v1/run", {"code": "1", "files": [{"name": "x", "upload": "a.csv"}]}, headers=bert).status == 422
    assert serving.put("/v1/files/part", b"def", headers={**bert, "Content-Range": "bytes 3-5/6"}).status == 409
    assert serving.put("/v1/files/a.csv", content[:5000], headers=bert).status == 201  # a name of their own
    assert serving.put("/v1/files/b.csv", content[:6000], headers=bert).status == 429
    assert serving.get("/v1/files/a.csv", headers=anna).body == content
    assert serving.delete("/v1/files/a.csv", headers=bert).status == 204
    assert serving.get("/v1/files/a.csv", headers=anna).body == content
    assert serving.get("/v1/files/a.csv").status == 401


# ---- in boxes ----

READ = "import hashlib; print(hashlib.sha256(open('/data/input/d.bin','rb').read()).hexdigest())"


@pytest.mark.parametrize("isolation", box.ENGINES)
@pytest.mark.parametrize("warm", [True, False])
def test_upload_is_an_input_of_a_run(clean, warm, isolation):
    content = os.urandom(200_000)
    upload(clean, "data", content)
    code = READ.replace("'/data/input/d.bin'", "__import__('os').environ['CLOCHE_INPUT'] + '/d.bin'")
    result = clean.post("/v1/run", {"code": code, "files": [{"name": "d.bin", "upload": "data"}], "warm": warm, "isolation": isolation}).json
    assert result["stdout"].strip() == sha256(content), result


def test_upload_in_a_box_is_read_only(clean):
    upload(clean, "data", b"kept")
    code = "import os\nfor do in (lambda: open('/data/input/d','w'), lambda: os.remove('/data/input/d'), lambda: os.chmod('/data/input/d', 0o777)):\n" \
           "    try: do(); print('done')\n    except OSError as e: print(e.errno)"
    result = clean.post("/v1/run", {"code": code, "files": [{"name": "d", "upload": "data"}]}).json
    assert "done" not in result["stdout"] and len(result["stdout"].split()) == 3, result
    assert clean.get("/v1/files/data").body == b"kept"


def test_upload_that_is_not_there(clean):
    answer = clean.post("/v1/run", {"code": "1", "files": [{"name": "d", "upload": "nothing"}]})
    assert answer.status == 422 and answer.error["field"] == "files" and "nothing" in answer.error["message"]


def test_deleted_upload_stays_for_who_reads_it(clean):
    upload(clean, "data", b"x" * 1000)
    events = clean.events("/v1/run", {"code": "import time\nprint('here', flush=True)\ntime.sleep(1)\nprint(len(open('/data/input/d').read()))",
                                      "files": [{"name": "d", "upload": "data"}], "stream": True})
    output = ""
    for name, data in events:
        output += data.get("text", "") if name == "stdout" else ""
        if name == "stdout" and "here" in data.get("text", ""):
            assert clean.delete("/v1/files/data").status == 204
        if name == "end":
            break
    assert "1000" in output


def test_half_a_request_harms_nobody(clean):
    with clean.socket() as connection:
        connection.sendall(b"PUT /v1/files/z HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
        connection.shutdown(socket.SHUT_WR)
        time.sleep(0.2)
    assert clean.get("/health").status == 200
    assert names(clean) == []
