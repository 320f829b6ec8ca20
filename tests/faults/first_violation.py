"""`python -m tests.faults.first_violation SCENARIO`: explore as `make faults`, to one violation."""

import json
import sys

import oncely
from oncely.testing.__main__ import DEFAULT_RANDOM_SCHEDULES, DEFAULT_SCHEDULES
from oncely.testing.explorer import Explorer, SearchLimits
from oncely.testing.script import format_script
from tests.faults.scenarios import SCENARIOS


def explore(name: str) -> dict[str, object]:
    """Explore one scenario; `code` is the folder of the code that was explored."""
    (scenario,) = (one for one in SCENARIOS if one.name == name)
    limits = SearchLimits(
        schedules=DEFAULT_SCHEDULES, random_schedules=DEFAULT_RANDOM_SCHEDULES, max_violations=1
    )
    report = Explorer(scenario, limits).explore()
    found = next(iter(report.violations), None)
    return {
        "code": oncely.__path__[0],
        "schedules": report.schedules,
        "script": None if found is None else format_script(found.scenario, found.script),
        "problems": () if found is None else found.problems,
    }


if __name__ == "__main__":
    json.dump(explore(sys.argv[1]), sys.stdout)
