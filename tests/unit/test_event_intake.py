"""The event intake: whatever arrives, only a lookup at the provider changes a job."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.core.effect_outcomes import Anomalous, Json, NotFound
from oncely.core.hints import DropReason, HintAction, ReportedState, on_undecided_end
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.table_guard import TableBlocked
from oncely.jobs.refund_ledger import RefundLedger, RefundState
from oncely.plugins.events import EventEnvelope, EventRule, webhook_source
from oncely.providers.stripe.plugin import STRIPE
from oncely.reconcile.event_intake import EventIntake, ReceivedEvent, calls_provider
from tests.support.fakes import FakeTableGuard
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault
from tests.support.stripe_events import ACCOUNT, SOURCE, envelope, stripe_event
from tests.unit.samples import TERMS, make_job

KEY = JobKey("payment.charge:order_18452")
REFUND_KEY = JobKey("payment.refund:order_18452:rma_1")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def shop() -> InMemoryStack:
    world = InMemoryStack(deployment="dev")
    world.add_order()
    return world


@pytest.fixture
def lost(shop: InMemoryStack) -> InMemoryStack:
    """A payment that succeeded, and whose answer was lost."""
    shop.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    shop.run(charge_message())
    return shop


@pytest.fixture
def paid(shop: InMemoryStack) -> InMemoryStack:
    shop.run(charge_message())
    return shop


def intake(world: InMemoryStack) -> EventIntake:
    resolver = world.app().group_resolver
    return EventIntake(
        plugins={SOURCE: STRIPE, webhook_source("stripe"): STRIPE},
        account=ACCOUNT,
        resolver=resolver,
    )


def deliver(world: InMemoryStack, body: str) -> ReceivedEvent:
    return intake(world).receive(body, deadline=world.clock.now() + 5 * MINUTE)


def deliver_event(
    world: InMemoryStack, type_: str, object_id: str = "pi_1", **more: Json
) -> ReceivedEvent:
    return deliver(world, envelope(stripe_event(type_, object_id, **more)))  # type: ignore[arg-type]  # by name


def test_event_finishes_payment_whose_answer_was_lost(lost: InMemoryStack) -> None:
    done = deliver_event(lost, "payment_intent.succeeded")
    assert done.outcome is HintAction.ASK_NOW
    assert lost.job(KEY).status is Status.FINISHED
    assert (lost.order()["status"], lost.payments.charges) == ("paid", ["pi_1"])


@pytest.mark.parametrize(
    "type_",
    [
        "payment_intent.succeeded",
        "payment_intent.payment_failed",
        "payment_intent.canceled",
        "payment_intent.processing",
    ],
)
def test_event_is_never_the_outcome(lost: InMemoryStack, type_: str) -> None:
    deliver_event(lost, type_)
    assert (lost.job(KEY).status, lost.order()["status"]) == (Status.FINISHED, "paid")


def test_hint_without_a_lookup_leaves_version_and_history(lost: InMemoryStack) -> None:
    before = lost.job(KEY)
    lost.payments.fail_next("lookup", ProviderFault.TIMEOUT_BEFORE)
    lost.clock.time += timedelta(seconds=1)
    deliver_event(lost, "payment_intent.succeeded")
    after = lost.job(KEY)
    assert after.status is Status.UNKNOWN
    # The lookup failed, and is the only new line.
    assert [entry.event for entry in after.evidence[len(before.evidence) :]] == [Event.RECHECK]


def test_duplicates_and_reordered_events_change_nothing(lost: InMemoryStack) -> None:
    deliver_event(lost, "payment_intent.succeeded")
    finished = lost.job(KEY)
    for type_ in ("payment_intent.processing", "payment_intent.succeeded"):
        assert deliver_event(lost, type_).outcome is DropReason.NOT_NEEDED
    assert deliver_event(lost, "payment_intent.payment_failed").outcome is HintAction.CHECK_END
    assert lost.job(KEY) == finished
    assert (lost.order()["status"], lost.alerts.sent) == ("paid", [])


def test_event_before_its_order_creates_nothing(shop: InMemoryStack) -> None:
    assert deliver_event(shop, "payment_intent.succeeded").outcome is DropReason.NO_JOB
    assert shop.store.get(KEY) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", DropReason.UNREADABLE),
        ("[]", DropReason.UNREADABLE),
        ("{}", DropReason.UNREADABLE),
        ("[" * 100_000, DropReason.UNREADABLE),
        (envelope({"type": "payment_intent.succeeded"}), DropReason.UNREADABLE),
        (envelope({"type": "payment_intent.succeeded", "x": "y" * 300_000}), DropReason.UNREADABLE),
        (
            envelope(stripe_event("payment_intent.succeeded", "pi_1"), account="210987654321"),
            DropReason.OTHER_ACCOUNT,
        ),
        (
            envelope(stripe_event("payment_intent.succeeded", "pi_1", account="acct_1")),
            DropReason.OTHER_ACCOUNT,
        ),
        (
            envelope(stripe_event("payment_intent.succeeded", "pi_1"), source="aws.ses"),
            DropReason.OTHER_SOURCE,
        ),
        (envelope(stripe_event("customer.created", "cus_1")), DropReason.UNKNOWN_TYPE),
        (
            envelope(stripe_event("payment_intent.succeeded", "pi_1", deployment="staging")),
            DropReason.OTHER_DEPLOYMENT,
        ),
        (
            envelope(stripe_event("payment_intent.succeeded", "pi_1", deployment=None)),
            DropReason.NO_JOB,
        ),
        (
            envelope(stripe_event("payment_intent.succeeded", "pi_2")),
            DropReason.OTHER_OBJECT,
        ),
        (
            envelope(stripe_event("payment_intent.succeeded", "pi_1", job_key="oncely:identity")),
            DropReason.NO_JOB,
        ),
        (
            envelope(stripe_event("payment_intent.succeeded", "pi_1", job_key="sync.push:a:b:1")),
            DropReason.NO_JOB,
        ),
        (
            envelope(stripe_event("payment_intent.succeeded", "pi_1", created=-1)),
            DropReason.UNREADABLE,
        ),
        (
            envelope(
                stripe_event("payment_intent.succeeded", "pi_1"),
                **{"detail-type": "payment_intent.canceled"},
            ),
            DropReason.UNREADABLE,
        ),
        (envelope(stripe_event("charge.refunded", "ch_1")), DropReason.OTHER_OBJECT),
    ],
)
def test_what_is_not_ours_is_dropped(lost: InMemoryStack, body: str, reason: DropReason) -> None:
    before = lost.job(KEY)
    done = deliver(lost, body)
    assert (done.outcome, done.stays_in_queue) == (reason, False)
    assert lost.job(KEY) == before


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_no_text_breaks_the_intake(body: str) -> None:
    assert deliver(InMemoryStack(deployment="dev"), body).outcome is DropReason.UNREADABLE


def test_event_waits_in_the_queue_while_a_worker_runs(shop: InMemoryStack) -> None:
    """Stripe's event may arrive before the response that the worker waits for."""
    received: list[ReceivedEvent] = []

    class _SlowAnswer:
        def __getattr__(self, name: str) -> object:
            if name == "execute":
                received.append(deliver_event(shop, "payment_intent.succeeded"))
            return getattr(shop.payments, name)

    shop.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    shop.run(charge_message(), runner=shop.runner(provider=_SlowAnswer()))
    assert [(one.outcome, one.stays_in_queue) for one in received] == [(HintAction.WAIT, True)]
    assert shop.job(KEY).status is Status.UNKNOWN
    deliver_event(shop, "payment_intent.succeeded")
    assert shop.job(KEY).status is Status.FINISHED


