"""receipt.send: at most one email. An ambiguous send needs review."""

import json
import re
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.effect_outcomes import NotSent
from oncely.core.lifecycle import Status
from oncely.core.outcomes import NeedsReview, Unknown
from oncely.jobs.receipt_send import ReceiptSend
from oncely.plugins.provider import ProviderAccess
from oncely.providers.interfaces import Email
from oncely.providers.ses import SES
from oncely.providers.ses.plugin import SesSettings
from tests.support.crash_points import CrashingPort, CrashPlan, SimulatedCrashError
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_duplicate, is_finished, is_retried
from tests.support.provider_fault import ProviderFault
from tests.unit.samples import make_job

KEY = "receipt.send:order_18452"
RECEIPT = {"job": "receipt.send", "v": 1, "order_id": "18452"}


def world_with_paid_order() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order(status="paid", charge_id="ch_1")
    return world


def test_paid_order_gets_one_receipt_and_saves_reference() -> None:
    world = world_with_paid_order()

    assert is_finished(world.run(RECEIPT))
    assert len(world.mail.sent) == 1
    assert "12.50 EUR" in world.mail.sent[0].text
    assert world.job(KEY).provider_ref
    # Two rows with the same amount look like two charges.
    assert world.job(KEY).amount is None
    assert is_duplicate(world.run(RECEIPT))
    assert len(world.mail.sent) == 1


def test_receipt_tags_differ_when_order_ids_look_alike(world: InMemoryStack) -> None:
    for order_id in ("a.b", "a_b", "a@b"):
        world.add_order(order_id, status="paid", charge_id="ch_1")
        world.run({**RECEIPT, "order_id": order_id})

    assert len(set(world.mail.tags)) == 3
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,256}", tag) for tag in world.mail.tags)


@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER])
def test_ambiguous_receipt_needs_review_and_is_not_resent(fault: ProviderFault) -> None:
    world = world_with_paid_order()
    world.mail.fail_next(fault)
    outcome = world.run(RECEIPT)

    job = world.run_until_idle(KEY)

    assert isinstance(outcome, Unknown)
    assert job.status is Status.NEEDS_REVIEW
    assert len(world.mail.sent) == (fault is ProviderFault.TIMEOUT_AFTER)
    assert world.alerts.sent


def test_receipt_is_retried_with_new_tag_after_failed_connection() -> None:
    world = world_with_paid_order()
    world.mail.fail_next(ProviderFault.REFUSED_CONNECTION)

    assert is_retried(world.run(RECEIPT))
    assert is_finished(world.run(RECEIPT))
    assert len(world.mail.sent) == 1
    assert len(set(world.mail.tags)) == 2


@pytest.mark.parametrize("after", [False, True])
def test_crash_at_any_call_sends_at_most_one_receipt(*, after: bool) -> None:
    for call in range(1, 5):
        world = world_with_paid_order()
        fate = CrashPlan(crash_at=call, crash_after=after)
        mailer = world.mail
        world.mail = CrashingPort(mailer, fate)
        runner = world.runner(store=CrashingPort(world.store, fate))
        with suppress(SimulatedCrashError):
            world.run(RECEIPT, runner=runner)
        world.mail = mailer
        world.clock.advance(hours=1)
        world.run(RECEIPT)

        job = world.run_until_idle(KEY)

        assert len(mailer.sent) <= 1, fate.calls
        assert job.status in {Status.FINISHED, Status.NEEDS_REVIEW}, fate.calls


def test_no_receipt_is_sent_or_enqueued_without_sender() -> None:
    world = world_with_paid_order()
    world.mail = None

    outcome = world.run(RECEIPT)
    world.add_order()
    world.run(charge_message())
    world.publisher().publish(world.job("payment.charge:order_18452").job_key)

    assert is_finished(outcome)
    assert world.outbox.sent == []


def test_order_without_address_gets_no_receipt(world: InMemoryStack) -> None:
    world.add_order(status="paid", receipt_email="")
    assert is_finished(world.run(RECEIPT))
    assert world.mail.sent == []


