"""What happens to a queue message, for each outcome of its job."""

from dataclasses import replace
from datetime import timedelta
from typing import get_args

import pytest

from oncely.core.lifecycle import WaitKind
from oncely.core.outcomes import LeasedElsewhere, Parked, Rejected, RunOutcome
from oncely.run.process_batch import (
    Ack,
    MessageAction,
    Nack,
    Postpone,
    Reject,
    action_for,
)
from tests.unit.samples import KEY, NOW, OUTCOMES, RUN_WAITS

REPLIES: dict[str, MessageAction] = {
    "finished": Ack(),
    "failed": Ack(),
    "cancelled": Ack(),
    "unknown": Ack(),
    "needs review": Ack(),
    "duplicate": Ack(),
    "awaits resolution": Ack(),
    "leased": Nack(NOW + timedelta(seconds=60)),
    "ownership lost": Ack(),
    **{str(kind): Nack(NOW + timedelta(seconds=15)) for kind in RUN_WAITS},
    "invalid": Reject("rejected: invalid", KEY),
    "conflict": Reject("rejected: conflict", KEY),
    "row_missing": Reject("rejected: row_missing", KEY),
    "no_time": Nack(),
    "table_blocked": Postpone(),
    "error": Postpone(),
}


def test_every_outcome_has_reply() -> None:
    assert [*OUTCOMES] == [*REPLIES]
    assert {type(outcome) for outcome in OUTCOMES.values()} == set(get_args(RunOutcome))


@pytest.mark.parametrize("name", OUTCOMES)
def test_reply_follows_from_outcome(name: str) -> None:
    assert action_for(OUTCOMES[name], near_receive_limit=False) == REPLIES[name]


@pytest.mark.parametrize("name", OUTCOMES)
def test_message_is_acked_near_receive_limit_when_row_is_due(name: str) -> None:
    outcome = OUTCOMES[name]
    # A held job may have no row yet.
    row_carries_it = isinstance(outcome, Parked | LeasedElsewhere) and name != WaitKind.GATE
    expected = Ack() if row_carries_it else REPLIES[name]
    assert action_for(outcome, near_receive_limit=True) == expected


@pytest.mark.parametrize("kind", RUN_WAITS)
def test_message_is_acked_when_row_resends(kind: WaitKind) -> None:
    outcome = OUTCOMES[str(kind)]
    assert isinstance(outcome, Parked)
    parked = replace(outcome, redeliver=False)
    assert action_for(parked, near_receive_limit=False) == Ack()


def test_unalerted_conflict_is_redelivered_before_rejection() -> None:
    outcome = OUTCOMES["conflict"]
    assert isinstance(outcome, Rejected)
    other = replace(outcome, alerted=False)
    assert action_for(other, near_receive_limit=False) == Postpone()
    assert action_for(other, near_receive_limit=True) == Reject("rejected: conflict", KEY)