def test_event_waits_while_the_job_table_is_blocked(lost: InMemoryStack) -> None:
    before = lost.job(KEY)
    lost.guard = FakeTableGuard(TableBlocked("restored"))
    for type_, object_id in (("payment_intent.succeeded", "pi_1"), ("charge.refunded", "ch_1")):
        assert deliver_event(lost, type_, object_id).stays_in_queue
    assert lost.job(KEY) == before


def test_review_raises_no_second_alert(shop: InMemoryStack) -> None:
    shop.run_to_review()
    before, alerts = shop.job(KEY), len(shop.alerts.sent)
    assert deliver_event(shop, "payment_intent.succeeded").outcome is DropReason.NOT_NEEDED
    assert (shop.job(KEY), len(shop.alerts.sent)) == (before, alerts)


def test_event_that_contradicts_an_end_stays_until_the_provider_is_asked(
    paid: InMemoryStack,
) -> None:
    paid.payments.fail_next("lookup", ProviderFault.TIMEOUT_BEFORE)
    failed = deliver_event(paid, "payment_intent.payment_failed")
    assert (failed.outcome, failed.stays_in_queue) == (None, True)
    assert deliver_event(paid, "payment_intent.payment_failed").outcome is HintAction.CHECK_END
    assert (paid.job(KEY).status, paid.order()["status"]) == (Status.FINISHED, "paid")