def test_finished_payment_is_followed_by_receipt(world: InMemoryStack) -> None:
    world.run(charge_message())
    world.publisher().publish(world.job("payment.charge:order_18452").job_key)
    assert is_finished(world.run(world.outbox.sent.pop()))
    assert len(world.mail.sent) == 1


def test_declined_payment_has_no_receipt(world: InMemoryStack) -> None:
    world.payments.declines = True
    world.run(charge_message())
    world.publisher().publish(world.job("payment.charge:order_18452").job_key)
    assert [json.loads(body)["job"] for body in world.outbox.sent] == []


def test_receipt_tags_differ_between_deployments() -> None:
    worlds = [world_with_paid_order(), world_with_paid_order()]
    for world, identity in zip(worlds, ("staging", "dev"), strict=True):
        world.deployment = identity
        world.run(RECEIPT)

    assert worlds[0].mail.tags != worlds[1].mail.tags


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ({"status": "paid", "amount": 0}, "an amount is a whole number"),
        ({"status": "refunded"}, "is not paid"),
    ],
)
def test_receipt_needs_review_when_order_is_unusable(order: Any, why: str) -> None:  # noqa: ANN401  # columns
    world = InMemoryStack()
    world.add_order("18452", **order)

    outcome = world.run(RECEIPT)

    assert isinstance(outcome, NeedsReview)
    assert why in outcome.reason
    assert world.mail.calls == []


def test_receipt_is_sent_without_customer_id(world: InMemoryStack) -> None:
    world.add_order(status="paid", customer_id=7)
    assert is_finished(world.run(RECEIPT))
    assert world.job(KEY).customer_id is None


def test_receipt_is_not_sent_when_mail_is_switched_off() -> None:
    job = ReceiptSend(order_id="18452").with_tools(InMemoryStack(mail=None).tools)
    mail = Email(to="ada@example.com", subject="Receipt", text="Thank you.")
    answer = job.execute(job.new_call(make_job(), mail))
    assert isinstance(answer, NotSent)


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        (None, "No receipt was sent: the order has no receipt_email, or receipts are off."),
        ("mail_1", "One receipt was accepted by the email provider (mail_1)."),
    ],
)
def test_receipt_text_follows_from_its_reference(ref: str | None, words: str) -> None:
    assert ReceiptSend.success_summary(make_job(provider_ref=ref)) == words


def test_no_text_about_unknown_receipt_says_that_ses_is_asked() -> None:
    world = world_with_paid_order()
    world.mail.fail_next(ProviderFault.TIMEOUT_AFTER)
    world.run(RECEIPT)

    def texts() -> str:
        view = world.inspector().get(KEY)
        assert view is not None
        shown: Any = view.to_json()
        labels = [line["event_label"] for line in shown["timeline"]]
        return " | ".join((view.headline, *labels, *(one["reason"] for one in shown["repairs"])))

    unknown = texts()
    job = world.run_until_idle(KEY)
    (alert,) = world.alerts.sent

    assert job.status is Status.NEEDS_REVIEW
    assert "Unless its event proves the outcome, an operator decides." in unknown
    for text in (unknown, texts(), alert.text):
        assert "look" not in text.replace("has no lookup", "")


def test_alert_about_payment_suggests_lookup(world: InMemoryStack) -> None:
    world.add_order("cancelled", status="cancelled")
    world.run(charge_message("cancelled"))
    (alert,) = world.alerts.sent
    assert "Then: oncely repair 'payment.charge:order_cancelled' lookup" in alert.text


@pytest.mark.parametrize(
    ("settings", "wait"),
    [
        ({}, None),  # without events
        ({"configuration_set": "shop"}, timedelta(minutes=15)),
        ({"configuration_set": "shop", "event_wait_seconds": "20"}, timedelta(seconds=20)),
    ],
)
def test_receipt_waits_for_its_event_as_long_as_set(
    settings: dict[str, str], wait: timedelta | None
) -> None:
    read = SesSettings.model_validate({"sender_address": "receipts@example.com", **settings})
    mailer = SES.connect(ProviderAccess(settings=read, new_aws_client=lambda *_: None))

    assert mailer.event_wait == wait
