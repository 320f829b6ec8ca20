"""`python -m tests.faults.first_violation SCENARIO`: explore as `make faults`, to one violation."""

import json
import sys
from dataclasses import replace

import oncely
from oncely.testing.__main__ import parse_bound
from oncely.testing.explorer import Explorer
from oncely.testing.script import format_script
from tests.faults.scenarios import SCENARIOS


def explore(name: str) -> dict[str, object]:
    """Explore one scenario; `code` is the folder of the code that was explored."""
    (scenario,) = (one for one in SCENARIOS if one.name == name)
    report = Explorer(scenario, replace(parse_bound(()), max_violations=1)).explore()
    found = next(iter(report.violations), None)
    return {
        "code": oncely.__path__[0],
        "schedules": report.schedules,
        "script": None if found is None else format_script(found.scenario, found.script),
        "problems": () if found is None else found.problems,
    }


if __name__ == "__main__":
    json.dump(explore(sys.argv[1]), sys.stdout)
