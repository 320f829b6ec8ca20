"""The two schedules that break a restore without its lookup."""

import pytest

from oncely.testing.explorer import Explorer, SearchLimits
from tests.faults.scenarios import SCENARIOS

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
SMALL = SearchLimits(injections=1, schedules=400, random_schedules=5)


@pytest.mark.parametrize(
    "name", ["payment.charge/restored-create", "payment.charge/restored-confirm"]
)
def test_restore_charges_twice_without_lookup(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for check in (
        "core.table_guard.may_have_lost_history",
        "core.ask_and_record.may_have_lost_history",
    ):
        monkeypatch.setattr(f"oncely.{check}", lambda *_: False)
    found = Explorer(BY_NAME[name], SMALL).explore().violations
    assert any("happened 2 times" in problem for one in found for problem in one.problems)
