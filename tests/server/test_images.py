"""A server has runs and sandboxes of any image warm, and shows of each what is ready."""
import pathlib
import re
import shutil
import tempfile
import time

import pytest

import server
from images import Images

SEEN = "import sys; print(open('/etc/color').read(), 'wave' in sys.modules, 'colorsys' in sys.modules)"


@pytest.fixture(scope="module")
def colored():
    """A server over images of two colors, of which one has its own set of modules."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="images-", dir="/tmp"))
    path.chmod(0o755)
    images = Images(path)
    for color in ("blue", "red"):
        images.make(color, {"etc/color": color})
    config = images.config("preload = colorsys", "preload.sound = wave", "warm = red sound")
    with server.Server("--config", config, "--spares", "1") as serving:
        serving.images = images
        yield serving
    shutil.rmtree(path, ignore_errors=True)


def rows(serving, image, kind="python"):
    return [row for row in serving.get("/v1/stats").json["pool"]["kinds"] if row.get("image") == image and row["kind"] == kind]


def await_that(is_so, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def await_spare(serving, image):
    await_that(lambda: any(row["spares"] for row in rows(serving, image)))


def run(serving, image, **fields):
    answer = serving.post("/v1/run", {"code": SEEN, "image": image, **fields})
    assert answer.status == 200, answer
    return answer.json["stdout"]


def test_runs_of_each_image_find_boxes_of_their_own(colored):
    assert run(colored, "blue") == "blue False False\n"  # cold
    for image, loaded in (("blue", "False True"), ("red", "True False")):
        await_spare(colored, image)
        assert run(colored, image) == f"{image} {loaded}\n"
        assert rows(colored, image)[0]["hits"] == 1


def test_run_may_ask_for_a_set_that_the_operator_named(colored):
    assert run(colored, "blue", preload="sound").startswith("blue")
    await_that(lambda: run(colored, "blue", preload="sound") == "blue True False\n")
    for path in ("/v1/run", "/v1/sandboxes"):
        answer = colored.post(path, {**({"code": "1"} if path == "/v1/run" else {}), "preload": "noise"})
        assert answer.status == 422 or answer.status == 400, answer
        assert answer.error["field"] == "preload" and "default, sound" in answer.error["message"], answer


def in_sandbox(serving, image, **fields):
    sandbox = serving.post("/v1/sandboxes", {"image": image, **fields})
    assert sandbox.status == 201, sandbox
    path = f"/v1/sandboxes/{sandbox.json['id']}"
    answer = serving.post(path + "/run", {"code": SEEN})
    assert serving.request("DELETE", path).status == 204
    return answer.json["stdout"]


def test_sandboxes_are_forks_of_an_interpreter_of_their_image(colored):
    await_that(lambda: in_sandbox(colored, "blue") == "blue False True\n")
    await_that(lambda: in_sandbox(colored, "red") == "red True False\n")
    await_that(lambda: in_sandbox(colored, "red", preload="default") == "red False True\n")
    for _ in range(3):
        assert in_sandbox(colored, "blue") == "blue False True\n"
        assert in_sandbox(colored, "red") == "red True False\n"
    assert in_sandbox(colored, "red", warm=False) == "red False False\n"


def test_sandbox_of_an_image_that_was_made_anew_sees_the_new_one(colored):
    await_that(lambda: in_sandbox(colored, "blue") == "blue False True\n")
    colored.images.remove("blue")
    colored.images.make("blue", {"etc/color": "navy"})
    assert in_sandbox(colored, "blue").startswith("navy")
    await_that(lambda: in_sandbox(colored, "blue") == "navy False True\n")
    colored.images.remove("blue")
    refused = colored.post("/v1/sandboxes", {"image": "blue"})
    assert refused.status in (400, 422) and refused.error["field"] == "image", refused
    colored.images.make("blue", {"etc/color": "blue"})


def test_figures_tell_image_and_set(colored):
    await_spare(colored, "red")
    pool = colored.get("/v1/stats").json["pool"]
    assert {(row["image"], row["preload"], row["kept"]) for row in pool["images"]} >= {("host", "default", True), ("red", "sound", True)}
    assert pool["kinds"][0]["image"] == "host" and pool["kinds"][-1]["kind"] == "wasm"
    text = colored.get("/metrics").body.decode()
    assert re.search(r'^cloche_pool_zygotes\{kind="python",image="red",preload="sound"\} [1-9]', text, re.M)
    assert re.search(r'^cloche_pool_hits_total\{kind="python",image="host",preload="default"\} \d+', text, re.M)