def test_refund_that_fails_later_needs_review_and_frees_its_amount(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund())
    paid.payments.complete_refund("re_1", status="failed")
    done = deliver_event(paid, "refund.failed", "re_1", job_key=REFUND_KEY)
    assert done.outcome is HintAction.CHECK_END
    assert paid.job(REFUND_KEY).status is Status.NEEDS_REVIEW
    row = paid.rows.get("refunds", {"charge_id": "ch_1"})
    assert RefundLedger.from_row("ch_1", row).states == {REFUND_KEY: RefundState.FAILED}


def test_forged_refund_failure_frees_no_amount_of_another_refund(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund())
    job = paid.job(REFUND_KEY)
    edited = replace(job, provider_ref="re_7", version=job.version + 1)
    paid.store.swap(job, edited)

    deliver_event(paid, "refund.failed", "re_7", job_key=REFUND_KEY)

    assert paid.job(REFUND_KEY).status is Status.NEEDS_REVIEW
    row = paid.rows.get("refunds", {"charge_id": "ch_1"})
    assert RefundLedger.from_row("ch_1", row).total(RefundState.DONE) == 1250


@pytest.mark.parametrize("row", ["request changed", "request gone", "order gone"])
def test_contradicted_end_needs_review_when_rows_cannot_be_compared(
    paid: InMemoryStack, row: str
) -> None:
    """Money came back, and nobody would know. A late failure of a payment is no such case."""
    paid.run(paid.request_refund())
    paid.payments.complete_refund("re_1", status="failed")
    if row == "request changed":
        paid.request_refund(amount=1)
    elif row == "request gone":
        paid.rows.delete("refund_requests", {"order_id": "18452", "refund_id": "rma_1"})
    else:
        paid.rows.delete("orders", {"order_id": "18452"})

    deliver_event(paid, "refund.failed", "re_1", job_key=REFUND_KEY)
    deliver_event(paid, "payment_intent.payment_failed")

    refund = paid.job(REFUND_KEY)
    assert refund.status is Status.NEEDS_REVIEW
    assert "an event of the provider says failed" in str(refund.last_error)
    assert paid.job(KEY).status is Status.FINISHED
    entries = paid.rows.get("refunds", {"charge_id": "ch_1"})
    assert RefundLedger.from_row("ch_1", entries).states == {REFUND_KEY: RefundState.DONE}


def test_success_of_a_failed_payment_needs_review_when_nothing_can_be_compared() -> None:
    doubt, row = Anomalous("the order is gone"), make_job(status=Status.FAILED)
    decision = on_undecided_end(row, ReportedState.SUCCEEDED, doubt, policy=TERMS)
    assert decision is not None
    assert (decision.event, decision.alert) == (Event.CONTRADICT, True)
    found = NotFound("no payment")
    assert on_undecided_end(row, ReportedState.SUCCEEDED, found, policy=TERMS) is None


def test_forged_refund_failure_changes_nothing(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund())
    before = paid.job(REFUND_KEY)
    deliver_event(paid, "refund.failed", "re_1", job_key=REFUND_KEY)
    assert paid.job(REFUND_KEY) == before


def test_dispute_is_evidence_an_alert_with_its_deadline_and_our_event(paid: InMemoryStack) -> None:
    before, order = paid.job(KEY), dict(paid.order())
    paid.payments.disputed = True

    first = deliver_event(paid, "charge.dispute.created", "dp_1", deployment=None)
    again = deliver_event(paid, "charge.dispute.created", "dp_1", deployment=None)

    assert (first.outcome, again.outcome) == (HintAction.RECORD, DropReason.NOT_NEEDED)
    job = paid.job(KEY)
    assert (job.status, job.result, job.due_at) == (before.status, before.result, before.due_at)
    note = job.evidence[-1]
    assert (note.event, note.count) == (Event.NOTE, 1)
    assert note.reason.endswith("over 12.50 EUR is needs_response; respond by 2026-11-23 03:00 UTC")
    (alert,) = paid.alerts.sent
    assert "Deadline: respond to the provider by 2026-11-23 03:00 UTC" in alert.text
    assert [(key, change.kind) for key, change in paid.bus.changes] == [(KEY, "disputed")]
    assert paid.order() == order


