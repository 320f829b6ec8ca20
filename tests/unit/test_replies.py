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


def test_every_outcome_has_reply() -> None:
    assert [type(outcome).__name__ for outcome in OUTCOMES] == [*REPLIES]
    assert {type(outcome) for outcome in OUTCOMES} == set(get_args(Outcome))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_reply_follows_from_outcome(outcome: Outcome) -> None:
    assert reply_to(outcome, last_receives=False) == REPLIES[type(outcome).__name__]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_message_is_acked_near_receive_limit_when_row_is_due(outcome: Outcome) -> None:
    row_carries_it = isinstance(outcome, HeldElsewhere | NothingSent)
    expected = Ack() if row_carries_it else REPLIES[type(outcome).__name__]

    assert reply_to(outcome, last_receives=True) == expected


def test_message_is_acked_when_row_resends() -> None:
    outcome = NothingSent(
        job_key=KEY, job_type="sync.push", until=NOW, reason="daily limit", row_resends=True
    )

    assert reply_to(outcome, last_receives=False) == Ack()


@pytest.mark.parametrize(("last", "reply"), [(False, Leave()), (True, Reject("other amount"))])
def test_unalerted_conflict_is_redelivered_before_rejection(
    last: bool,  # noqa: FBT001  # a case of the table
    reply: Reply,
) -> None:
    untold = Conflict(job_key=KEY, job_type="payment.charge", reason="other amount", told=False)

    assert reply_to(untold, last_receives=last) == reply
