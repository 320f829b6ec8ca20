"""Erasures at any moment leave nothing, and each of their guards is needed."""

from datetime import timedelta

import pytest

from oncely.testing.explorer import Explorer, SearchLimits
from tests.faults.scenarios import SCENARIOS

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
SMALL = SearchLimits(injections=1, schedules=300, random_schedules=5)


def problems(name: str) -> str:
    found = Explorer(BY_NAME[name], SMALL).explore().violations
    return " ".join(problem for one in found for problem in one.problems)


def test_queued_change_brings_data_back_without_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archiver reads the log, the erasure runs, then the archiver writes."""
    short = timedelta(seconds=-120)
    monkeypatch.setattr("oncely.history.erasure_log.ARCHIVER_TIMEOUT", short)
    assert "the history of" in problems("payment.charge/erased-archiving")