def test_refund_by_hand_alerts_and_our_own_refund_does_not(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund(amount=100))
    assert deliver_event(paid, "charge.refunded", "ch_1").outcome is HintAction.RECORD
    assert paid.alerts.sent == []
    paid.payments.model.create_refund(charge_id="ch_1", amount=100)  # by hand
    assert deliver_event(paid, "charge.refunded", "ch_1").outcome is HintAction.RECORD
    assert [alert.subject for alert in paid.alerts.sent] == [f"Oncely: refunded: {KEY}"]
    assert len(paid.bus.changes) == 2


def test_concurrent_copies_of_an_event_are_noted_once(paid: InMemoryStack) -> None:
    """The copy comes after the first one has published the change, and before its evidence."""
    paid.payments.disputed = True
    copies = iter([("charge.dispute.created", "dp_1")])

    def copy_arrives() -> None:
        for copy in copies:
            deliver_event(paid, *copy)
            # In the same moment both would write the same row, which is no conflict.
            paid.clock.advance(seconds=1)

    paid.bus.on_change = copy_arrives
    deliver_event(paid, "charge.dispute.created", "dp_1")
    notes = [entry for entry in paid.job(KEY).evidence if entry.event is Event.NOTE]
    assert [note.count for note in notes] == [1]


@pytest.mark.parametrize("broken", ["read_change", "alert", "bus"])
def test_change_is_recorded_when_everything_was_told(paid: InMemoryStack, broken: str) -> None:
    paid.payments.disputed = True
    if broken == "read_change":
        paid.payments.fail_next("read_change", ProviderFault.TIMEOUT_BEFORE)
    paid.alerts.fails = broken == "alert"
    paid.bus.fails = broken == "bus"
    failed = deliver_event(paid, "charge.dispute.created", "dp_1")
    assert (failed.outcome, failed.stays_in_queue) == (None, True)
    assert paid.job(KEY).evidence[-1].event is not Event.NOTE

    paid.alerts.fails = paid.bus.fails = False
    assert deliver_event(paid, "charge.dispute.created", "dp_1").outcome is HintAction.RECORD
    assert paid.job(KEY).evidence[-1].event is Event.NOTE


@pytest.mark.parametrize("key", ["deployment:identity", "receipt.send:order_1", "no.such:1"])
def test_event_is_about_no_item_but_jobs_of_its_provider(shop: InMemoryStack, key: str) -> None:
    assert calls_provider(shop.registry, KEY, STRIPE)
    assert not calls_provider(shop.registry, JobKey(key), STRIPE)


def test_only_ids_reach_the_queue() -> None:
    """The rules pass on these fields of Stripe's event, and an email address is in none."""
    rules = STRIPE.event_rules(STRIPE.settings_type(event_source=SOURCE))
    types = {type_: rule for rule in rules for type_ in rule.detail_types}
    for type_, rule in types.items():
        event = stripe_event(type_, "pi_1")
        kept = rule.reduce(event)
        assert kept is not None
        assert "@" not in json.dumps(kept)
        whole, reduced = (
            STRIPE.read_event(EventEnvelope.parse(envelope({"type": type_, **one})))
            for one in (event, kept)
        )
        assert whole == reduced
        assert not isinstance(whole, DropReason)


def test_event_without_our_metadata_passes_no_rule() -> None:
    effects, _ = STRIPE.event_rules(STRIPE.settings_type(event_source=SOURCE))
    assert effects.reduce(stripe_event("payment_intent.succeeded", "pi_1", deployment=None)) is None


def test_events_are_off_unless_a_way_is_set() -> None:
    settings = STRIPE.settings_type()
    assert STRIPE.all_event_rules(settings) == ()


def test_rule_matches_its_source_and_leaves_out_fields_that_must_be_absent() -> None:
    rule = EventRule(name="Effects", source="shop", detail_types=("paid",), fields=("id",))
    matched = {"source": ["shop"], "detail-type": ["paid"]}

    assert rule.pattern == matched
    with_detail = replace(rule, detail={"kind": ["sale"]}, absent=("account",))
    detail = {"kind": ["sale"], "account": [{"exists": False}]}
    assert with_detail.pattern == {**matched, "detail": detail}
