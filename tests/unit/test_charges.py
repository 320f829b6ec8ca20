"""The charge summary of an order, which says whether it was charged twice."""

import pytest

from oncely.core.job_row import MARKED_BY_OPERATOR, UNCONFIRMED, JobRow, operator_actor
from oncely.core.lifecycle import Event, Status
from oncely.operate.verdicts import ChargeSummary
from tests.unit.samples import NOW, make_job

FAILED, OPEN, REVIEW = Status.FAILED, Status.UNKNOWN, Status.NEEDS_REVIEW


def charge_job(what: Status | str) -> JobRow:
    """A job of this status, or one that is finished with this charge."""
    done = {"status": Status.FINISHED, "result": {"charge_id": what}}
    changes = {"status": what} if isinstance(what, Status) else done
    return make_job(amount=1250, currency="eur", **changes)


@pytest.mark.parametrize(
    ("jobs", "summary"),
    [
        (["ch_1"], "charged once, 12.50 EUR on 16 Nov 2026"),
        ([FAILED, "ch_1"], "charged once, 12.50 EUR on 16 Nov 2026"),
        (["ch_1", "ch_2"], "charged 2 times: 12.50 EUR on 16 Nov 2026, 12.50 EUR on 16 Nov 2026"),
        (
            ["ch_1", "ch_1"],
            "charged once, 12.50 EUR on 16 Nov 2026",
        ),  # the second found the order paid
        ([FAILED, FAILED], "not charged: the provider declined"),
        ([OPEN], "no charge is confirmed yet"),
        ([FAILED, OPEN], "no charge is confirmed yet"),
        (["ch_1", REVIEW], "charged once, 12.50 EUR on 16 Nov 2026; another charge is unresolved"),
        ([], None),
    ],
)
def test_summary_follows_jobs_of_order(jobs: list[Status | str], summary: str | None) -> None:
    charges = ChargeSummary.from_jobs(map(charge_job, jobs))
    assert charges.summary == summary
    assert charges.is_duplicate is (jobs == ["ch_1", "ch_2"])


def marked_job(event: Event) -> JobRow:
    review = charge_job(Status.NEEDS_REVIEW)
    marked = {"result": {"code": MARKED_BY_OPERATOR, "reference": "ch_9"}}
    return review.apply(event, now=NOW, actor=operator_actor("ada"), reason="seen", **marked)


@pytest.mark.parametrize(
    ("event", "others", "summary"),
    [
        (
            Event.RESOLVE_FINISHED,
            [],
            "12.50 EUR marked as charged by ada; the provider did not confirm it",
        ),
        (
            Event.RESOLVE_FINISHED,
            ["ch_1"],
            "charged once, 12.50 EUR on 16 Nov 2026; 12.50 EUR marked as charged by ada",
        ),
        (Event.RESOLVE_FAILED, [], "marked as failed by ada; the provider did not confirm it"),
    ],
)
def test_operators_word_is_not_a_charge(event: Event, others: list[str], summary: str) -> None:
    jobs = [marked_job(event), *map(charge_job, others)]
    assert ChargeSummary.from_jobs(jobs).summary == summary


UNASKED = make_job(
    amount=1250,
    currency="eur",
    status=Status.FINISHED,
    result={"charge_id": "", "code": UNCONFIRMED},
)
BY_ROW = "the order's row says it was paid (12.50 EUR); no provider confirmed it"


@pytest.mark.parametrize(
    ("others", "summary"),
    [
        ([], BY_ROW),
        ([charge_job(FAILED)], BY_ROW),
        ([charge_job(OPEN)], f"{BY_ROW}; another charge is unresolved"),
        ([marked_job(Event.RESOLVE_FINISHED)], f"{BY_ROW}; 12.50 EUR marked as charged by ada"),
        ([charge_job("ch_1")], "charged once, 12.50 EUR on 16 Nov 2026"),
    ],
)
def test_word_of_the_order_row_is_not_a_charge(others: list[JobRow], summary: str) -> None:
    charges = ChargeSummary.from_jobs([UNASKED, *others])
    assert (charges.summary, charges.is_duplicate) == (summary, False)
    assert bool(charges.claimed) is summary.startswith(BY_ROW)


@pytest.mark.parametrize("first", [{"provider_ref": "pi_1"}, {"result": {"charge_id": "ch_1"}}])
def test_order_found_paid_without_charge_id_is_not_second_charge(first: dict[str, object]) -> None:
    charged = make_job(status=Status.FINISHED, **first)
    assert not ChargeSummary.from_jobs([charged, charge_job("")]).is_duplicate
    assert (
        ChargeSummary.from_jobs([charge_job("")]).summary
        == "charged once, 12.50 EUR on 16 Nov 2026"
    )


def test_two_charges_stay_two_when_third_job_finds_order_paid() -> None:
    charges = ChargeSummary.from_jobs([charge_job("ch_1"), charge_job("ch_2"), charge_job("")])
    assert charges.is_duplicate
    assert set(charges.succeeded) == {"ch_1", "ch_2"}


def test_declined_and_open_jobs_are_each_counted_once() -> None:
    charges = ChargeSummary.from_jobs(map(charge_job, [FAILED, FAILED, OPEN, REVIEW, OPEN]))
    assert (charges.declined, charges.unresolved) == (2, 3)
    assert ChargeSummary() == ChargeSummary.from_jobs([])


@pytest.mark.parametrize("recorded", [{}, {"amount": 1250}, {"currency": "eur"}])
def test_charge_is_reported_without_recorded_amount(recorded: dict[str, object]) -> None:
    job = make_job(status=Status.FINISHED, provider_ref="pi_1", **recorded)
    assert (
        ChargeSummary.from_jobs([job]).summary == "charged once, amount not recorded on 16 Nov 2026"
    )
