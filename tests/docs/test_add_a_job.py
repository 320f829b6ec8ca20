"""A reader who follows docs/add-a-job.md gets a tested job, which can grow."""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

import pytest

from oncely import Call, Declined, HttpProvider, JobRow, LookupOutcome, NotSent
from oncely.contracts.job import AnyJob
from oncely.testing import SearchLimits, explore
from oncely.testing.explore import build_scenario
from oncely.testing.explorer import run_schedule
from oncely.testing.rows import BusinessRows
from oncely.testing.schedule import ScriptedChooser
from oncely.testing.script import parse_injections
from tests.docs.guide import GUIDE, JOB, TEST, grow_job

_MAX_WORDS: Final = 1_500
_FEW: Final = SearchLimits(injections=1, schedules=20)
BASE, BY_LOOKUP, WITH_ROWS, *_, GROWN = grow_job()


def _seed(rows: BusinessRows) -> None:
    rows.put("orders", {"order_id": "18452"}, {"status": "paid", "customer_id": "7"})


def test_page_is_short() -> None:
    assert len(GUIDE.text.split()) <= _MAX_WORDS


def test_guide_test_passes_for_guide_job(monkeypatch: pytest.MonkeyPatch) -> None:
    job = ModuleType("oncely.jobs.voucher_issue")
    exec(GUIDE.file(JOB), vars(job))  # noqa: S102  # our own page
    monkeypatch.setitem(sys.modules, job.__name__, job)
    names: dict[str, Any] = {}
    exec(GUIDE.file(TEST), names)  # noqa: S102

    names["test_voucher_is_issued_once"]()


def test_lost_response_is_repeated_with_same_key() -> None:
    scenario = build_scenario(BASE)
    lost = ScriptedChooser(parse_injections("w1:vouchers.perform!lost"))

    world, problems = run_schedule(scenario, lost)

    posted = [one for one in world.sandbox.ledger.requests if one.method == "POST"]
    assert problems == []
    assert list(world.final_statuses()) == ["voucher.issue finished"]
    assert len(posted) == 2
    assert len({one.idempotency_key for one in posted}) == 1
    assert len(world.sandbox.effects()) == 1


class Alone(GROWN):  # type: ignore[misc,valid-type]  # from the page
    """The carrier of the job that follows has no model on the page."""

    def follow_ups(self, row: JobRow) -> tuple[AnyJob, ...]:
        assert [one.job_key() for one in super().follow_ups(row)] == ["parcel.ship:18452"]
        return ()


@pytest.mark.parametrize("job", [BY_LOOKUP, WITH_ROWS, Alone], ids=["lookup", "rows", "all"])
def test_job_happens_once_as_it_grows(job: type[AnyJob]) -> None:
    explore(job, seed_rows=_seed, limits=_FEW)


def test_example_of_mistake_is_what_author_sees() -> None:
    with pytest.raises(TypeError) as raised:
        type("VoucherIssue", (BASE,), {"key": "order", "__module__": __name__})

    assert f"`{raised.value}`" in GUIDE.text


class WrongLookup(BY_LOOKUP):  # type: ignore[misc,valid-type]  # from the page
    """Looks up something else."""

    def lookup(self, call: Call) -> LookupOutcome:
        return call.get("/vouchers/latest")


def _vouchers(**changes: Any) -> HttpProvider:  # noqa: ANN401  # arguments of a provider
    absent: Mapping[str, Any] = {"absent_body": {"error": "not_found"}}
    return HttpProvider("vouchers", lookup_lag="10s", **{**absent, **changes})


class AnyAbsence(BY_LOOKUP):  # type: ignore[misc,valid-type]
    """Does not say what the body of an absent effect is."""

    provider = _vouchers(absent_body={})


class ConflictDeclines(BY_LOOKUP):  # type: ignore[misc,valid-type]
    """Takes a refused duplicate for a decline."""

    provider = _vouchers(answers={409: Declined})


class ErrorSendsAgain(BY_LOOKUP):  # type: ignore[misc,valid-type]
    """Takes an error of the server for a request that was not sent."""

    provider = _vouchers(answers={500: NotSent})


class WritesWhatItReads(WITH_ROWS):  # type: ignore[misc,valid-type]
    """Writes a table that only other jobs write."""

    writes = ("shipments",)


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        (WrongLookup, "happened 2 times"),
        (AnyAbsence, "needs review after one fault"),
        (ConflictDeclines, "needs review after one fault"),
        (ErrorSendsAgain, "happened 2 times"),
        (WritesWhatItReads, "orders"),
    ],
)
def test_mistake_of_author_is_found(job: type[AnyJob], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        explore(job, seed_rows=_seed, limits=_FEW)
