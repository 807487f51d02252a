"""Worlds for the fault tests: two, made once for the session, so that two runs can go on at the same time."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from faults import ORDINARY  # noqa: E402
from private_world import World, build_tool, have_namespaces  # noqa: E402


@pytest.fixture(scope="session")
def tools(tmp_path_factory):
    reason = have_namespaces()
    if reason:
        pytest.skip(reason)
    place = tmp_path_factory.mktemp("tools")
    return build_tool("inject", place), build_tool("facts", place, "-static")


@pytest.fixture(scope="session")
def worlds(tools):
    made = []
    try:
        for _ in range(2):
            made.append(World(tools))
        yield made
    finally:
        for world in made:
            world.close()


@pytest.fixture
def world(worlds):
    """One of them, left clean."""
    first = worlds[0]
    yield first
    first.kill_all()
    first.leftovers()
    first.reap()
    first.run(*ORDINARY, "/tmp/cloche", "reap")
    first.baseline = first.census()  # the test that left something fails; those after it need not
