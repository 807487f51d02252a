"""POST /v1/run with "results": what a notebook would show, of a run in a box of its own."""
import base64
import json
import os
import time

import box
import pytest

FRAME = "import pandas\npandas.DataFrame({'a': [1, 2]})"
FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone"
WAYS = [(engine, warm) for engine in box.ALL_ENGINES for warm in (True, False)]


def show(serving, code, **fields):
    answer = serving.post("/v1/run", {"code": code, "results": True, **fields})
    assert answer.status == 200, answer
    return answer.json


@pytest.mark.parametrize("isolation, warm", WAYS)
def test_last_value_displays_tables_and_figures_are_results(serving, isolation, warm):
    given = {"isolation": isolation, "warm": warm, "limits": {"memory": "1G", "wall": "60s"}}
    result = show(serving, "print('out')\ndisplay('seen')\nx = 41\nx + 1", **given)
    assert result["stdout"] == "out\n" and result["stderr"] == "" and result["exit_code"] == 0 and result["cause"] == "exit"
    assert result["results"] == [{"is_value": False, "media": {"text/plain": "'seen'"}}, {"is_value": True, "media": {"text/plain": "42"}}]
    table, = show(serving, FRAME, **given)["results"]
    assert table["is_value"] and "<table" in table["media"]["text/html"] and table["media"]["text/plain"].split() == ["a", "0", "1", "1", "2"]
    figure, = show(serving, FIGURE, **given)["results"]
    assert base64.b64decode(figure["media"]["image/png"]).startswith(b"\x89PNG")


def test_they_are_those_of_a_sandbox(serving):
    code = "display({'a': 1})\n'value'"
    sandbox = serving.post("/v1/sandboxes", {}).json["id"]
    try:
        there = serving.post(f"/v1/sandboxes/{sandbox}/run", {"code": code}).json
    finally:
        serving.delete(f"/v1/sandboxes/{sandbox}")
    assert show(serving, code)["results"] == there["results"]


def test_without_the_field_code_is_a_script(serving):
    result = serving.post("/v1/run", {"code": "print(__file__)\n40 + 2"}).json
    assert "results" not in result and result["stdout"].endswith("main.py\n")
    assert serving.post("/v1/run", {"code": "display(1)"}).json["exit_code"] == 1


@pytest.mark.parametrize("warm", [True, False])
def test_all_else_is_as_of_any_run(serving, warm):
    code = "import sys\nopen('/data/output/f', 'w').write(input())\nawaited = await __import__('asyncio').sleep(0, 'later')\nsys.argv[1:], awaited"
    result = show(serving, code, warm=warm, stdin="read\n", args=["a"], collect=True, env={"NAME": "v"})
    assert result["results"][0]["media"]["text/plain"] == "(['a'], 'later')", result
    assert base64.b64decode(result["files"][0]["content_base64"]) == b"read" and result["truncated"]["results"] == 0
    failed = show(serving, "display(1)\ndef f():\n    1/0\nf()", warm=warm)
    assert failed["exit_code"] == 1 and len(failed["results"]) == 1
    assert failed["stderr"].startswith("Traceback") and "1/0" in failed["stderr"] and "ZeroDivisionError" in failed["stderr"]
    assert "cloche" not in failed["stderr"]
    assert show(serving, "import sys\nsys.exit(3)", warm=warm)["exit_code"] == 3
    ended = show(serving, "display(1)\nwhile True: pass", warm=warm, limits={"wall": "1s"})
    assert ended["cause"] == "wall_time" and len(ended["results"]) == 1
    assert show(serving, "(", warm=warm)["exit_code"] == 1


def test_code_that_is_larger_than_a_socket_holds(serving):
    code = f"# {'x' * 3000000}\n6 * 7"
    assert show(serving, code, warm=False)["results"][0]["media"]["text/plain"] == "42"


def test_what_goes_over_the_output_limit_is_counted_and_left_out(serving):
    result = show(serving, "display('x' * 2000)\ndisplay(1)", limits={"output_limit": "1K"})
    assert [item["media"]["text/plain"] for item in result["results"]] == ["1"] and result["truncated"]["results"] == 2002


