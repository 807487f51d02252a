import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import harness  # noqa: E402


def fixture_of(make):
    @pytest.fixture
    def made():
        context = make()
        yield context
        context.close()
    return made


context = fixture_of(harness.Context)
javascript = fixture_of(harness.JavaScriptContext)
bash = fixture_of(harness.BashContext)
javascript_spare = fixture_of(harness.JavaScriptSpare)
bash_spare = fixture_of(harness.BashSpare)
