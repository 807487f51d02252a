"""Shared by the abuse tests: every test must leave the host as it found it."""
import os

import attack
import box
import keeper
import pytest

WITH_PROCESS = os.environ.get("CLOCHE_TEST_WARM_ONLY") != "container"


@pytest.fixture(scope="session", autouse=True)
def warm():
    """State directories exist after the first run of each engine."""
    for engine in box.ALL_ENGINES:
        box.raw("run", "--isolation", engine, "--", "/bin/true")
    if not box.WARM:
        yield
        return
    with keeper.Keeper("--spares", "4", "--preload", "json", "--language", "python/process") as kept:
        kept.await_spares("python/process")
        yield
        for kind in ("python", "python/process") if WITH_PROCESS else ("python",):
            state = kept.kind(kind)
            assert state["hits"] + state["misses"] > 20, f"the runs were not warm: {state}"


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = box.census()
    yield
    left = attack.leftovers(before)
    assert not left, f"left behind: {left}"
