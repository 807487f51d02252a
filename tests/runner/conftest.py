import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import harness  # noqa: E402


@pytest.fixture
def context():
    made = harness.Context()
    yield made
    made.close()
