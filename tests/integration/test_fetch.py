"""Modules that fetch through the gateway: what the rules allow, what they do not, limits, TLS, and what is left afterwards."""
import contextlib
import gzip
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import box
import fetching
import keeper
import leftovers
import pytest
import server

DENIED, FAILED, LIMITED, MALFORMED = -1, -2, -3, -4


@pytest.fixture
def origin():
    with fetching.Origin() as serving:
        yield serving


def one(method, url, *options, headers="", body="", **more):
    [answer] = fetching.fetch([(method, url, headers, body)], *options, **more)
    return answer


# ---- what works ----

def test_granted_module_fetches_and_the_result_says_from_where(origin):
    result = fetching.run([("GET", f"{origin.url}/hello")], "--fetch", origin.site)
    assert fetching.answers_of(result) == [fetching.Answer(200, b"hello", None)], result
    assert result.fetched == [{"method": "GET", "site": origin.url, "status": 200}] and result.stderr == ""


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
def test_methods_headers_and_bodies_arrive_as_they_were_given(origin, method):
    body = "" if method in ("GET", "HEAD") else "a=1&b=\r\n"
    answer = one(method, f"{origin.url}/echo?q=%20#part", "--fetch", origin.site, headers="X-One: 1\nX-Empty:\nAuthorization: Bearer t", body=body)
    assert answer.status == 200
    if method == "HEAD":
        assert answer.body == b""
        return
    seen = json.loads(answer.text)
    headers = dict(seen["headers"])
    assert (seen["method"], seen["body"], seen["path"]) == (method, body, "/echo?q=%20")
    assert headers["X-One"] == "1" and headers["X-Empty"] == "" and headers["Authorization"] == "Bearer t"
    assert headers["Host"] == origin.site and headers["User-Agent"].startswith("cloche/")
    assert not {"Expect", "Content-Type", "Cookie", "Accept-Encoding", "Proxy-Connection"} & set(headers), headers


def test_many_requests_of_one_run(origin):
    answers = fetching.fetch([("GET", f"{origin.url}/big?{size}") for size in (0, 1, 5000, 5001, 1 << 20)], "--fetch", origin.site)
    assert [len(answer.body) for answer in answers] == [0, 1, 5000, 5001, 1 << 20]


def test_answer_that_is_not_read_is_no_obstacle(origin):
    text = fetching.module([("GET", f"{origin.url}/big?300000"), ("GET", f"{origin.url}/hello")])
    unread = text.replace("(br_if $more (i32.gt_s (local.get $got)", "(br_if $more (i32.gt_s (i32.const 0)", 1)
    assert unread != text
    answers = fetching.answers_of(box.run("--language", "wasm", "--fetch", origin.site, "-e", unread))
    assert (answers[0].status, len(answers[0].body)) == (200, 5000) and answers[1].body == b"hello"


