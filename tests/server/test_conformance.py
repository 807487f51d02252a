"""docs/openapi.json: valid, whole, and true. Its truth is tried by schemathesis, which makes requests from it, right ones and
wrong ones, and compares the answers of the real server with it.

The tools are in BUILD/python-test (setup/install-python)."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CLOCHE_BUILD", ROOT / "build")).resolve()
TOOLS = BUILD.with_name(BUILD.name.removesuffix("-sanitized")) / "python-test" / "bin"  # the same for both
DESCRIPTION = ROOT / "docs" / "openapi.json"

# Pages for people, not of the API.
NOT_DESCRIBED = {("GET", "/"), ("GET", "/assets/pyodide/{file}"), ("GET", "/assets/{path...}")}
# These do not end by themselves when they are right; tests of their own have them.
ENDLESS = "(/events|/files/watch|/exec/pty)$"
# How the checks may end: what the machine lacks is no failure of the server.
CONFIGURATION = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "501"]
"""
SECONDS = 20
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
          "response_schema_conformance")


@pytest.fixture(scope="module")
def description():
    return json.loads(DESCRIPTION.read_text())


@pytest.fixture(scope="module")
def tools():
    if not (TOOLS / "schemathesis").exists():
        pytest.skip(f"no {TOOLS}: run setup/install-python {BUILD.name} test")
    return TOOLS


def routes():
    done = subprocess.run([BUILD / "tests" / "server-routes"], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def operations(description):
    for path, item in description["paths"].items():
        for method, operation in item.items():
            if method in ("get", "put", "post", "delete", "patch", "head"):
                yield method.upper(), path, operation


KEY = {"$ref": "#/components/parameters/IdempotencyKey"}


def test_description_is_valid(tools):
    done = subprocess.run([tools / "openapi-spec-validator", "--schema", "3.1", DESCRIPTION], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_route_is_described_and_everything_described_is_a_route(description):
    there = {(method, path) for method, path, *_ in routes()} - NOT_DESCRIBED
    there = {(method, path.replace("...}", "}")) for method, path in there}
    told = {(method, path) for method, path, _ in operations(description)}
    assert sorted(there - told) == [], "routes that the description does not have"
    assert sorted(told - there) == [], "described, but no route of the server"


def test_described_as_open_is_open(description):
    is_open = {(method, path.replace("...}", "}")): access == "open" for method, path, access, *_ in routes()}
    for method, path, operation in operations(description):
        assert (operation.get("security") == []) == is_open[method, path], (method, path)


def test_names_and_parts_are_described(description):
    seen = set()
    for method, path, operation in operations(description):
        assert operation.get("summary") and operation.get("operationId"), (method, path)
        assert operation["operationId"] not in seen, operation["operationId"]
        seen.add(operation["operationId"])
        parameters = operation.get("parameters", []) + description["paths"][path].get("parameters", [])
        given = set()
        for parameter in parameters:
            while "$ref" in parameter:
                parameter = description["components"]["parameters"][parameter["$ref"].rpartition("/")[2]]
            if parameter["in"] == "path":
                given.add(parameter["name"])
        assert given == set(re.findall(r"\{(\w+)\}", path)), (method, path)


def test_parameters_of_queries_are_those_of_the_routes(description):
    taken = {(method, path.replace("...}", "}")): {name.rstrip(".") for name in names} for method, path, _, *names in routes()}
    for method, path, operation in operations(description):
        told = {entry["name"] for entry in map(lambda entry: resolved(description, entry), operation.get("parameters", [])) if entry["in"] == "query"}
        assert told == taken[method, path], (method, path)


def test_every_order_takes_a_key_that_keeps_it_from_being_done_twice(description):
    for path, operations in description["paths"].items():
        given = operations.get("post", {"parameters": [KEY]})["parameters"]
        assert KEY in given, path


def test_server_gives_its_description(serving, description):
    assert serving.get("/v1/openapi.json").json == description


def with_real_things(description, things):
    """The description with values for {id} and the like that are there, beside one that is not: else all would answer 404."""
    text = json.loads(json.dumps(description))
    for path, item in text["paths"].items():
        for method in list(item):
            if method == "parameters" or not path.startswith("/v1/sandboxes/{id}"):
                continue
            if method == "delete" and path == "/v1/sandboxes/{id}":
                continue  # the box is for all
            parts = re.findall(r"\{(\w+)\}", path)
            kept = [entry for entry in item[method].get("parameters", []) if resolved(text, entry).get("in") != "path"]
            item[method]["parameters"] = kept + [
                {"name": part, "in": "path", "required": True, "schema": {"enum": [things[part], things[part][:4] + "0" * 22]}}
                for part in parts]
        if path.startswith("/v1/sandboxes/{id}"):
            item["parameters"] = [] if "parameters" in item and all(
                resolved(text, entry).get("in") == "path" for entry in item["parameters"]) and path != "/v1/sandboxes/{id}" \
                else item.get("parameters", [])
        for method in item:
            for answer in item[method].get("responses", {}).values() if method != "parameters" else ():
                if "text/event-stream" in answer.get("content", {}):  # else it would be taken for the schema of one event
                    answer["content"]["text/event-stream"] = {}
    return text


def resolved(description, entry):
    return description["components"]["parameters"][entry["$ref"].rpartition("/")[2]] if "$ref" in entry else entry


def run_schemathesis(tools, place, description, url):
    # It cannot make archives: any bytes are as good.
    (place / "openapi.json").write_text(json.dumps(description).replace("application/x-tar", "application/octet-stream"))
    (place / "schemathesis.toml").write_text(CONFIGURATION)
    command = [tools / "schemathesis", "--config-file", place / "schemathesis.toml", "run", place / "openapi.json", "--url", url,
               "--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-time", str(SECONDS), "--seed", os.environ.get("CONFORMANCE_SEED", "1"),
               "--generation-database", "none", "--workers", "1", "--request-timeout", "30", "--suppress-health-check", "all",
               "--no-shrink", "--warnings", "off", "--no-color", "--exclude-path-regex", ENDLESS]
    return subprocess.run(command, capture_output=True, text=True, cwd=place, timeout=300,
                          env={"PATH": os.environ["PATH"], "HOME": str(place), "LANG": "C.UTF-8"})


def test_answers_are_as_described(fresh, tools, description, tmp_path):
    serving = fresh("--spares", "2")
    things = {"id": "sbx_" + "0" * 22, "context": "ctx_" + "0" * 22, "checkpoint": "cp_" + "0" * 22, "exec": "exec_" + "0" * 22}
    if any(path == "/v1/sandboxes" for path in description["paths"]):
        made = serving.post("/v1/sandboxes", {"ttl": "10m", "limits": {"wall": "5s"}})
        assert made.status == 201, made
        things["id"], things["context"] = made.json["id"], made.json["contexts"][0]
        point = serving.post(f"/v1/sandboxes/{things['id']}/checkpoints", {})
        if point.status == 201:
            things["checkpoint"] = point.json["id"]
    serving.put("/v1/files/there.csv", b"a,b\n1,2\n")
    pid = serving.pid
    done = run_schemathesis(tools, tmp_path, with_real_things(description, things), f"http://127.0.0.1:{serving.port}")
    assert done.returncode == 0, done.stdout[-15000:] + done.stderr[-2000:]
    assert serving.pid == pid and serving.get("/health").status == 200, "it is the same server as before"
