"""Events that are not about this claim of this job change nothing: forged, replayed, too early."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from oncely.core.hints import DropReason, HintAction
from oncely.core.keys import JobKey
from oncely.core.table_guard import TableBlocked, TableOpen
from tests.support.fakes import FakeTableGuard
from tests.support.in_memory_stack import InMemoryStack
from tests.support.mail_events import as_delivered, mail_event
from tests.unit.test_event_proofs import KEY, receive, sent, unanswered, world

# By someone who knows everything but the key.
UNKEYED = hashlib.sha256(f":{KEY}:1".encode()).hexdigest()
__all__ = ["unanswered", "world"]  # fixtures


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"deployment": "staging"}, DropReason.OTHER_OBJECT),
        ({"fence": 2}, DropReason.OTHER_OBJECT),
        ({"tag_key": "guessed"}, DropReason.OTHER_OBJECT),
        ({"tag_key": ""}, DropReason.OTHER_OBJECT),
        ({"oncely_key": [UNKEYED]}, DropReason.OTHER_OBJECT),
        ({"oncely_key": ["\ud800"]}, DropReason.OTHER_OBJECT),
        ({"fence": 0}, DropReason.OTHER_OBJECT),
        ({"oncely_key": ["0" * 64]}, DropReason.OTHER_OBJECT),
        ({"key": JobKey("receipt.send:order_other")}, DropReason.NO_JOB),
        ({"key": JobKey("payment.charge:order_18452")}, DropReason.NO_JOB),
        ({"oncely_job": ["%%%"]}, DropReason.NO_JOB),
        ({"oncely_job": ["bm9uZQ"]}, DropReason.NO_JOB),
        ({"oncely_job": ["a", "b"]}, DropReason.UNREADABLE),
        ({"message_id": "a b@example.com"}, DropReason.UNREADABLE),
    ],
)
def test_forged_event_changes_nothing(
    unanswered: InMemoryStack, changes: dict[str, Any], reason: DropReason
) -> None:
    before = unanswered.job(KEY)
    event = mail_event("Send", **{"key": KEY, **changes})
    assert receive(unanswered, event).outcome is reason
    assert unanswered.job(KEY) == before


def test_table_without_key_accepts_no_proof(unanswered: InMemoryStack) -> None:
    before = unanswered.job(KEY)
    unanswered.guard = FakeTableGuard(TableOpen(deployment=None))
    assert receive(unanswered, sent(tag_key="")).outcome is DropReason.OTHER_OBJECT
    assert unanswered.job(KEY) == before


def test_event_of_another_account_source_or_type_changes_nothing(
    unanswered: InMemoryStack,
) -> None:
    before = unanswered.job(KEY)
    envelope = json.loads(as_delivered(sent()))
    for changes, reason in (
        ({"account": "999999999999"}, DropReason.OTHER_ACCOUNT),
        ({"source": "aws.other"}, DropReason.OTHER_SOURCE),
        ({"detail-type": "Email Opened"}, DropReason.UNKNOWN_TYPE),
        ({"detail-type": "Email Bounced"}, DropReason.UNREADABLE),
        ({"detail": {}}, DropReason.UNREADABLE),
    ):
        assert receive(unanswered, json.dumps({**envelope, **changes})).outcome is reason
    assert unanswered.job(KEY) == before


def test_event_of_row_of_another_deployment_changes_nothing(unanswered: InMemoryStack) -> None:
    copied = replace(unanswered.job(KEY), deployment="staging")
    unanswered.store.jobs[KEY] = copied
    event = sent(deployment="staging")
    assert receive(unanswered, event).outcome is DropReason.OTHER_DEPLOYMENT
    assert unanswered.job(KEY) == copied


def test_event_before_its_job_creates_nothing(world: InMemoryStack) -> None:
    assert receive(world, sent()).outcome is DropReason.NO_JOB
    assert world.store.jobs == {}


def test_proof_stays_in_queue_while_job_table_is_blocked(unanswered: InMemoryStack) -> None:
    before = unanswered.job(KEY)
    unanswered.guard = FakeTableGuard(TableBlocked("restored"))
    with pytest.raises(Exception, match="restored"):
        receive(unanswered, sent())
    assert unanswered.job(KEY) == before


def test_repeated_event_changes_nothing(unanswered: InMemoryStack) -> None:
    receive(unanswered, sent())
    before = unanswered.job(KEY)
    unanswered.clock.advance(hours=1)
    assert receive(unanswered, sent()).outcome is HintAction.KEEP
    assert unanswered.job(KEY) == before
