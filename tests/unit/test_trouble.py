"""How much goes wrong in the demo."""

from itertools import islice

import pytest

from infra.local.sandbox import FaultKind, Faults
from infra.local.trouble import TROUBLE, Level


def in_force(level: Level) -> list[FaultKind]:
    faults = Faults()
    TROUBLE[level].upon(faults)
    return [FaultKind(one["kind"]) for one in faults.as_json()]


def test_level_none_injects_no_faults_or_kills() -> None:
    assert in_force(Level.NONE) == []
    assert list(TROUBLE[Level.NONE].kills(seed=1)) == []


@pytest.mark.parametrize("level", [Level.SOME, Level.HEAVY])
def test_levels_above_none_inject_response_faults(level: Level) -> None:
    kinds = set(in_force(level))

    assert kinds >= {
        FaultKind.ACCEPT_THEN_TRICKLE,
        FaultKind.ACCEPT_THEN_HANG,
        FaultKind.ACCEPT_THEN_DROP,
        FaultKind.ERROR_AFTER,
        FaultKind.ERROR_BEFORE,
    }


def test_kill_intervals_follow_seed() -> None:
    some = TROUBLE[Level.SOME]

    assert [*islice(some.kills(seed=1), 5)] == [*islice(some.kills(seed=1), 5)]
    assert [*islice(some.kills(seed=1), 5)] != [*islice(some.kills(seed=2), 5)]
    assert all(more > 0 for more in islice(some.kills(seed=1), 100))


def test_heavy_is_more_than_some() -> None:
    some, heavy = TROUBLE[Level.SOME], TROUBLE[Level.HEAVY]

    assert heavy.factor > some.factor
    assert heavy.kill_every < some.kill_every
