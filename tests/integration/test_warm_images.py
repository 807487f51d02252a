"""A keeper has boxes ready of every image, and of every set of modules that the operator names; each run gets one of its own image."""
import os
import pathlib
import shutil
import tempfile
import time

import pytest

import box
import keeper
from images import Images

COLOR = "print(open('/etc/color').read())"
LOADED = "import sys; print(sorted(name for name in ('colorsys', 'wave') if name in sys.modules))"


@pytest.fixture
def images():
    """A store that users of boxes may enter."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="images-", dir="/tmp"))
    path.chmod(0o755)
    yield Images(path)
    shutil.rmtree(path, ignore_errors=True)


class Warm:
    """A keeper over these images, and runs that go to it."""

    def __init__(self, images, *lines):
        self.config = images.config(*lines)
        self.kept = keeper.Keeper("--spares", "1", "--preload", "colorsys", "--config", self.config, minimum=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kept.close()

    def run(self, image, code, *arguments):
        return box.run("--warm", "--config", self.config, "--image", image, *arguments, "-e", code)

    def kinds(self, image, kind="python", preload=None):
        return [row for row in self.kept.state()["kinds"] if row.get("image") == image and row["kind"] == kind
                and preload in (None, row["preload"])]

    def counts(self, image, kind="python", preload=None):
        rows = self.kinds(image, kind, preload)
        return {name: sum(row[name] for row in rows) for name in ("hits", "misses", "spares", "failures")}

    def images(self):
        return [row["image"] for row in self.kept.state()["images"]]

    def await_spare(self, image, kind="python", preload=None, seconds=60):
        self.await_that(lambda: self.counts(image, kind, preload)["spares"] > 0, seconds)

    def await_that(self, is_so, seconds=30):
        deadline = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < deadline, self.kept.state()
            time.sleep(0.05)

    def warm_up(self, image, **about):
        """The first run is cold, and a box is ready for the next."""
        result = self.run(image, "pass")
        assert result.cause == "exit", result
        self.await_spare(image, **about)


# ---- on demand ----

def test_image_that_a_run_asks_for_gets_warm_and_later_runs_are_hits(images):
    images.make("blue", {"etc/color": "blue"})
    with Warm(images) as warm:
        assert warm.images() == ["host"]
        assert warm.run("blue", COLOR).stdout == "blue\n"
        assert warm.counts("blue")["hits"] == 0 and warm.counts("blue")["misses"] == 1
        warm.await_spare("blue")
        for hits in (1, 2, 3):
            warm.await_spare("blue")
            assert warm.run("blue", COLOR).stdout == "blue\n"
            assert warm.counts("blue")["hits"] == hits and warm.counts("blue")["misses"] == 1
        assert warm.run("blue", LOADED).stdout == "['colorsys']\n"
        (row,) = [row for row in warm.kept.state()["images"] if row["image"] == "blue"]
        assert row["preload"] == "default" and row["modules"] == ["colorsys"] and not row["kept"]


def test_warm_run_of_an_image_is_the_same_as_a_cold_one(images):
    images.make("blue", {"etc/color": "blue"})
    code = "import os, sys; print(sorted(os.listdir('/')), sorted(os.listdir('/etc')), sys.version, os.getuid(), sys.path)"
    with Warm(images) as warm:
        warm.warm_up("blue")
        hot = warm.run("blue", code)
        assert warm.counts("blue")["hits"] == 1
    cold = box.run("--config", warm.config, "--image", "blue", "-e", code)
    assert keeper.comparable(hot) == keeper.comparable(cold)


def test_run_of_one_image_never_gets_a_box_of_another(images):
    colors = ("blue", "red", "green")
    for color in colors:
        images.make(color, {"etc/color": color, f"etc/only-{color}": ""})
    with Warm(images) as warm:
        for color in colors:
            warm.warm_up(color)
        for _ in range(4):
            for color in colors:
                warm.await_spare(color)
                seen = warm.run(color, COLOR + "\nimport os; print([n for n in os.listdir('/etc') if n.startswith('only')])")
                assert seen.stdout == f"{color}\n['only-{color}']\n"
            assert not os.path.exists("/etc/color") and "No such file" in warm.run("host", COLOR).stderr
        for color in colors:
            assert warm.counts(color)["hits"] == 4, (color, warm.kept.state())
        assert len({warm.kinds(name)[0]["zygote_pid"] for name in ("host", *colors)}) == 4


def test_bash_of_an_image_is_warm_too_and_needs_no_python(images):
    images.make("bare", {"etc/color": "bare"}, python=False)
    with Warm(images) as warm:
        assert warm.run("bare", "cat /etc/color", "--language", "bash").stdout == "bare"
        warm.await_spare("bare", "bash")
        assert warm.run("bare", "cat /etc/color", "--language", "bash").stdout == "bare"
        assert warm.counts("bare", "bash")["hits"] == 1
        assert warm.kinds("bare") == []  # nobody asked for it: no zygote is tried


def test_image_without_python_says_so_in_the_state_and_hurts_no_other(images):
    images.make("bare", {"etc/color": "bare"}, python=False)
    images.make("blue", {"etc/color": "blue"})
    with Warm(images, "warm = bare", "warm = blue") as warm:
        warm.await_that(lambda: warm.counts("bare")["failures"] > 0)
        (row,) = warm.kinds("bare")
        assert "python" in row["failure"] and "bare" in row["failure"], row
        assert "bare" in warm.kept.state()["failure"]
        warm.await_spare("blue")
        assert warm.kinds("blue")[0]["failure"] == "" and warm.run("blue", COLOR).stdout == "blue\n"
        assert warm.counts("blue")["hits"] == 1
        warm.run("host", "pass")
        assert warm.counts("host")["hits"] == 1
        refused = box.raw("run", "--warm", "--config", warm.config, "--image", "bare", "-e", "1")
        assert refused.returncode == box.BAD_SPEC and b"python" in refused.stderr
        assert warm.run("bare", "cat /etc/color", "--language", "bash").stdout == "bare"
        time.sleep(3)
        assert warm.counts("bare")["failures"] < 8  # it is tried now and then


def test_unknown_image_takes_no_room(images):
    images.make("blue", {"etc/color": "blue"})
    with Warm(images) as warm:
        for name in ("nowhere", "blue/../blue", "../store"):
            done = box.raw("run", "--warm", "--config", warm.config, "--image", name, "-e", "1")
            assert done.returncode == box.BAD_SPEC, done
        assert warm.images() == ["host"]


# ---- bounds ----

def test_so_many_images_are_warm_on_demand_and_the_one_not_used_for_long_gives_way(images):
    for color in ("blue", "red", "green"):
        images.make(color, {"etc/color": color})
    with Warm(images, "warm.images = 2") as warm:
        warm.warm_up("blue")
        time.sleep(1)
        warm.warm_up("red")
        assert warm.run("green", COLOR).stdout == "green\n"  # cold: both others were just used
        assert warm.images() == ["host", "blue", "red"]
        time.sleep(5.5)
        warm.run("red", "pass")
        warm.warm_up("green")
        assert warm.images() == ["host", "red", "green"]
        assert warm.run("blue", COLOR).stdout == "blue\n" and warm.counts("blue")["hits"] == 0
        assert warm.images() == ["host", "red", "green"]


def test_images_one_after_the_other_load_no_interpreter_after_the_other(images):
    names = [f"image{number}" for number in range(5)]
    for name in names:
        images.make(name, {"etc/color": name}, python=False)
    with Warm(images, "warm.images = 2") as warm:
        for _ in range(4):
            for name in names:
                assert warm.run(name, "cat /etc/color", "--language", "bash").stdout == name
        assert warm.images() == ["host", *names[:2]]


def test_operator_may_want_none_on_demand(images):
    images.make("blue", {"etc/color": "blue"})
    images.make("red", {"etc/color": "red"})
    with Warm(images, "warm.images = 0", "warm = red") as warm:
        for _ in range(3):
            assert warm.run("blue", COLOR).stdout == "blue\n"
        assert warm.images() == ["host", "red"]


def test_image_that_nobody_uses_is_let_go_and_one_that_is_kept_is_not(images):
    images.make("blue", {"etc/color": "blue"})
    images.make("red", {"etc/color": "red"})
    with Warm(images, "warm.idle = 2s", "warm = red") as warm:
        warm.warm_up("blue")
        pid = warm.kinds("blue")[0]["zygote_pid"]
        warm.await_that(lambda: warm.images() == ["host", "red"])
        warm.await_that(lambda: not os.path.exists(f"/proc/{pid}"))
        warm.await_spare("red")


# ---- kept by the operator, and sets of modules ----

def test_kept_images_are_warm_before_the_first_run(images):
    images.make("blue", {"etc/color": "blue"})
    with Warm(images, "warm = blue") as warm:
        warm.await_spare("blue")
        assert warm.run("blue", COLOR).stdout == "blue\n"
        assert warm.counts("blue")["hits"] == 1 and warm.counts("blue")["misses"] == 0
        assert [row["kept"] for row in warm.kept.state()["images"]] == [True, True]


def test_set_of_modules_is_that_of_the_image_or_the_one_that_a_run_asks_for(images):
    images.make("blue", {"etc/color": "blue"})
    with Warm(images, "warm = blue sound", "preload.sound = wave") as warm:
        warm.await_spare("blue", preload="sound")
        assert warm.run("blue", LOADED).stdout == "['wave']\n"
        warm.warm_up("host")
        assert warm.run("host", LOADED).stdout == "['colorsys']\n"
        warm.run("host", "pass", "--preload", "sound")
        warm.await_spare("host", preload="sound")
        assert warm.run("host", LOADED, "--preload", "sound").stdout == "['wave']\n"
        warm.run("blue", "pass", "--preload", "default")
        warm.await_spare("blue", preload="default")
        assert warm.run("blue", LOADED, "--preload", "default").stdout == "['colorsys']\n"
        done = box.raw("run", "--warm", "--config", warm.config, "--preload", "noise", "-e", "1")
        assert done.returncode == box.BAD_SPEC
        assert b"preload" in done.stderr and b"'noise'" in done.stderr and b"default, sound" in done.stderr


@pytest.mark.parametrize("line, words", [
    ("warm = ../etc", ("warm", "'../etc'", "warm = data")),
    ("warm = blue red green", ("warm", "'blue red green'", "warm = data")),
    ("warm = blue noise", ("preload", "'noise'", "default, sound")),
    ("warm.images = many", ("warm.images", "'many'", "0 to 64")),
    ("warm.images = 65", ("warm.images", "'65'", "0 to 64")),
    ("warm.idle = soon", ("warm.idle", "'soon'", "10m")),
    ("preload = numpy, ../os", ("preload", "'../os'", "numpy, pandas")),
    ("preload.default = wave", ("preload.default", "'default'", "preload =")),
    ("preload.a/b = wave", ("preload.a/b", "'a/b'", "letters")),
    ("preload.sound = aifc", ("preload.sound", "'sound'", "one line")),
])
def test_wrong_line_is_answered_with_its_number_and_what_is_allowed(config, line, words):
    done = box.raw("keep", "--config", config("preload.sound = wave", line))
    assert done.returncode == box.BAD_SPEC, done
    for word in words:
        assert word in done.stderr.decode(), (word, done)


# ---- images that change ----

def test_image_that_is_made_anew_is_not_served_by_the_old_interpreter(images):
    images.make("blue", {"etc/color": "blue"})
    images.make("navy", {"etc/color": "navy"})
    with Warm(images) as warm:
        warm.warm_up("blue")
        pid = warm.kinds("blue")[0]["zygote_pid"]
        images.replace("blue", "navy")
        assert warm.run("blue", COLOR).stdout == "navy\n"  # at once
        warm.await_that(lambda: not os.path.exists(f"/proc/{pid}"))
        warm.await_that(lambda: warm.run("blue", COLOR).stdout == "navy\n" and warm.counts("blue")["hits"] > 0)


def test_image_that_is_removed_is_refused_and_its_interpreter_goes(images):
    images.make("blue", {"etc/color": "blue"})
    with Warm(images) as warm:
        warm.warm_up("blue")
        pid = warm.kinds("blue")[0]["zygote_pid"]
        images.remove("blue")
        done = box.raw("run", "--warm", "--config", warm.config, "--image", "blue", "-e", COLOR)
        assert done.returncode == box.BAD_SPEC and b"no image" in done.stderr
        warm.await_that(lambda: not os.path.exists(f"/proc/{pid}"))
        assert warm.images() == ["host"]


def test_kept_image_is_loaded_when_it_comes_and_again_when_it_is_made_anew(images):
    with Warm(images, "warm = blue") as warm:
        warm.await_that(lambda: "blue" in warm.kept.state()["failure"])
        images.make("blue", {"etc/color": "blue"})
        warm.await_spare("blue")  # without a run
        pid = warm.kinds("blue")[0]["zygote_pid"]
        assert warm.run("blue", COLOR).stdout == "blue\n" and warm.kept.state()["failure"] == ""
        images.make("navy", {"etc/color": "navy"})
        images.replace("blue", "navy")
        warm.await_that(lambda: warm.kinds("blue") and warm.kinds("blue")[0]["zygote_pid"] not in (pid, -1))
        warm.await_spare("blue")
        assert warm.run("blue", COLOR).stdout == "navy\n" and warm.counts("blue")["hits"] == 1


def test_run_under_way_goes_on_while_its_image_gives_way(images):
    images.make("blue", {"etc/color": "blue"})
    with Warm(images, "warm.idle = 1s") as warm:
        warm.warm_up("blue")
        result = warm.run("blue", "import time; time.sleep(4); " + COLOR)
        assert result.cause == "exit" and result.stdout == "blue\n"
        assert warm.images() == ["host", "blue"]  # it was held until now
        warm.await_that(lambda: warm.images() == ["host"])
