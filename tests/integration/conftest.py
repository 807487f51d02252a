"""Shared by the integration tests: one run first, so that state directories exist, and files that a box may reach."""
import os
import pathlib
import shutil
import tempfile

import box
import pytest


@pytest.fixture(scope="session", autouse=True)
def warm():
    for engine in box.ALL_ENGINES:
        box.raw("run", "--isolation", engine, "--", "/bin/true")


@pytest.fixture
def shared():
    """A directory that every user may enter (pytest's own are closed to all but root); gone afterwards."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="integration-", dir="/tmp"))
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def config(tmp_path):
    """config("memory.max = 1G", …) writes a configuration and returns its path."""
    def write(*lines):
        path = tmp_path / "cloche.conf"
        path.write_text("\n".join(lines) + "\n")
        return path
    return write
