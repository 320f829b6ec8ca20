"""The explorer finds what refunds would break without the rule for their key."""

import pytest

from oncely.core import decide
from oncely.core.effect_outcomes import NotFound
from oncely.core.job_row import JobRow
from oncely.core.profiles import RetryPolicy
from oncely.testing import SearchLimits
from oncely.testing.explorer import run_schedule
from oncely.testing.schedule import ScriptedChooser
from tests.faults.test_explorer import BY_NAME, first_violation

ONE = SearchLimits(injections=1, max_violations=1)


def test_request_that_arrives_late_refunds_twice_under_a_new_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck = BY_NAME["payment.refund/stuck"]
    assert run_schedule(stuck, ScriptedChooser(()))[1] == []

    def never(_job: JobRow, _policy: RetryPolicy, _absent: NotFound) -> bool:
        return False

    monkeypatch.setattr(decide, "keeps_key", never)

    assert first_violation(stuck, ONE)
    problems = run_schedule(stuck, ScriptedChooser(()))[1]
    assert "the effect of payment.refund:order_18452:rma_1 happened 2 times" in problems
