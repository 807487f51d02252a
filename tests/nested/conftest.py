"""Outer containers for the nested tests: one private world (tests/fault/private_world.py) for the session."""
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fault")]

from outer import Crun, Podman, missing_programs  # noqa: E402
from private_world import World, build_tool, have_namespaces  # noqa: E402


@pytest.fixture(scope="session")
def nested_world(tmp_path_factory):
    reason = have_namespaces()
    if reason:
        pytest.skip(reason)
    with World([build_tool("facts", tmp_path_factory.mktemp("tools"), "-static")]) as world:
        yield world


@pytest.fixture(scope="session")
def podman(nested_world):
    reason = missing_programs("podman", "crun", "conmon")
    if reason:
        pytest.skip(reason)
    return Podman(nested_world)


@pytest.fixture(scope="session")
def crun(nested_world):
    reason = missing_programs("crun")
    if reason:
        pytest.skip(reason)
    return Crun(nested_world)
