"""Shared by all pytest suites. MUST_WORK=1 (set by CI) turns a skip into a failure: nothing is quietly left out."""
import os
import pathlib
import signal
import sys

import pytest

# A shell without job control starts what is in the background with this signal ignored, and all below would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))

import gvisor  # noqa: E402


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("MUST_WORK") == "1" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although MUST_WORK=1: {report.longrepr}"


# CLOCHE_TEST_ENGINES=gvisor asks that engine alone everything; otherwise it gets the tests that tests/lib/gvisor.py names.
ENGINES = os.environ.get("CLOCHE_TEST_ENGINES", "").split(",") if os.environ.get("CLOCHE_TEST_ENGINES") else None


def pytest_generate_tests(metafunc):
    if "engine" not in metafunc.fixturenames:
        return
    chosen = ENGINES or ["container", "process"] + ["gvisor"] * gvisor.applies(metafunc.definition)
    if not any("engine" in str(mark.args[0]).replace(" ", "").split(",") for mark in metafunc.definition.iter_markers("parametrize")):
        metafunc.parametrize("engine", chosen)
