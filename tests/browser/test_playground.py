"""The playground in a real browser, against the real server. The scenarios are functions of scenarios.mjs (runs on the
server), scenarios_page.mjs (runs in the page) and scenarios_vet.mjs (engines, the first filter); pictures of what was seen are in BUILD/screenshots."""
import pathlib
import re

import pytest

FILES = sorted(pathlib.Path(__file__).parent.glob("scenarios*.mjs"))
SCENARIOS = [name for file in FILES for name in re.findall(r"^export async function (\w+)", file.read_text(), re.M)]


def test_scenarios_are_found_at_all():
    assert {"output_is_shown_as_it_comes", "a_fork_leaves_its_origin_as_it_was", "python_runs_in_the_page"} <= set(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_playground(driver, scenario):
    error = driver(scenario)
    assert not error, error
