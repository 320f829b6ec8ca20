"""The comparison is fair, finds the known violations, and finds none in Oncely."""

import pytest

from oncely.testing import SearchLimits
from oncely.testing.base_simulation import BaseSimulation
from oncely.testing.explorer import run_schedule
from oncely.testing.schedule import ScriptedChooser
from oncely.testing.script import parse_script
from tests.faults.comparison import (
    COLUMN_SEPARATOR,
    NAMES,
    ONCELY,
    count_violations,
    format_table,
    simulation_factory,
)
from tests.faults.powertools_job import BATCH_PAGE, BEST, BUSINESS_ID, VARIANTS
from tests.faults.powertools_simulation import simulated_time
from tests.faults.scenarios import SCENARIOS
from tests.faults.violation_kinds import ViolationKind, charge_ids

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
LIMITS = SearchLimits(injections=1)


def replay_script(text: str) -> tuple[BaseSimulation, list[str]]:
    name, script = parse_script(text)
    scenario, _, column = name.partition(COLUMN_SEPARATOR)
    follow = ScriptedChooser(script)
    with simulated_time():
        world, problems = run_schedule(
            BY_NAME[scenario], follow, simulation_factory=simulation_factory(column)
        )
    assert follow.remaining == 0
    return world, problems


@pytest.mark.parametrize("way", [ONCELY, *(way.name for way in VARIANTS)])
@pytest.mark.parametrize("provider", ["keys", "no-keys", "short-window", "declined", "edited"])
def test_every_contender_holds_invariants_without_faults(way: str, provider: str) -> None:
    world, problems = replay_script(f"payment.charge/{provider} by {way}:")
    assert problems == []
    assert len(charge_ids(world)) == (0 if provider == "declined" else 1)


def test_lost_reply_charges_twice_without_idempotency_key() -> None:
    lost = "w1:stripe.execute!lost"

    for way in (BATCH_PAGE, BUSINESS_ID):
        assert (
            ViolationKind.DOUBLE_CHARGE
            in replay_script(f"payment.charge/keys by {way.name}: {lost}")[1]
        )
    assert replay_script(f"payment.charge/keys by {BEST.name}: {lost}")[1] == []
    assert replay_script(f"payment.charge/keys by {ONCELY}: {lost}")[1] == []


def test_outage_leaves_order_unpaid_without_lookup() -> None:
    for way in VARIANTS:
        assert ViolationKind.NOT_PAID in replay_script(f"payment.charge/outage by {way.name}:")[1]
    assert replay_script(f"payment.charge/outage by {ONCELY}:")[1] == []


def test_powertools_holds_with_best_settings_and_keys() -> None:
    """Otherwise we would be comparing with our own code."""
    assert count_violations(LIMITS, ("keys", BEST.name)).violations == {}


def test_every_schedule_is_counted() -> None:
    """A schedule that ends in a known state is played to its end for each contender."""
    limits = SearchLimits(schedules=60)
    assert {count_violations(limits, ("keys", name)).schedules for name in NAMES} == {60}


def test_table_has_column_per_contender_and_ours_is_empty() -> None:
    columns = [count_violations(LIMITS, ("no-keys", name)) for name in NAMES]

    lines = format_table(columns).splitlines()

    assert columns[0].violations == {}
    assert all(column.violations[ViolationKind.DOUBLE_CHARGE] for column in columns[1:])
    assert all(line.count("|") == len(columns) + 2 for line in lines)
    for column in columns[1:]:
        assert replay_script(column.shortest_scripts[ViolationKind.DOUBLE_CHARGE])[1]
