"""Shared by all pytest suites. MUST_WORK=1 (set by CI) turns a skip into a failure: nothing is quietly left out."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("MUST_WORK") == "1" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although MUST_WORK=1: {report.longrepr}"


@pytest.fixture(params=["container", "process"])
def engine(request):
    return request.param
