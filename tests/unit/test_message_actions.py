"""What becomes of a queue message, for each way its job can go."""

from datetime import timedelta
from typing import get_args

import pytest

from oncely.run.outcomes import Conflict, LeasedElsewhere, NotAttempted, RunOutcome
from oncely.run.process_batch import (
    Ack,
    LeaveInvisible,
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
    "Duplicate": Ack(),
    "Unknown": Ack(),
    "NeedsReview": Ack(),
    "AwaitingResolution": Ack(),
    "LeasedElsewhere": Nack(NOW + timedelta(seconds=60)),
    "NotAttempted": Nack(NOW + timedelta(seconds=15)),
    "Continued": Ack(),
    "OwnershipLost": Ack(),
    "RowMissing": Reject("its row is gone, and now: charged"),
    "NotStarted": Nack(),
    "TableFenced": Postpone(),
    "Conflict": Reject("other amount"),
    "InvalidMessage": Reject("no JSON"),
    "InternalError": LeaveInvisible(),
}


def test_every_outcome_has_reply() -> None:
    assert [type(outcome).__name__ for outcome in OUTCOMES] == [*REPLIES]
    assert {type(outcome) for outcome in OUTCOMES} == set(get_args(RunOutcome))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_reply_follows_from_outcome(outcome: RunOutcome) -> None:
    assert action_for(outcome, near_receive_limit=False) == REPLIES[type(outcome).__name__]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_message_is_acked_near_receive_limit_when_row_is_due(outcome: RunOutcome) -> None:
    row_carries_it = isinstance(outcome, LeasedElsewhere | NotAttempted)
    expected = Ack() if row_carries_it else REPLIES[type(outcome).__name__]
    assert action_for(outcome, near_receive_limit=True) == expected


def test_message_is_acked_when_row_resends() -> None:
    outcome = NotAttempted(
        job_key=KEY, job_type="sync.push", until=NOW, reason="daily limit", row_resends=True
    )
    assert action_for(outcome, near_receive_limit=False) == Ack()


def test_unalerted_conflict_is_redelivered_before_rejection() -> None:
    other = Conflict(job_key=KEY, job_type="payment.charge", reason="other amount", alerted=False)
    assert action_for(other, near_receive_limit=False) == LeaveInvisible()
    assert action_for(other, near_receive_limit=True) == Reject("other amount")
