"""Proofs: SES cannot be asked, so its events show whether a receipt was sent."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from oncely.core.decide import decide_effect
from oncely.core.effect_outcomes import Anomalous
from oncely.core.ended_jobs import holds_only_proof, request_erasure
from oncely.core.errors import UnavailableError
from oncely.core.hints import DropReason, HintAction, on_proof
from oncely.core.job_row import (
    MAX_EVENT_RECORDS,
    EventMark,
    EventRecord,
    JobRow,
    add_record,
)
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.profiles import EndpointGroup
from oncely.core.repairs import Repair
from oncely.gates.gate import GateState, gate_name, open_circuit
from oncely.jobs.receipt_send import ReceiptSend
from oncely.operate.repair_request import RepairRequest
from oncely.providers.ses import SES
from oncely.reconcile.event_intake import EventIntake, ReceivedEvent, save_event
from oncely.testing.memory_aws.calls import AwsCall, no_response, perform_directly
from tests.support.in_memory_stack import InMemoryStack
from tests.support.mail import MemoryMail
from tests.support.mail_events import ACCOUNT, as_delivered, mail_event
from tests.support.outcomes import is_finished
from tests.support.provider_fault import ProviderFault
from tests.unit.samples import NOW, make_job

T = TypeVar("T")
KEY = JobKey("receipt.send:order_18452")
RECEIPT = {"job": "receipt.send", "v": 1, "order_id": "18452"}
WAIT = timedelta(minutes=15)


@pytest.fixture
def world(world: InMemoryStack) -> InMemoryStack:
    """A paid order, and a mailer with events."""
    world.add_order(status="paid", charge_id="ch_1")
    world.mail = MemoryMail(event_wait=timedelta(minutes=15))
    return world


@pytest.fixture
def unanswered(world: InMemoryStack) -> InMemoryStack:
    """The receipt was sent, and its response was lost."""
    world.mail.fail_next(ProviderFault.TIMEOUT_AFTER)
    world.run(RECEIPT)
    return world


def receive(world: InMemoryStack, body: str | dict[str, Any]) -> ReceivedEvent:
    resolver = world.app().group_resolver
    intake = EventIntake(
        plugins={"aws.ses": SES},
        account=ACCOUNT,
        resolver=resolver,
    )
    text = body if isinstance(body, str) else as_delivered(body)
    received = intake.receive(text, deadline=world.clock.now() + timedelta(minutes=1))
    if received.error is not None:
        raise received.error
    return received


def sent(**changes: Any) -> dict[str, Any]:  # noqa: ANN401  # of the event
    return mail_event("Send", key=KEY, **changes)


def test_unanswered_receipt_waits_for_its_event_and_then_needs_review(
    unanswered: InMemoryStack,
) -> None:
    sent_by = unanswered.clock.now()
    unanswered.reconcile(KEY)
    waiting = unanswered.job(KEY)
    assert waiting.status is Status.UNKNOWN
    assert "Read timeout" in str(waiting.last_error)
    assert waiting.due_at is not None
    assert waiting.due_at - sent_by == WAIT + SES.profile.request_timeout

    review = unanswered.run_until_idle(KEY)

    assert review.status is Status.NEEDS_REVIEW
    assert "no event of SES proves that it was sent" in (review.last_error or "")
    assert len(unanswered.mail.sent) == 1


def test_receipt_without_events_needs_review_at_once(unanswered: InMemoryStack) -> None:
    unanswered.mail.event_wait = None
    unanswered.clock.advance(seconds=11)
    unanswered.reconcile(KEY)
    assert unanswered.job(KEY).status is Status.NEEDS_REVIEW


def test_send_event_ends_unanswered_receipt_with_one_delivery(unanswered: InMemoryStack) -> None:
    received = receive(unanswered, sent())

    job = unanswered.job(KEY)
    assert received.outcome is HintAction.ASK_NOW
    assert (job.status, job.provider_ref) == (Status.FINISHED, "mail_1")
    assert job.result == {"message_id": "mail_1"}
    assert unanswered.alerts.sent == []


def test_proof_is_saved_without_history_while_its_worker_runs(world: InMemoryStack) -> None:
    class _DiesAfterSending(MemoryMail):
        def send(self, *args: Any, **named: Any) -> Any:  # noqa: ANN401  # as the mailer's
            super().send(*args, **named)
            raise KeyboardInterrupt

    world.mail = _DiesAfterSending(event_wait=timedelta(minutes=15))
    with suppress(KeyboardInterrupt):
        world.run(RECEIPT)
    before = world.job(KEY)
    assert before.status is Status.STARTED

    received = receive(world, sent())

    after = world.job(KEY)
    assert received.outcome is HintAction.WAIT
    assert replace(after, provider_events=(), version=before.version) == before
    assert [(one.name, one.mark, one.fence) for one in after.proofs] == [("Send", "proof", 1)]
    assert world.run_until_idle(KEY).status is Status.FINISHED
    assert len(world.mail.sent) == 1
    assert world.alerts.sent == []


def test_late_event_ends_the_review(unanswered: InMemoryStack) -> None:
    assert unanswered.run_until_idle(KEY).status is Status.NEEDS_REVIEW

    assert receive(unanswered, sent()).outcome is HintAction.CHECK_END

    job = unanswered.job(KEY)
    assert (job.status, job.provider_ref, job.last_error) == (Status.FINISHED, "mail_1", None)
    assert job.evidence[-1].event is Event.CONFIRM


def test_closed_gate_does_not_delay_a_proof(unanswered: InMemoryStack) -> None:
    """SES is not asked, so that it does not respond says nothing about its events."""
    unanswered.run_until_idle(KEY)
    opened = open_circuit(GateState(), unanswered.clock.now())
    assert opened is not None
    unanswered.gates.change_circuit(gate_name("ses", EndpointGroup.LOOKUPS), opened)

    receive(unanswered, sent())

    assert unanswered.job(KEY).status is Status.FINISHED


def test_late_event_stays_in_queue_while_the_order_cannot_be_read(
    unanswered: InMemoryStack,
) -> None:
    unanswered.run_until_idle(KEY)

    def unreadable(call: AwsCall, perform: Callable[[], T]) -> T:
        if call.request.get("TableName") == "orders":
            raise no_response(call)
        return perform()

    unanswered.aws.intercept = unreadable
    with pytest.raises(UnavailableError, match="orders"):
        receive(unanswered, sent())
    unanswered.aws.intercept = perform_directly

    receive(unanswered, sent())
    assert unanswered.job(KEY).status is Status.FINISHED


def test_event_ends_no_review_of_another_cause(unanswered: InMemoryStack) -> None:
    unanswered.run_until_idle(KEY)
    unanswered.add_order(status="paid", charge_id="ch_1", receipt_email="other@example.com")
    receive(unanswered, sent())
    assert unanswered.job(KEY).status is Status.NEEDS_REVIEW

    moved = unanswered.job(KEY).evidence[-1]
    other = replace(moved, event=Event.CONTRADICT, from_status=Status.FAILED)
    unanswered.add_order(status="paid", charge_id="ch_1")
    unanswered.store.jobs[KEY] = replace(unanswered.job(KEY), evidence=(other,))
    receive(unanswered, sent())
    assert unanswered.job(KEY).status is Status.NEEDS_REVIEW


def test_sweep_that_has_not_seen_the_event_asks_no_operator(unanswered: InMemoryStack) -> None:
    unanswered.reconcile(KEY)
    unanswered.clock.time = unanswered.job(KEY).due_at or NOW
    read = unanswered.store.get

    def get(key: JobKey) -> JobRow | None:
        row: JobRow | None = read(key)
        unanswered.store.get = read
        receive_only_save(unanswered)
        return row

    unanswered.store.get = get
    unanswered.reconcile(KEY)
    assert unanswered.job(KEY).status is Status.UNKNOWN

    unanswered.reconcile(KEY)
    assert unanswered.job(KEY).status is Status.FINISHED


def test_lookup_that_has_not_read_the_newest_proof_ends_nothing(
    unanswered: InMemoryStack,
) -> None:
    receive_only_save(unanswered)
    read = unanswered.store.get

    def get(key: JobKey) -> JobRow | None:
        row: JobRow | None = read(key)
        unanswered.store.get = read
        assert save_event(unanswered.store, unanswered.job(KEY), record(ref="mail_2"))
        return row

    unanswered.store.get = get
    unanswered.reconcile(KEY)
    assert unanswered.job(KEY).status is Status.UNKNOWN

    unanswered.reconcile(KEY)
    assert unanswered.job(KEY).status is Status.NEEDS_REVIEW
    assert "sent 2 times" in (unanswered.job(KEY).last_error or "")


def test_odd_answer_is_looked_up_when_an_event_proves_the_effect() -> None:
    job = make_job(fence=1, provider_events=(record(),))
    decision = decide_effect(job, ReceiptSend.policy, Anomalous("an odd answer"), now=NOW)
    assert (decision.event, decision.alert) == (Event.MARK_UNKNOWN, False)
    assert decision.changes["due_at"] == NOW
    assert "an odd answer" in decision.reason


def receive_only_save(world: InMemoryStack) -> None:
    """The event is saved, and its process dies before it does more."""
    assert save_event(world.store, world.job(KEY), record())


def record(**changes: Any) -> EventRecord:  # noqa: ANN401  # its fields
    given: dict[str, Any] = {
        "at": NOW,
        "provider": "ses",
        "name": "Send",
        "mark": EventMark.PROOF,
        "fence": 1,
        "ref": "mail_1",
    }
    return EventRecord(**{**given, **changes})


def mark(world: InMemoryStack, repair: Repair) -> Status:
    version = world.job(KEY).version
    request = RepairRequest(key=KEY, repair=repair, version=version, reason="seen", actor="ada")
    world.repairer().repair(request)
    return world.job(KEY).status


def test_proof_contradicts_receipt_that_an_operator_marked_failed(
    unanswered: InMemoryStack,
) -> None:
    unanswered.run_until_idle(KEY)
    assert mark(unanswered, Repair.MARK_FAILED) is Status.FAILED
    unanswered.alerts.sent.clear()

    receive(unanswered, sent())

    job = unanswered.job(KEY)
    assert job.status is Status.NEEDS_REVIEW
    assert "proves that it was sent as mail_1" in (job.last_error or "")
    assert job.expires_at is None
    assert len(unanswered.alerts.sent) == 1

    assert mark(unanswered, Repair.MARK_FAILED) is Status.NEEDS_REVIEW
    assert mark(unanswered, Repair.MARK_FINISHED) is Status.FINISHED
    assert receive(unanswered, sent()).outcome is HintAction.KEEP


def test_proof_stops_receipt_that_would_be_sent_again(world: InMemoryStack) -> None:
    world.mail.fail_next(ProviderFault.REFUSED_CONNECTION)
    world.run(RECEIPT)
    assert world.job(KEY).status is Status.READY

    receive(world, sent())

    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert len(world.alerts.sent) == 1
    world.run(RECEIPT)
    assert world.mail.sent == []


def test_worker_that_claims_a_proved_receipt_sends_nothing(world: InMemoryStack) -> None:
    world.mail.fail_next(ProviderFault.REFUSED_CONNECTION)
    world.run(RECEIPT)
    receive_only_save(world)

    world.run(RECEIPT)

    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert world.mail.sent == []


def test_two_emails_of_one_receipt_are_a_contradiction(world: InMemoryStack) -> None:
    assert is_finished(world.run(RECEIPT))
    receive(world, sent())
    assert world.job(KEY).status is Status.FINISHED

    receive(world, sent(message_id="mail_2"))

    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert "sent 2 times: mail_1, mail_2" in (world.job(KEY).last_error or "")
    assert len(world.alerts.sent) == 1

    # The operator was alerted, so another delivery raises no second alert.
    assert mark(world, Repair.MARK_FINISHED) is Status.FINISHED
    receive(world, sent(message_id="mail_2"))
    assert world.job(KEY).status is Status.FINISHED
    assert len(world.alerts.sent) == 1


def test_proof_agrees_with_receipt_that_an_operator_marked_finished(
    unanswered: InMemoryStack,
) -> None:
    unanswered.run_until_idle(KEY)
    assert mark(unanswered, Repair.MARK_FINISHED) is Status.FINISHED

    assert receive(unanswered, sent()).outcome is HintAction.KEEP
    assert unanswered.job(KEY).status is Status.FINISHED


def test_proof_of_an_earlier_claim_does_not_end_the_present_one(world: InMemoryStack) -> None:
    world.mail.fail_next(ProviderFault.REFUSED_CONNECTION, ProviderFault.TIMEOUT_AFTER)
    world.run(RECEIPT)
    world.run(RECEIPT)
    assert (world.job(KEY).status, world.job(KEY).fence) == (Status.UNKNOWN, 2)

    receive(world, sent(fence=1))

    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert "claim 2 may have sent it again" in (world.job(KEY).last_error or "")


def test_bounce_and_complaint_are_kept_without_address(world: InMemoryStack) -> None:
    world.run(RECEIPT)
    before = world.job(KEY)
    for name in ("Bounce", "Complaint"):
        received = receive(world, mail_event(name, key=KEY))
        assert received.outcome is HintAction.KEEP

    after = world.job(KEY)
    kept = [(one.name, one.mark, one.code) for one in after.provider_events]
    assert kept == [("Bounce", "report", "Permanent"), ("Complaint", "report", None)]
    assert replace(after, provider_events=(), version=before.version) == before
    assert "@" not in repr(after.provider_events)


def test_erasure_keeps_the_proof_and_drops_what_was_reported_later(world: InMemoryStack) -> None:
    world.run(RECEIPT)
    for name in ("Send", "Bounce"):
        receive(world, mail_event(name, key=KEY))
    row = world.job(KEY)
    world.store.swap(row, request_erasure(NOW).apply_to(row, now=NOW, actor="ada"))

    assert holds_only_proof(world.job(KEY))
    assert receive(world, mail_event("Complaint", key=KEY)).outcome is DropReason.NOT_NEEDED
    assert [one.name for one in world.job(KEY).provider_events] == ["Send"]


def test_address_does_not_reach_the_intake_queue() -> None:
    for name in ("Send", "Bounce", "Complaint"):
        assert "example.com" not in as_delivered(mail_event(name, key=KEY))


def test_events_of_a_row_are_bounded_and_keep_the_proof() -> None:
    events: tuple[EventRecord, ...] = ()
    for number in range(MAX_EVENT_RECORDS + 5):
        events = add_record(events, record(mark=EventMark.REPORT, ref=f"mail_{number}"))
    assert len(events) == MAX_EVENT_RECORDS

    events = add_record(events, record())
    assert len(events) == MAX_EVENT_RECORDS
    assert events[-1].proves

    for number in range(MAX_EVENT_RECORDS + 5):
        events = add_record(events, record(ref=f"mail_{number + 2}"))
    assert len(events) == MAX_EVENT_RECORDS
    assert record() in events


@pytest.mark.parametrize("status", [Status.STARTED, Status.UNKNOWN, Status.NEEDS_REVIEW])
def test_proof_contradicts_no_job_that_waits_for_an_outcome(status: Status) -> None:
    assert on_proof(make_job(status=status, fence=1, provider_events=(record(),))) is None