def test_a_flood_of_results_ends_a_run_as_one_of_output_does(serving):
    result = show(serving, "x = 'x' * 500000\nwhile True: display(x)", limits={"output_limit": "1M", "wall": "30s"})
    assert result["cause"] == "output" and result["usage"]["wall_ms"] < 20000 and len(result["results"]) == 2, result["usage"]


EMPTY = """
from cloche import rich
for _ in range(3000): rich._show("display", {})
"""


def test_results_without_anything_in_them_have_an_end_too(serving):
    assert len(show(serving, EMPTY)["results"]) == 1000
    sandbox = serving.post("/v1/sandboxes", {}).json["id"]
    assert len(serving.post(f"/v1/sandboxes/{sandbox}/run", {"code": EMPTY}).json["results"]) == 1000
    serving.delete(f"/v1/sandboxes/{sandbox}")


@pytest.mark.parametrize("warm", [True, False])
def test_results_are_streamed_as_they_come(serving, warm):
    code = "import time\ndisplay('x' * 500000)\ntime.sleep(1)\nprint(1)\n'last'"
    seen = [(name, data, time.monotonic()) for name, data in serving.events("/v1/run", {"code": code, "results": True, "warm": warm})]
    results = [(data, at) for name, data, at in seen if name == "result"]
    assert [data["is_value"] for data, _ in results] == [False, True] and seen[-1][0] == "end"
    assert results[1][1] - results[0][1] > 0.5
    assert seen[-1][1]["results"] == [data for data, _ in results] and len(results[0][0]["media"]["text/plain"]) == 500002


@pytest.mark.parametrize("vet", ["warn", "block", "off"])
@pytest.mark.parametrize("warm", [True, False])
def test_the_first_filter_reads_it_too(serving, vet, warm):
    assert show(serving, "6 * 7", vet=vet, warm=warm)["results"][0]["media"]["text/plain"] == "42"
    if vet == "block":
        answer = serving.post("/v1/run", {"code": "import socket\nsocket.create_connection(('a', 1))", "results": True, "vet": vet, "warm": warm})
        assert answer.status == 422 and answer.json["error"]["code"] == "vetted" and not answer.json["results"]


def test_forged_words_of_the_channel_are_only_words(serving):
    code = "\n".join(["import os, struct, json", "head = json.dumps({'type': 'vet', 'run': None}).encode()",
                      "frame = struct.pack('<II', len(head), 2) + head + b'{}'",
                      "for fd in range(3, 20):\n    try: os.write(fd, frame + b'\\xff' * 100)\n    except OSError: pass",
                      "print('end')\n1"])
    result = show(serving, code)
    assert result["exit_code"] == 0 and result["stdout"] == "end\n"


@pytest.mark.parametrize("fields, named", [
    ({"code": "1", "language": "bash"}, "bash"), ({"code": "1", "language": "javascript"}, "javascript"),
    ({"command": ["/bin/true"]}, "command"), ({"code": "1", "isolation": "wasm"}, "wasm"), ({"code": "1", "vet": "restricted"}, "restricted")])
def test_what_has_none_is_refused_by_name(serving, fields, named):
    answer = serving.post("/v1/run", {**fields, "results": True})
    error = answer.json["error"]
    assert answer.status == 422 and error["field"] == "results" and named in error["message"], answer


def test_the_field_is_true_or_false(serving):
    answer = serving.post("/v1/run", {"code": "1", "results": "yes"})
    assert answer.status == 400 and answer.json["error"]["field"] == "results"


def test_it_counts_and_is_kept_as_any_run(serving):
    given, key = {"code": "6 * 7", "results": True}, {"Idempotency-Key": os.urandom(8).hex()}
    before = serving.get("/v1/stats").json["runs"]["exit"]
    first, again = (serving.post("/v1/run", given, headers=key) for _ in range(2))
    assert again.headers["Idempotency-Replayed"] == "true" and again.body == first.body
    assert serving.get("/v1/stats").json["runs"]["exit"] == before + 1
    other = serving.post("/v1/run", {**given, "results": False}, headers=key)
    assert other.status == 409, other
    lines = [line for path in (serving.data / "audit").glob("*.jsonl") for line in path.read_text().splitlines()]
    line, = [json.loads(line) for line in lines if first.json["id"] in line]
    assert line["cause"] == "exit" and line["language"] == "python", line
