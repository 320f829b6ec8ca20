"""The answer to "was I charged twice?"."""

import pytest

from oncely.domain.charges import Charges
from oncely.domain.lifecycle import Status
from tests.unit.samples import a_job

DONE, FAILED = Status.FINISHED, Status.FAILED


@pytest.mark.parametrize(
    ("statuses", "answer"),
    [
        ([DONE], "charged once, 12.50 EUR"),
        ([FAILED, DONE], "charged once, 12.50 EUR"),
        ([DONE, DONE], "charged 2 times: 12.50 EUR, 12.50 EUR"),
        ([FAILED, FAILED], "not charged: the provider refused"),
        ([Status.UNKNOWN], "no charge is confirmed yet"),
        ([FAILED, Status.READY], "no charge is confirmed yet"),
        ([DONE, Status.NEEDS_REVIEW], "charged once, 12.50 EUR; another charge is still open"),
        ([], None),
    ],
)
def test_the_answer_is_what_the_jobs_of_the_order_say(
    statuses: list[Status], answer: str | None
) -> None:
    charges = Charges.of(a_job(status=one, amount=1250, currency="eur") for one in statuses)

    assert charges.sentence == answer
    assert charges.twice is (statuses == [DONE, DONE])


def test_a_job_that_moves_no_money_is_no_charge() -> None:
    assert Charges.of([a_job(status=DONE)]).sentence is None
