"""What becomes of a queue message, for each way its job can go."""

from datetime import timedelta
from typing import get_args

import pytest

from oncely.services.outcomes import HeldElsewhere, NothingSent, Outcome
from oncely.services.replies import Ack, HandBack, Leave, Reject, Reply, reply_to
from tests.unit.samples import NOW, OUTCOMES

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
    "NotStarted": HandBack(),
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
