"""The fault levels of the demo."""

from itertools import islice

import pytest

from oncely.contracts.job import providers_of
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.testing.sandbox import FaultKind, FaultSet, sandbox_type
from oncely_local.chaos import FAULT_PLANS, FaultLevel


def active_faults(level: FaultLevel) -> list[FaultKind]:
    faults = FaultSet()
    FAULT_PLANS[level].apply(faults, map(sandbox_type, providers_of(SHIPPED_JOBS)))
    return [FaultKind(one["kind"]) for one in faults.to_dicts()]


def test_level_none_injects_no_faults_or_kills() -> None:
    assert active_faults(FaultLevel.NONE) == []
    assert list(FAULT_PLANS[FaultLevel.NONE].kill_intervals(seed=1)) == []


@pytest.mark.parametrize("level", [FaultLevel.SOME, FaultLevel.HEAVY])
def test_levels_above_none_inject_response_faults(level: FaultLevel) -> None:
    assert set(active_faults(level)) >= {
        FaultKind.ACCEPT_THEN_TRICKLE,
        FaultKind.ACCEPT_THEN_HANG,
        FaultKind.ACCEPT_THEN_DROP,
        FaultKind.ERROR_AFTER,
        FaultKind.ERROR_BEFORE,
    }


def test_kill_intervals_follow_seed() -> None:
    some = FAULT_PLANS[FaultLevel.SOME]
    assert [*islice(some.kill_intervals(seed=1), 5)] == [*islice(some.kill_intervals(seed=1), 5)]
    assert [*islice(some.kill_intervals(seed=1), 5)] != [*islice(some.kill_intervals(seed=2), 5)]
    assert all(more > 0 for more in islice(some.kill_intervals(seed=1), 100))


def test_heavy_is_more_than_some() -> None:
    some, heavy = FAULT_PLANS[FaultLevel.SOME], FAULT_PLANS[FaultLevel.HEAVY]
    assert heavy.rate_factor > some.rate_factor
    assert heavy.kill_every < some.kill_every