def test_environment_names_no_proxy(origin):
    proxy = {"http_proxy": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1", "ALL_PROXY": "socks5://127.0.0.1:1"}
    assert one("GET", f"{origin.url}/hello", "--fetch", origin.site, env=proxy).status == 200


def test_redirects_are_the_modules_own_to_follow_and_go_through_the_rules(origin):
    answers = fetching.fetch([("GET", f"{origin.url}/to?http://127.0.0.1:1/"), ("GET", "http://127.0.0.1:1/")], "--fetch", origin.site)
    assert (answers[0].status, answers[0].location) == (302, "http://127.0.0.1:1/") and answers[1].status == DENIED
    assert [path for _, path in origin.seen] == ["/to?http://127.0.0.1:1/"]


# ---- what is granted ----

def test_module_without_the_grant_is_not_even_linked(origin):
    result = fetching.run([("GET", origin.url)])
    assert result.returncode == box.BAD_SPEC and "'cloche.fetch' (group 'fetch')" in result.error["message"], result
    result = fetching.run([("GET", origin.url)], "--host", "wasi", "--host", "fetch")
    assert result.returncode == box.BAD_SPEC and "no host that may be reached is named" in result.error["message"], result


@pytest.mark.parametrize("rule, words", [
    ("http://a.test", "is not"), ("a.test:0", "port"), ("a.test:70000", "port"), ("a.test:", "port"), ("", "is not a host name"),
    ("a..test", "is not a host name"), ("-a.test", "is not a host name"), ("a.-b.test", "is not a host name"), ("*", "is not a host name"), ("*.test", "below a top one"), ("a.*.test", "is not a host name"),
    ("b\u00fccher.test", "xn--"), ("0x7f.1", "another spelling"), ("127.1", "another spelling"), ("2130706433", "another spelling"),
    ("[::ffff:7f00:1]", "usual spelling"), ("[::0001]", "usual spelling"), ("a.test=name", "address"), ("127.0.0.1=10.0.0.1", "already"),
    ("a b.test", "space"), ("user@a.test", "is not a host name"), ("a.test/path", "is not a host name"), ("x" * 64 + ".test", "is not a host name")])
def test_rules_that_are_none_are_refused_by_name(rule, words):
    result = box.run("--language", "wasm", "--fetch", rule, "-e", "(module)")
    assert result.returncode == box.BAD_SPEC and words in result.error["message"] and result.error["field"] == "fetch", result


def test_only_modules_can_be_granted_hosts():
    result = box.run("--isolation", "container", "--fetch", "a.test", "-e", "1")
    assert result.returncode == box.BAD_SPEC and "only the engine wasm" in result.error["message"]
    result = box.run("--isolation", "wasm", "--fetch", "a.test", "-e", "1")
    assert result.returncode == box.BAD_SPEC and "modules of one's own" in result.error["message"]


@pytest.mark.parametrize("hosts, asked, is_allowed", [
    ("", "a.test", False), ("a.test", "a.test", True), ("a.test", "A.Test.", True), ("a.test", "b.test", False), ("a.test", "x.a.test", False),
    ("*.a.test", "x.a.test", True), ("*.a.test", "*.a.test", True), ("*.a.test", "a.test", False), ("*.a.test", "x.y.a.test", False),
    ("x.a.test", "*.a.test", False), ("a.test", "a.test:443", True), ("a.test", "a.test:8080", False), ("a.test:8080", "a.test:8080", True),
    ("a.test:8080", "a.test", False), ("a.test", "a.test=127.0.0.1", False), ("a.test=10.0.0.1", "a.test=10.0.0.1", True),
    ("a.test=10.0.0.1", "a.test", True), ("b.test, a.test", "a.test", True), ("a.test", "127.0.0.1", False), ("a.test", "a.test.evil", False)])
def test_operators_hosts_are_the_most_that_can_be_asked_for(config, hosts, asked, is_allowed):
    operator = config(f"fetch.hosts = {hosts}") if hosts else config("memory = 256M")
    result = box.run("--config", operator, "--language", "wasm", "--fetch", asked, "-e", '(module (func (export "_start")))')
    if is_allowed:
        assert (result.cause, result.exit_code) == ("exit", 0), result
    else:
        assert result.returncode == box.BAD_SPEC and str(operator) in result.error["message"], result
        assert asked in result.error["message"] and (hosts.split("=")[0] or "none") in result.error["message"]


def test_who_allows_https_does_not_allow_http_on_its_port(config):
    requests = [("GET", f"{scheme}://a.test:{port}/") for scheme, port in (("http", 443), ("https", 80), ("http", 80), ("https", 443))]
    answers = fetching.fetch(requests, "--config", config("fetch.hosts = a.test=127.0.0.1"), "--fetch", "a.test:443")
    assert [answer.status for answer in answers] == [DENIED, DENIED, DENIED, FAILED], answers  # nobody listens there
    assert "hosts of this run: a.test:https" in answers[0].text


@pytest.mark.parametrize("line, words", [
    ("fetch.hosts = a.test, http://b", "'http://b'"), ("fetch.requests = many", "a whole number"), ("fetch.wall = 1h", "from 10 to 600000"),
    ("fetch.response = 1G", "a size such as 8M"), ("fetch.ca = certs.pem", "absolute path"), ("fetch.host = a.test", "not a setting")])
def test_wrong_settings_are_named(config, line, words):
    result = box.run("--config", config(line), "-e", "1")
    assert result.returncode == box.BAD_SPEC and words in result.error["message"] and ":1:" in result.error["message"], result


# ---- what is not allowed: none of it reaches the server that a rule would ----

SPELLINGS = ["http://2130706433:{port}/", "http://0x7f000001:{port}/", "http://0x7f.0.0.1:{port}/", "http://0177.0.0.1:{port}/", "http://127.1:{port}/",
             "http://127.0.1:{port}/", "http://127.0.0.01:{port}/", "http://127.0.0.1.:{port}/", "http://[::ffff:127.0.0.1]:{port}/",
             "http://[::ffff:7f00:1]:{port}/", "http://[0:0:0:0:0:ffff:7f00:1]:{port}/", "http://[64:ff9b::7f00:1]:{port}/", "http://[::127.0.0.1]:{port}/",
             "http://[::1]:{port}/", "http://0:{port}/", "http://0.0.0.0:{port}/", "http://127.0.0.2:{port}/", "http://localhost:{port}/",
             "http://169.254.169.254/", "http://100.100.100.200/", "http://[fd00:ec2::254]/", "http://10.0.0.1/", "http://192.168.0.1/",
             "http://127.0.0.1/", "https://127.0.0.1/", "http://127.0.0.1.nip.io:{port}/"]


@pytest.mark.parametrize("url", SPELLINGS)
def test_no_other_spelling_of_an_address_is_the_one_that_is_allowed(origin, url):
    answers = fetching.fetch([("GET", url.format(port=origin.port)), ("GET", f"{origin.url}/hello")], "--fetch", origin.site)
    assert answers[0].status == DENIED and answers[0].text, answers
    assert answers[1].status == 200 and origin.seen == [("GET", "/hello")]


@pytest.mark.parametrize("url", [
    "ftp://{site}/", "file:///etc/passwd", "gopher://{site}/", "//{site}/", "{site}/", "http:/{site}/", "http:{site}", "", "http://", "http:///x",
    "http://user@{site}/", "http://a.test@{site}/", "http://{site}@a.test/", "http://{site}\\@a.test/", "http://a.test:80@{site}/", "http://{site}:80/",
    "http://127.0.0.1:/", "http://127.0.0.1:+80/", "http://127.0.0.1:0{port}0/", "http://127.0.0.1:{port}a/", "http://[127.0.0.1]:{port}/x\n",
    "http://127.0.0.1%00.a.test:{port}/", "http://127.0.0.1\0.a.test:{port}/", "http://127.0.0.1\t:{port}/", "http://{site}/a b", "http://{site}/a\r\nX: y",
    "http://\uff11\uff12\uff17.0.0.1:{port}/", "http://127\u30020.0.1:{port}/", "http://%31%32%37.0.0.1:{port}/", " http://{site}/", "http://{site} /",
    "http://[::1/", "http://[]/", "http://[::1]x:{port}/", "http://[fe80::1%25lo]:{port}/", "http://a_b\u00e9.test/", "http://" + "a." * 200 + "test/"])
def test_addresses_that_can_be_read_in_two_ways_are_not_read(origin, url):
    text = url.format(site=origin.site, port=origin.port)
    answers = fetching.fetch([("GET", text), ("GET", f"{origin.url}/hello")], "--fetch", origin.site, "--fetch", "a.test")
    assert answers[0].status in (MALFORMED, DENIED) and answers[0].text, answers
    assert answers[1].status == 200 and origin.seen == [("GET", "/hello")]


@pytest.mark.parametrize("rule, url, is_denied", [
    ("a.test:{port}=127.0.0.1", "http://a.test:{port}/hello", False), ("a.test:{port}=127.0.0.1", "HTTP://A.TEST.:{port}/hello", False),
    ("a.test:{port}=127.0.0.1", "http://a.test.evil:{port}/hello", True), ("a.test:{port}=127.0.0.1", "http://xa.test:{port}/hello", True),
    ("a.test:{port}=127.0.0.1", "http://x.a.test:{port}/hello", True), ("a.test:{port}=127.0.0.1", "http://a.test/hello", True),
    ("a.test:{port}=127.0.0.1", "http://127.0.0.1:{port}/hello", True), ("*.a.test:{port}=127.0.0.1", "http://x.a.test:{port}/hello", False),
    ("*.a.test:{port}=127.0.0.1", "http://a.test:{port}/hello", True), ("*.a.test:{port}=127.0.0.1", "http://x.y.a.test:{port}/hello", True),
    ("*.a.test:{port}=127.0.0.1", "http://.a.test:{port}/hello", True), ("*.a.test:{port}=127.0.0.1", "http://x.a.test.evil:{port}/hello", True),
    ("*.a.test:{port}=127.0.0.1", "http://xa.test:{port}/hello", True)])
def test_names_are_allowed_exactly(origin, rule, url, is_denied):
    answer = one("GET", url.format(port=origin.port), "--fetch", rule.format(port=origin.port))
    assert (answer.status in (DENIED, MALFORMED)) == is_denied and (answer.body == b"hello") != is_denied, answer
    assert len(origin.seen) == (0 if is_denied else 1)


def test_denial_names_host_and_rules_on_stderr_and_in_the_result(origin):
    result = fetching.run([("GET", "https://evil.test/secret?token=1")], "--fetch", "a.test:80=10.0.0.9", "--fetch", "*.b.test")
    [answer] = fetching.answers_of(result)
    reason = "'evil.test:443' is not among the hosts of this run: a.test:80, *.b.test"
    assert (answer.status, answer.text) == (DENIED, reason)
    assert result.stderr == f"fetch: https://evil.test/secret?token=1: denied: {reason}\n"
    assert result.fetched == [{"method": "GET", "site": "https://evil.test:443", "error": "denied", "reason": reason}]


@pytest.mark.parametrize("headers", [
    "Host: evil.test", "host: x", "Content-Length: 5", "Transfer-Encoding: chunked", "Connection: close", "Upgrade: h2c", "TE: trailers", "Expect: 100-continue",
    "Proxy-Authorization: x", "Keep-Alive: 1", "X: a\r", "X: a\rY: b", "X: a\0b", "X: \x1b", "no colon", ": empty", "X Y: 1", "X\t: 1", "H\u00f6st: 1", " X: 1",
    "X: 1\n Y: folded", "\n".join(f"X{number}: 1" for number in range(70))])
def test_headers_that_are_not_a_modules_to_set_are_refused(origin, headers):
    answers = fetching.fetch([("GET", f"{origin.url}/hello", headers), ("GET", f"{origin.url}/hello", "X-Fine: 1\nX-Too: caf\u00e9")], "--fetch", origin.site)
    assert answers[0].status == MALFORMED and answers[0].text and answers[1].status == 200, answers
    assert len(origin.seen) == 1


@pytest.mark.parametrize("method", ["get", "CONNECT", "TRACE", "OPTIONS", "PROPFIND", "GET / HTTP/1.1\r\nX:", "", "GET\0"])
def test_other_methods_are_refused(origin, method):
    answers = fetching.fetch([(method, f"{origin.url}/hello"), ("GET", f"{origin.url}/hello", "", "body"), ("GET", f"{origin.url}/hello")],
                             "--fetch", origin.site)
    assert [answer.status for answer in answers] == [MALFORMED, MALFORMED, 200] and len(origin.seen) == 1


@pytest.mark.parametrize("request_", [("G" * 17, "http://a.test/"), ("GET", "http://a.test/" + "x" * 8192), ("GET", "http://a.test/", "X: " + "y" * 32768)])
def test_words_that_are_too_long_are_refused_before_they_are_sent(request_):
    answers = fetching.fetch([request_, ("GET", "http://b.test/")], "--fetch", "a.test")
    assert [answer.status for answer in answers] == [MALFORMED, DENIED] and "longer" in answers[0].text


def test_memory_outside_of_the_module_is_none():
    for words in ("(i32.const -1) (i32.const 2)", "(i32.const 0xfffff0) (i32.const 0x7fffffff)"):
        text = fetching.module([]).replace('(func (export "_start") ', f'(func (export "_start") (drop (call $read {words}))')
        result = box.run("--language", "wasm", "--fetch", "a.test", "-e", text)
        assert result.cause == "trap" and "outside" in result.detail, result


# ---- names, and where they lead ----

def in_small_internet(answers, requests, *options, resolvers=1):
    """What the requests came to, which names were asked for, and how long the run took."""
    script = pathlib.Path(fetching.__file__).with_name("small_internet.py")
    done = subprocess.run(["unshare", "--net", "--mount", sys.executable, "-B", script, json.dumps(answers), box.CLOCHE, "run", "--json",
                           "--language", "wasm", *options, "-e", fetching.module(requests)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "SMALL_INTERNET_RESOLVERS": str(resolvers)})
    assert done.returncode == 0, done
    told = json.loads(done.stdout)
    return fetching.answers_of(box.Result(told["stdout"], told["returncode"], told["stderr"])), told["questions"], told["seconds"]


PUBLIC = "93.184.216.34"


@pytest.mark.parametrize("addresses, words", [
    ([PUBLIC], None), ([PUBLIC, PUBLIC], None), (["127.0.0.1"], "loopback"), ([PUBLIC, "127.0.0.1"], "loopback"), (["10.1.2.3"], "private"),
    (["172.31.0.1"], "private"), (["192.168.1.1", PUBLIC], "private"), (["169.254.169.254"], "metadata"), (["100.100.100.200"], "inner network"),
    (["0.0.0.0"], "this network"), (["224.0.0.1"], "multicast"), (["255.255.255.255"], "reserved"), (["192.0.2.1"], "documents"), (["::1"], "loopback"),
    (["::ffff:127.0.0.1"], "not of the public internet"), (["64:ff9b::7f00:1"], "not of the public internet"), (["fd00:ec2::254"], "not of the public internet"),
    (["fe80::1"], "not of the public internet"), (["2002:7f00:1::1"], "tunnel"), (["2001:0:1::"], "tunnel"), (["93.184.216.1"], "this machine's own"),
    (["93.184.217.7"], "this machine's own"), (["93.184.218.7"], "this machine's own"), (["2a00:1450:2::7"], "this machine's own"),
    (["93.184.216.255"], "this machine's own"), ([PUBLIC, "2a00:1450:2::7"], "this machine's own")])
def test_names_that_lead_inside_are_denied(addresses, words):
    [answer], questions, _ = in_small_internet({"api.test": [addresses]}, [("GET", "http://api.test/")], "--fetch", "api.test")
    if words:
        assert answer.status == DENIED and words in answer.text and "'api.test' leads to" in answer.text, answer
    else:
        assert (answer.status, answer.text) == (200, "public")
    assert questions == ["api.test"]


def test_name_that_changes_its_mind_is_looked_at_each_time():
    answers, _, _ = in_small_internet({"api.test": [[PUBLIC], ["127.0.0.1"]]}, [("GET", "http://api.test/")] * 2, "--fetch", "api.test")
    assert [answer.status for answer in answers] == [200, DENIED], answers


def test_names_of_the_hosts_file_are_looked_at_too():
    [answer], questions, _ = in_small_internet({}, [("GET", "http://hosted.test/")], "--fetch", "hosted.test")
    assert answer.status == DENIED and "127.0.0.1, which is loopback" in answer.text and questions == []


def test_nobody_is_asked_about_names_that_are_not_allowed():
    requests = [("GET", "http://data-in-a-name.evil.test/"), ("GET", "http://x.api.test/"), ("GET", "http://api.test/")]
    answers, questions, _ = in_small_internet({"api.test": [[PUBLIC]]}, requests, "--fetch", "api.test")
    assert [answer.status for answer in answers] == [DENIED, DENIED, 200] and questions == ["api.test"]


def test_unknown_name_fails_and_nothing_is_put_behind_it():
    [answer], questions, _ = in_small_internet({}, [("GET", "http://nobody.test/")], "--fetch", "nobody.test")
    assert answer.status == FAILED and "'nobody.test' has no address" in answer.text and questions == ["nobody.test"]


@pytest.mark.parametrize("resolvers, wall, seconds", [(1, "200ms", 1), (3, "200ms", 1), (3, "2s", 2)])
def test_resolvers_that_do_not_answer_are_given_up_within_the_limit(config, resolvers, wall, seconds):
    """Or within a second: they are waited for in whole ones."""
    operator = config("fetch.hosts = silent.test, api.test", f"fetch.wall = {wall}")
    requests = [("GET", "http://api.test/"), ("GET", "http://silent.test/")]
    answers, _, took = in_small_internet({"api.test": [[PUBLIC]], "silent.test": [None]}, requests, "--config", operator, "--wall", "30s",
                                         "--fetch", "api.test", "--fetch", "silent.test", resolvers=resolvers)
    assert answers[0].status == 200 and took < seconds + 1.5, (answers, took)
    if wall == "200ms":  # else it is both at once
        assert answers[1].status == LIMITED and "within 200 ms (fetch.wall)" in answers[1].text, answers


@pytest.mark.parametrize("wall, seconds", [("1s", 2), ("3s", 3)])
def test_resolvers_that_answer_half_of_it_are_given_up_within_the_limit(config, wall, seconds):
    operator = config("fetch.hosts = half.test", f"fetch.wall = {wall}")
    _, _, took = in_small_internet({"half.test": [[PUBLIC]]}, [("GET", "http://half.test/")], "--config", operator, "--wall", "30s",
                                   "--fetch", "half.test")
    assert took < seconds + 1, took


def test_machine_with_more_addresses_than_can_be_kept_has_no_gateway(tmp_path):
    """What is not known to be the machine's own would be connected to."""
    text = tmp_path / "module.wat"
    text.write_text(fetching.module([]))
    for count, is_fit in ((256, True), (257, False)):
        batch = tmp_path / "addresses"
        batch.write_text("link set lo up\n" + "".join(f"addr add 93.184.{number // 250}.{number % 250}/32 dev lo\n" for number in range(count)))
        done = subprocess.run(["unshare", "--net", "sh", "-c", 'ip -batch "$1" && shift && exec "$@"', "sh", batch, box.CLOCHE, "run", "--json",
                               "--fetch", "a.test", text], capture_output=True, text=True, timeout=60)
        result = box.Result(done.stdout, done.returncode, done.stderr)
        assert result.cause == "exit" if is_fit else "this machine's own addresses" in result.error["message"], result


# ---- TLS ----

def test_certificates_are_verified(origin, config, shared):
    ca, pair = fetching.make_certificate(shared, "api.test")
    with fetching.Origin(pair) as secure:
        site = f"api.test:{secure.port}"
        hosts = f"fetch.hosts = {site}=127.0.0.1, other.test:{secure.port}=127.0.0.1"
        options = ("--fetch", site, "--fetch", f"other.test:{secure.port}")
        requests = [("GET", f"https://{site}/hello"), ("GET", f"https://other.test:{secure.port}/hello")]
        answers = fetching.fetch(requests, "--config", config(hosts, f"fetch.ca = {ca}"), *options)
        assert answers[0].body == b"hello"
        assert answers[1].status == FAILED and "certificate" in answers[1].text and "other.test" in answers[1].text
        answers = fetching.fetch(requests[:1], "--config", config(hosts), *options)
        assert answers[0].status == FAILED and "certificate" in answers[0].text
        assert secure.seen == [("GET", "/hello")]


def test_certificates_that_are_not_there_are_named(config, tmp_path):
    result = fetching.run([], "--config", config("fetch.hosts = a.test", f"fetch.ca = {tmp_path}/none"), "--fetch", "a.test")
    assert result.returncode == box.BAD_SPEC and "fetch.ca" in result.error["message"]


# ---- limits ----

def test_what_head_is_told_of_does_not_count(origin, config):
    operator = config(f"fetch.hosts = {origin.site}", "fetch.response = 10000")
    [answer] = fetching.fetch([("HEAD", f"{origin.url}/big?10001")], "--config", operator, "--fetch", origin.site)
    assert (answer.status, answer.body) == (200, b""), answer


def test_answers_are_limited(origin, config):
    operator = config(f"fetch.hosts = {origin.site}", "fetch.response = 10000")
    requests = [("GET", f"{origin.url}/{path}") for path in ("big?10000", "big?10001", "endless", "many-headers", "hello")]
    answers = fetching.fetch(requests, "--config", operator, "--fetch", origin.site)
    assert [answer.status for answer in answers] == [200, LIMITED, LIMITED, LIMITED, 200], answers
    assert "fetch.response" in answers[1].text and "fetch.response" in answers[2].text and "headers" in answers[3].text


def test_bodies_are_limited(origin, config):
    operator = config(f"fetch.hosts = {origin.site}", "fetch.body = 1000")
    requests = [("POST", f"{origin.url}/echo", "", "x" * length) for length in (1000, 1001, 200000, 0)]
    answers = fetching.fetch(requests, "--config", operator, "--fetch", origin.site)
    assert [answer.status for answer in answers] == [200, LIMITED, LIMITED, 200] and "fetch.body" in answers[1].text
    assert len(origin.seen) == 2


def test_requests_are_counted_also_those_that_are_denied(origin, config):
    operator = config(f"fetch.hosts = {origin.site}", "fetch.requests = 3")
    requests = [("GET", "http://evil.test/"), *[("GET", f"{origin.url}/hello")] * 4]
    answers = fetching.fetch(requests, "--config", operator, "--fetch", origin.site)
    assert [answer.status for answer in answers] == [DENIED, 200, 200, LIMITED, LIMITED] and "fetch.requests" in answers[3].text


def test_slow_servers_are_given_up(origin, config):
    operator = config(f"fetch.hosts = {origin.site}", "fetch.wall = 300ms")
    started = time.monotonic()
    answers = fetching.fetch([("GET", f"{origin.url}/slow?5"), ("GET", f"{origin.url}/hello")], "--config", operator, "--fetch", origin.site)
    assert [answer.status for answer in answers] == [LIMITED, 200] and "fetch.wall" in answers[0].text and time.monotonic() - started < 4


def test_wall_time_of_the_run_holds_while_a_module_waits(origin):
    started = time.monotonic()
    result = fetching.run([("GET", f"{origin.url}/slow?8")], "--fetch", origin.site, "--wall", "500ms")
    assert (result.cause, result.timed_out) == ("wall_time", True) and time.monotonic() - started < 4, result


def test_waiting_is_no_cpu_time_and_the_gateways_is_not_the_runs(origin):
    result = fetching.run([("GET", f"{origin.url}/slow?1")], "--fetch", origin.site, "--cpu", "500ms")
    assert result.cause == "exit" and result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"] < 400, result


def test_requests_that_are_not_listed_are_counted(origin):
    result = fetching.run([("GET", "http://evil.test/")] * 1100, "--fetch", origin.site)
    assert (len(fetching.answers_of(result)), len(result.fetched), result.fetched_more) == (1100, 1000, 100)
    assert "fetched_more" not in fetching.run([("GET", f"{origin.url}/hello")], "--fetch", origin.site).json


# ---- the gateway itself ----

def gateways():
    """{pid: lines of its status}"""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        status = box.process_status(pid)
        if status and status["Name"] == "cloche-fetch" and not status["State"].startswith("Z"):
            found[int(pid)] = status
    return found


def begin_waiting(origin, *prefix, **more):
    """A run that waits for an answer, and its gateway."""
    before = set(gateways())
    run = subprocess.Popen([*prefix, box.CLOCHE, "run", "--json", "--language", "wasm", "--fetch", origin.site, "-e",
                            fetching.module([("GET", f"{origin.url}/slow?20")])], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, **more)
    deadline = time.monotonic() + 20
    while not origin.seen and time.monotonic() < deadline:
        time.sleep(0.02)
    new = {pid: status for pid, status in gateways().items() if pid not in before}
    mine = [pid for pid, status in new.items() if int(status["PPid"]) == run.pid]
    assert origin.seen and len(mine) == 1, (origin.seen, new)
    return run, mine[0]


def is_gone(pid, seconds=3):
    deadline = time.monotonic() + seconds
    while pid in gateways() and time.monotonic() < deadline:
        time.sleep(0.02)
    return pid not in gateways()


def test_gateway_has_no_rights_and_nothing_of_its_starter(origin):
    secret = {**os.environ, "CANARY": "in-the-environment"}
    with open(pathlib.Path("/etc/hostname")) as other:
        run, pid = begin_waiting(origin, env=secret, pass_fds=[other.fileno()])
        status = box.process_status(pid)
        uid = int(status["Uid"].split()[0])
        descriptors = {name: os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        run.kill()
        run.communicate()
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}, status
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == ("0" if server.SANITIZED else "2") and status["Groups"] == ""
    assert 0x7d010000 <= uid < 0x7d020000 and len(set(status["Uid"].split() + status["Gid"].split())) == 1
    assert b"CANARY" not in environment
    assert {descriptors[name] for name in "012"} == {"/dev/null"} and "hostname" not in str(descriptors), descriptors
    assert sum(path.startswith("socket:") for path in descriptors.values()) <= 6, descriptors


def test_layers_tell_of_the_gateway_and_what_holds_it(origin):
    [layer] = [each for each in fetching.run([("GET", f"{origin.url}/hello")], "--fetch", origin.site).layers if each["name"] == "gateway"]
    assert layer["active"] and "own filter, Landlock" in layer["detail"], layer
    without = box.run("--language", "wasm", "-e", '(module (func (export "_start")))')
    assert not [each for each in without.layers if each["name"] == "gateway"]


def test_gateway_ends_with_its_run_however_that_ends(origin):
    before = box.census()
    for end in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        origin.seen.clear()
        run, pid = begin_waiting(origin)
        run.send_signal(end)
        run.communicate(timeout=10)
        assert is_gone(pid), end
    box.raw("reap")
    assert not leftovers.leftovers(before)


def test_run_goes_on_without_a_gateway_that_was_killed(origin):
    run, pid = begin_waiting(origin)
    os.kill(pid, signal.SIGKILL)
    output, _ = run.communicate(timeout=10)
    result = box.Result(output.decode(), run.returncode, "")
    [answer] = fetching.answers_of(result)
    assert (answer.status, answer.text) == (FAILED, "the gateway has ended") and result.cause == "exit"


def test_user_without_rights_has_a_gateway_too(origin, shared):
    user = 65534
    home = {"HOME": str(shared), "XDG_RUNTIME_DIR": "", "TMPDIR": "/tmp"}
    text = fetching.module([("GET", f"{origin.url}/hello")])
    result = box.run("--language", "wasm", "--fetch", origin.site, "-e", text, user=user, env=home)
    assert fetching.answers_of(result)[0].body == b"hello", result
    assert not [pid for pid, status in gateways().items() if int(status["Uid"].split()[0]) == user]


HEAD = struct.Struct("<IIIIQ")
MAGIC = 0x66636c63
RIGHTLESS = ("--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs")


class Gateway:
    """The program itself, in the place of who would start it: what a module could say that has broken out of Wasmtime."""

    def __init__(self, *taking):
        limits = {"requests": 10, "body": 1000, "response": 1000, "wall": 1000}
        self.requests, theirs = socket.socketpair()
        self.control, their_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given = os.memfd_create("settings")
        os.write(given, b"".join(f"{name}\0{value}\0".encode() for name, value in limits.items()))
        descriptors = (theirs.fileno(), their_control.fileno(), given)
        shell = "exec 3<&%d 4<&%d 5<&%d; exec \"$@\"" % descriptors
        self.process = subprocess.Popen(["bash", "-c", shell, "bash", "setpriv", *(taking or RIGHTLESS),
                                         box.BUILD / "cloche-fetch"], pass_fds=descriptors, stdin=subprocess.DEVNULL, env={})
        for end in (theirs, their_control):
            end.close()
        os.close(given)

    def __enter__(self):
        self.requests.settimeout(20)
        self.control.settimeout(20)
        self.word = self.control.recv(4096)
        return self

    def __exit__(self, *unused):
        self.requests.close()
        self.control.close()
        assert self.process.wait(10) in (0, 1), self.process.returncode


def frame(method=b"GET", url=b"http://a.test/", headers=b"", body=b""):
    return HEAD.pack(MAGIC, len(method), len(url), len(headers), len(body)) + method + url + headers + body


@pytest.mark.parametrize("bytes_", [
    b"", b"x", b"\0" * 24, HEAD.pack(MAGIC, 17, 0, 0, 0), HEAD.pack(MAGIC, 0, 8193, 0, 0), HEAD.pack(MAGIC, 0, 0, 32769, 0),
    HEAD.pack(MAGIC, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffffffffffff), HEAD.pack(MAGIC + 1, 3, 0, 0, 0) + b"GET", frame()[:-1], frame(body=b"x" * 5000)[:-1],
    HEAD.pack(MAGIC, 0, 0, 0, 0xffffffffffffffff) + b"x" * 100000], ids=range(11))
def test_gateway_answers_no_frame_that_cannot_be(bytes_):
    with Gateway() as gateway:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # it has ended without reading all
            gateway.requests.sendall(bytes_)
            gateway.requests.shutdown(socket.SHUT_WR)
            assert gateway.requests.recv(4096) == b""
    with Gateway() as gateway:  # one that can is answered
        assert gateway.word[:1] == b"r"
        gateway.requests.sendall(frame())
        assert struct.unpack("<Ii", gateway.requests.recv(4096)[:8]) == (MAGIC, DENIED)


def test_gateway_ends_with_either_of_the_others():
    for name in ("requests", "control"):
        with Gateway() as gateway:
            getattr(gateway, name).close()
            assert gateway.process.wait(5) == 0


def test_gateway_refuses_to_have_rights():
    for taking in (("--no-new-privs",), RIGHTLESS[:-1]):  # with root's, and with a way to get some
        with Gateway(*taking) as gateway:
            assert gateway.word[:1] == b"u" and b"privileges" in gateway.word, gateway.word
    done = subprocess.run([box.BUILD / "cloche-fetch"], capture_output=True, timeout=20)
    assert done.returncode == 2 and b"started by cloche" in done.stderr


def test_gateway_tells_every_request_also_to_who_listens_late():
    count = 500

    def read_answers():
        with contextlib.suppress(OSError):  # which are of no interest here, but must not be in the way
            while gateway.requests.recv(65536):
                pass

    with Gateway() as gateway:
        gateway.requests.sendall(frame() * count)
        threading.Thread(target=read_answers, daemon=True).start()
        time.sleep(0.5)  # until there is no room for more
        words = [gateway.control.recv(4096) for _ in range(count)]
        assert {word[:1] for word in words} == {b"f"}


def test_rest_of_an_answer_is_never_the_next_one(origin):
    """Also if a request in between was refused before it went out: what is left would be read as words of the gateway."""
    forged = b"x" * 5000 + struct.pack("<IiIIQ", MAGIC, 200, 0, 0, 6) + b"forged"
    with raw_origin(OK + b"Content-Length: %d\r\n\r\n" % len(forged) + forged) as evil:
        text = fetching.module([("GET", f"http://{evil}/"), ("GET", "http://a/" + "x" * 9000), ("GET", f"{origin.url}/hello")])
        unread = text.replace("(br_if $more (i32.gt_s (local.get $got)", "(br_if $more (i32.gt_s (i32.const 0)", 1)
        answers = fetching.answers_of(box.run("--language", "wasm", "--fetch", evil, "--fetch", origin.site, "-e", unread))
    assert unread != text and [answer.status for answer in answers] == [200, MALFORMED, 200] and answers[2].body == b"hello", answers


@contextlib.contextmanager
def raw_origin(reply, again=b""):
    """A server that says these bytes, whatever it is asked, and then others for as long as somebody listens."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(reply)
                    while again:
                        connection.sendall(again)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


OK = b"HTTP/1.1 200 OK\r\n"
PACKED = gzip.compress(b"x" * 100000)
CHUNKED_GZIP = f"{len(PACKED):x}\r\n".encode() + PACKED + b"\r\n0\r\n\r\n"


@pytest.mark.parametrize("reply, again, status", [
    (b"", b"", FAILED), (b"garbage\r\n\r\n", b"", FAILED), (b"HTTP/1.1\r\n\r\n", b"", FAILED), (b"HTTP/9.9 200 OK\r\n\r\n", b"", FAILED),
    (OK + b"Content-Length: 10\r\n\r\nabc", b"", FAILED), (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"", FAILED),
    (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKED_GZIP, b"", FAILED),
    (OK + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED_GZIP, b"", FAILED),
    (OK + b"transfer-encoding:\tChunked \r\n\r\n1\r\na\r\n0\r\n\r\n", b"", 200),
    (OK + b"Content-Length: 99999999999999999999999\r\n\r\n", b"", LIMITED), (OK + b"Content-Length: 999999999999\r\n\r\n", b"", LIMITED),
    (OK + b"A\0B: x\r\nContent-Length: 0\r\n\r\n", b"", FAILED), (OK + b"X: ", b"y" * 65536, None), (OK, b"X: y\r\n" * 1000, LIMITED),
    (OK + b"\r\n", b"z" * 65536, LIMITED), (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", None), (OK, b"", FAILED),
    (OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", b"", 200), (OK + b"Set-Cookie: a=b\r\nContent-Length: 0\r\n\r\n", b"", 200)])
def test_servers_that_do_not_speak_as_they_should_harm_nobody(origin, config, reply, again, status):
    with raw_origin(reply, again) as strange:
        operator = config(f"fetch.hosts = {strange}, {origin.site}", "fetch.wall = 2s", "fetch.response = 1M")
        requests = [("GET", f"http://{strange}/"), ("GET", f"{origin.url}/echo")]
        answers = fetching.fetch(requests, "--config", operator, "--fetch", strange, "--fetch", origin.site)
    assert answers[0].status == status if status else answers[0].status in (FAILED, LIMITED), answers[0]
    assert status == 200 or answers[0].text
    assert answers[1].status == 200 and "Cookie" not in answers[1].text


# ---- keepers and servers ----

def test_keeper_runs_it_cold(origin, config):
    operator = config(f"fetch.hosts = {origin.site}")
    with keeper.Keeper("--config", operator):
        for _ in range(2):
            assert one("GET", f"{origin.url}/hello", "--warm", "--config", operator, "--fetch", origin.site).body == b"hello"


def test_server_allows_what_its_operator_does_and_no_more(origin, config):
    body = {"language": "wasm", "code": fetching.module([("GET", f"{origin.url}/hello"), ("GET", "http://127.0.0.1:1/")]), "fetch": [origin.site]}
    before = box.census()
    with server.Server("--config", config(f"fetch.hosts = {origin.site}")) as serving:
        for _ in range(2):
            reply = serving.post("/v1/run", body)
            assert reply.status == 200, reply
            answers = fetching.answers_of(box.Result(json.dumps(reply.json), 0, ""))
            assert [answer.status for answer in answers] == [200, DENIED]
            assert [row.get("status", row.get("error")) for row in reply.json["fetched"]] == [200, "denied"]
        refused = serving.post("/v1/run", {**body, "fetch": ["127.0.0.1:1"]})
        assert refused.status == 422 and "fetch.hosts" in json.dumps(refused.json)
    with server.Server() as serving:
        refused = serving.post("/v1/run", body)
        assert refused.status == 422 and "allowed (fetch.hosts, built-in): none" in json.dumps(refused.json), refused
    assert not leftovers.leftovers(before)


def test_runs_are_sent_to_a_server_with_what_they_may_fetch(origin, config):
    with server.Server("--config", config(f"fetch.hosts = {origin.site}")) as serving:
        there = {"CLOCHE_SERVER": f"http://127.0.0.1:{serving.port}"}
        text = fetching.module([("GET", f"{origin.url}/hello")])
        result = box.run("--language", "wasm", "--fetch", origin.site, "-e", text, env=there)
        assert fetching.answers_of(result)[0].body == b"hello" and result.fetched[0]["status"] == 200, result
        refused = box.run("--language", "wasm", "--fetch", "a.test", "-e", text, env=there)
        assert refused.returncode == box.BAD_SPEC and "'a.test' is not among" in refused.error["message"]


def post_aside(serving, body):
    """A thread that asks, and a list for what is answered."""
    replies = []

    def ask():
        with contextlib.suppress(OSError):  # the server may be killed meanwhile
            replies.append(serving.post("/v1/run", body))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread, replies


def waiting_body(origin, seconds):
    return {"language": "wasm", "code": fetching.module([("GET", f"{origin.url}/slow?{seconds}")]), "fetch": [origin.site]}


def await_seen(origin):
    deadline = time.monotonic() + 20
    while not origin.seen and time.monotonic() < deadline:
        time.sleep(0.02)
    assert origin.seen


def test_no_gateway_outlives_a_keeper_that_was_killed(origin, config):
    before = set(gateways())
    with server.Server("--config", config(f"fetch.hosts = {origin.site}")) as serving:
        post_aside(serving, waiting_body(origin, 20))
        await_seen(origin)
        [pid] = set(gateways()) - before
        os.kill(serving.process.pid, signal.SIGKILL)
        assert is_gone(pid)


def test_gateway_of_a_user_survives_the_end_of_other_boxes(origin, config, shared):
    """Whose boxes share that user: what is left of one is told from its neighbours'."""
    user, place = 65534, shared / "own"
    place.mkdir()
    os.chown(place, user, user)
    operator = shared / "cloche.conf"
    operator.write_text(f"fetch.hosts = {origin.site}\n")
    program = shared / "cloche"
    program.write_text(f'#!/bin/sh\nexec setpriv --reuid {user} --regid {user} --clear-groups {box.CLOCHE} "$@"\n')
    program.chmod(0o755)
    home = {"HOME": str(place), "XDG_RUNTIME_DIR": str(place), "TMPDIR": str(place), "CLOCHE_KEEPER": str(place / "socket")}
    with server.Server("--config", operator, program=program, data=place / "data", env=home) as serving:
        other, ends = post_aside(serving, {"code": "while True: pass", "isolation": "process", "limits": {"wall": "2s"}})
        time.sleep(0.5)  # it knows the children that there were before it: this one comes later
        thread, replies = post_aside(serving, waiting_body(origin, 3))
        await_seen(origin)
        for each in (other, thread):
            each.join(30)
        assert ends[0].json["cause"] == "wall_time", ends
    [answer] = fetching.answers_of(box.Result(replies[0].body.decode(), 0, ""))
    assert answer.status == 200, answer
