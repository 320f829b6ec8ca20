"""What becomes of a queue message, for each way its job can go."""

from datetime import timedelta
from typing import get_args

import pytest

from oncely.services.outcomes import Conflict, HeldElsewhere, NothingSent, Outcome
from oncely.services.replies import Ack, HandBack, Leave, Postpone, Reject, Reply, reply_to
from tests.unit.samples import KEY, NOW, OUTCOMES

REPLIES: dict[str, Reply] = {
    "Finished": Ack(),
    "Failed": Ack(),
    "Duplicate": Ack(),
    "Unknown": Ack(),
    "NeedsReview": Ack(),
    "Parked": Ack(),
    "HeldElsewhere": HandBack(NOW + timedelta(seconds=60)),
    "NothingSent": HandBack(NOW + timedelta(seconds=15)),
    "Continued": Ack(),
    "OwnershipLost": Ack(),
    "Orphaned": Reject("its row is gone, and now: charged"),
    "NotStarted": HandBack(),
    "Fenced": Postpone(),
    "Conflict": Reject("other amount"),
    "Invalid": Reject("no JSON"),
    "Broken": Leave(),
}


def test_every_outcome_has_a_reply_here() -> None:
    assert [type(outcome).__name__ for outcome in OUTCOMES] == [*REPLIES]
    assert {type(outcome) for outcome in OUTCOMES} == set(get_args(Outcome))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_the_reply_follows_from_the_outcome(outcome: Outcome) -> None:
    assert reply_to(outcome, last_receives=False) == REPLIES[type(outcome).__name__]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_near_the_last_receive_a_message_whose_row_falls_due_is_let_go(outcome: Outcome) -> None:
    row_carries_it = isinstance(outcome, HeldElsewhere | NothingSent)
    expected = Ack() if row_carries_it else REPLIES[type(outcome).__name__]

    assert reply_to(outcome, last_receives=True) == expected


def test_a_message_is_let_go_when_its_row_sends_the_next_one() -> None:
    outcome = NothingSent(
        job_key=KEY, job_type="sync.push", until=NOW, reason="daily limit", row_resends=True
    )

    assert reply_to(outcome, last_receives=False) == Ack()


@pytest.mark.parametrize(("last", "reply"), [(False, Leave()), (True, Reject("other amount"))])
def test_a_conflict_that_nobody_could_be_told_of_comes_again_before_it_is_put_aside(
    last: bool,  # noqa: FBT001  # a case of the table
    reply: Reply,
) -> None:
    untold = Conflict(job_key=KEY, job_type="payment.charge", reason="other amount", told=False)

    assert reply_to(untold, last_receives=last) == reply
