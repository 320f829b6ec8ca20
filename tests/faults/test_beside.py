"""The comparison is fair, sees what it should, and its own column stays empty."""

import pytest

from oncely.testing import Bound
from oncely.testing.choosers import Follow
from oncely.testing.explorer import play
from oncely.testing.ground import Ground
from oncely.testing.script import read
from tests.faults.beside import BY, NAMES, ONCELY, begin, count, table
from tests.faults.kinds import Wrong
from tests.faults.powertools_job import BATCH_PAGE, BEST, BUSINESS_ID, WAYS
from tests.faults.powertools_world import explored_time
from tests.faults.scenarios import SCENARIOS

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
EACH = Bound(changes=1)


def played(text: str) -> tuple[Ground, list[str]]:
    name, script = read(text)
    scenario, _, column = name.partition(BY)
    follow = Follow(script)
    with explored_time():
        world, problems = play(BY_NAME[scenario], follow, begin=begin(column))
    assert follow.left == 0
    return world, problems


@pytest.mark.parametrize("way", [ONCELY, *(way.name for way in WAYS)])
@pytest.mark.parametrize("provider", ["keys", "no-keys", "short-window", "declined", "edited"])
def test_every_contender_holds_invariants_without_faults(way: str, provider: str) -> None:
    world, problems = played(f"payment.charge/{provider} by {way}:")

    assert problems == []
    assert len(world.providers["payments"].charges) == (0 if provider == "declined" else 1)


def test_lost_reply_charges_twice_without_idempotency_key() -> None:
    lost = "w1:payments.execute!lost"

    for way in (BATCH_PAGE, BUSINESS_ID):
        assert Wrong.TWICE in played(f"payment.charge/keys by {way.name}: {lost}")[1]
    assert played(f"payment.charge/keys by {BEST.name}: {lost}")[1] == []
    assert played(f"payment.charge/keys by {ONCELY}: {lost}")[1] == []


def test_outage_leaves_order_unpaid_without_lookup() -> None:
    for way in WAYS:
        assert Wrong.NOT_PAID in played(f"payment.charge/outage by {way.name}:")[1]
    assert played(f"payment.charge/outage by {ONCELY}:")[1] == []


def test_powertools_holds_with_best_settings_and_keys() -> None:
    """Else the comparison would be of our own making."""
    assert count(EACH, ("keys", BEST.name)).wrongs == {}


def test_table_has_column_per_contender_and_ours_is_empty() -> None:
    columns = [count(EACH, ("no-keys", name)) for name in NAMES]

    lines = table(columns).splitlines()

    assert columns[0].wrongs == {}
    assert all(column.wrongs[Wrong.TWICE] for column in columns[1:])
    assert all(line.count("|") == len(columns) + 2 for line in lines)
    for column in columns[1:]:
        assert played(column.shortest[Wrong.TWICE])[1]
