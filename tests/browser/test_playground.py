"""The playground in a real browser, against the real server. The scenarios are functions of scenarios.mjs; pictures of what
was seen are in BUILD/screenshots."""
import pathlib
import re

import pytest

SCENARIOS = re.findall(r"^export async function (\w+)", (pathlib.Path(__file__).parent / "scenarios.mjs").read_text(), re.M)


def test_scenarios_are_found_at_all():
    assert {"output_is_shown_as_it_comes", "a_fork_leaves_its_origin_as_it_was"} <= set(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_playground(driver, scenario):
    error = driver(scenario)
    assert not error, error
