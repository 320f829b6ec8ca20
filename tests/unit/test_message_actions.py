"""What happens to a queue message, for each outcome of its job."""

from datetime import timedelta
from typing import get_args

import pytest

from oncely.run.outcomes import Conflict, Held, LeasedElsewhere, NotAttempted, RunOutcome, Waiting
from oncely.run.process_batch import (
    Ack,
    MessageAction,
    Nack,
    Postpone,
    Reject,
    action_for,
)
from tests.unit.samples import KEY, NOW, OUTCOMES

REPLIES: dict[str, MessageAction] = {
    "Finished": Ack(),
    "Failed": Ack(),
    "Cancelled": Ack(),
    "Duplicate": Ack(),
    "Unknown": Ack(),
    "NeedsReview": Ack(),
    "AwaitingResolution": Ack(),
    "LeasedElsewhere": Nack(NOW + timedelta(seconds=60)),
    "NotAttempted": Nack(NOW + timedelta(seconds=15)),
    "Waiting": Nack(NOW + timedelta(seconds=5)),
    "Held": Nack(NOW + timedelta(seconds=10)),
    "Scheduled": Ack(),
    "Continued": Ack(),
    "OwnershipLost": Ack(),
    "RowMissing": Reject("its row is gone, and now: charged", KEY),
    "NotStarted": Nack(),
    "TableFenced": Postpone(),
    "Conflict": Reject("other amount", KEY),
    "InvalidMessage": Reject("no JSON"),
    "InternalError": Postpone(),
}


def test_every_outcome_has_reply() -> None:
    assert [type(outcome).__name__ for outcome in OUTCOMES] == [*REPLIES]
    assert {type(outcome) for outcome in OUTCOMES} == set(get_args(RunOutcome))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_reply_follows_from_outcome(outcome: RunOutcome) -> None:
    assert action_for(outcome, near_receive_limit=False) == REPLIES[type(outcome).__name__]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_message_is_acked_near_receive_limit_when_row_is_due(outcome: RunOutcome) -> None:
    row_carries_it = isinstance(outcome, LeasedElsewhere | NotAttempted | Waiting)
    expected = Ack() if row_carries_it else REPLIES[type(outcome).__name__]
    assert action_for(outcome, near_receive_limit=True) == expected


@pytest.mark.parametrize("outcome_type", [NotAttempted, Waiting, Held])
def test_message_is_acked_when_row_resends(
    outcome_type: type[NotAttempted | Waiting | Held],
) -> None:
    outcome = outcome_type(
        job_key=KEY, job_type="sync.push", until=NOW, reason="daily limit", row_resends=True
    )
    assert action_for(outcome, near_receive_limit=False) == Ack()


def test_unalerted_conflict_is_redelivered_before_rejection() -> None:
    other = Conflict(job_key=KEY, job_type="payment.charge", reason="other amount", alerted=False)
    assert action_for(other, near_receive_limit=False) == Postpone()
    assert action_for(other, near_receive_limit=True) == Reject("other amount", KEY)
