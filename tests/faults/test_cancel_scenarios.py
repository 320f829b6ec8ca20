"""The explorer finds what cancel and `run_at` would break without their guards."""

from datetime import timedelta

import pytest

from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event
from oncely.jobs.payment_charge import PaymentCharge
from oncely.operate import repairer
from oncely.testing import SearchLimits
from oncely.testing.explorer import Explorer
from tests.faults.test_explorer import BY_NAME

NONE = SearchLimits(injections=0, max_violations=1)
ONE = SearchLimits(injections=1, max_violations=1)


def problems(name: str, limits: SearchLimits) -> list[str]:
    return [
        one
        for found in Explorer(BY_NAME[name], limits).explore().violations
        for one in found.problems
    ]


@pytest.mark.parametrize("name", [name for name in BY_NAME if "/cancelled-" in name])
def test_scenario_of_a_cancel_cancels_the_job(name: str) -> None:
    report = Explorer(BY_NAME[name], ONE).explore()
    assert report.violations == []
    assert "payment.charge cancelled" in report.final_statuses


def test_row_write_over_open_payment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairer, "needs_closing", lambda *_: False)
    found = problems("payment.charge/cancelled-late-confirm", NONE)
    assert any("is cancelled" in one for one in found)


def test_cancelled_job_that_counts_as_forged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the attributes that only we write, nobody could tell it from an inserted row."""

    def is_unclaimed(job: JobRow) -> bool:
        return not job.was_claimed and not job.allows(Event.CLAIM)

    monkeypatch.setattr(JobRow, "is_forged", property(is_unclaimed))
    found = problems("payment.charge/cancelled-ready", ONE)
    assert "payment.charge:order_18452 was cancelled, and a message ran it" in found


def test_forged_row_that_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobRow, "is_forged", property(lambda _: False))
    for name in ("unknown", "review"):
        found = problems(f"payment.charge/forged-{name}", NONE)
        assert "the forged row blocked its job" in found


def test_time_that_is_honored_whoever_wrote_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaymentCharge, "schedule_limit", timedelta(days=3650))
    found = problems("payment.charge/held-by-row", NONE)
    assert any("it was held back" in one for one in found)


def test_time_that_messages_set_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaymentCharge, "schedule_limit", timedelta(days=3650))
    monkeypatch.setattr(PaymentCharge, "moves_money", classmethod(lambda _: False))
    found = problems("payment.charge/held-by-message", ONE)
    assert any("it was held back" in one for one in found)
