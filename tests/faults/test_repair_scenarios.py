"""The explorer finds what an unchecked repair would do while a request is in flight."""

import pytest

from oncely.operate import repairer
from oncely.testing import SearchLimits
from oncely.testing.explorer import Explorer
from tests.faults.scenarios import SCENARIOS

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
NONE = SearchLimits(injections=0)


@pytest.mark.parametrize(
    ("scenario", "guard", "violation"),
    [
        (
            "payment.charge/repaired-late-confirm",
            "objection_to_finished",
            "the order names charge None, which is not at the provider",
        ),
        (
            "test.effect/repaired-late-effect",
            "objection_to_failed",
            "is failed, but its effect happened",
        ),
    ],
)
def test_unchecked_repair_is_found(
    scenario: str, guard: str, violation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Explorer(BY_NAME[scenario], NONE).explore().violations == []

    monkeypatch.setattr(repairer, guard, lambda *_args, **_named: None)

    (found,) = Explorer(BY_NAME[scenario], NONE).explore().violations
    assert any(violation in problem for problem in found.problems)
