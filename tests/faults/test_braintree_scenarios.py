"""Without a search before it, a repeated authorization holds the customer's money twice."""

from datetime import datetime

import pytest

from oncely.core import ask_and_record, run_job
from oncely.core.job_row import JobRow
from oncely.core.profiles import RetryPolicy
from oncely.core.table_guard import may_have_lost_history
from oncely.testing import SearchLimits
from oncely.testing.explorer import Explorer, run_schedule
from oncely.testing.schedule import ScriptedChooser
from oncely.testing.script import format_script, parse_script
from tests.faults.scenarios import SCENARIOS

TWICE = "the effect of payment.charge:order_18452 happened 2 times"
STALE = next(one for one in SCENARIOS if one.name == "payment.charge/braintree/stale-search")


def resend_without_search(
    job: JobRow, policy: RetryPolicy, replays_until: datetime | None, *, claims: int
) -> bool:
    del policy, claims
    return may_have_lost_history(job, replays_until)


@pytest.mark.parametrize(
    "schedule",
    ["w1:braintree.prepare!lost", "w1:braintree.prepare!late", "w1:jobs.update_item#2!die"],
)
def test_same_schedule_breaks_when_nothing_is_searched(
    schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, script = parse_script(f"{STALE.name}: {schedule}")
    assert run_schedule(STALE, ScriptedChooser(script))[1] == []

    for module in (ask_and_record, run_job):
        monkeypatch.setattr(module, "may_lack_reference", resend_without_search)

    assert TWICE in run_schedule(STALE, ScriptedChooser(script))[1]


def test_explorer_finds_the_missing_search(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ask_and_record, run_job):
        monkeypatch.setattr(module, "may_lack_reference", resend_without_search)

    report = Explorer(STALE, SearchLimits(injections=1, schedules=400)).explore()

    scripts = {format_script(one.scenario, one.script) for one in report.violations}
    assert f"{STALE.name}: w1:braintree.prepare!lost" in scripts
