"""Refunds at Braintree: the shipped client over the model, in the order of each schedule."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    LookupFailed,
    NotFound,
    NotSent,
    Pending,
    Prepared,
    Succeeded,
)
from oncely.core.job_row import JobRow
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.lifecycle import Status
from oncely.core.money import Money
from oncely.core.outcomes import NeedsReview
from oncely.core.repairs import Repair
from oncely.operate.repair_request import Repaired, RepairOutcome, RepairRequest
from oncely.plugins.ledger import LedgerEntry
from oncely.providers.braintree.sandbox import RecordedTransaction, key_error
from oncely.providers.interfaces import ChargeState, Refund
from tests.conformance.payment_harnesses import make_payment
from tests.support.audited_shop import AuditedShop
from tests.support.braintree_account import BraintreeAccount
from tests.support.fakes import FakeClock
from tests.support.outcomes import is_finished, waits_for_rows

KEY = IdempotencyKey("dev:payment.refund:order_18452:rma_1:refund:1")
PAYMENT = replace(make_payment("bt_visa"), deployment="dev")


class Sale:
    """A sale of 12.50 EUR, and the refund of it."""

    def __init__(self, status: str = "settled", amount: int = 800) -> None:
        self.clock = FakeClock()
        self.account = BraintreeAccount(now=self.clock.now)
        self.client, self.model = self.account.client, self.account.model
        made = self.client.prepare(PAYMENT, idempotency_key=IdempotencyKey("dev:create:1"))
        assert isinstance(made, Prepared)
        self.ref = made.ref
        self.model.set_status(self.ref, status)
        self.refund = Refund(
            charge_id=self.ref,
            money=Money(amount, "eur"),
            job_key=JobKey("payment.refund:order_18452:rma_1"),
            order_id="18452",
            refund_id="rma_1",
            deployment="dev",
        )

    def send(self, key: IdempotencyKey = KEY) -> EffectOutcome:
        return self.client.refund(self.refund, idempotency_key=key)

    def lose(self, fault: str, step: str = "refund", **options: float) -> None:
        self.account.sandbox.faults.add(fault, **self.model.requests[step], **options)

    @property
    def refunds(self) -> list[RecordedTransaction]:
        return [one for one in self.model.ledger.transactions if one.type == "credit"]

    @property
    def returned(self) -> int:
        return self.model.returned(self.ref)


@pytest.mark.parametrize("status", ["settling", "settled", "settlement_confirmed"])
def test_settled_sale_is_refunded_once_and_found(status: str) -> None:
    sale = Sale(status)

    outcome = sale.send()

    (made,) = sale.refunds
    assert isinstance(outcome, Succeeded)
    assert outcome == sale.client.lookup_refund(sale.refund)
    assert (outcome.ref, made.order_id) == (made.transaction_id, "dev:" + sale.refund.job_key)
    assert sale.returned == 800


@pytest.mark.parametrize("status", ["authorized", "submitted_for_settlement", "settlement_pending"])
def test_full_refund_before_settlement_is_a_void(status: str) -> None:
    sale = Sale(status, amount=1250)

    outcome = sale.send()

    assert isinstance(outcome, Succeeded)
    assert outcome.ref == sale.ref
    assert sale.client.lookup_refund(sale.refund) == outcome
    assert (sale.account.status(sale.ref), sale.refunds) == ("voided", [])
    assert sale.send() == outcome
    entry = sale.client.ledger.find_refund(sale.ref)
    assert isinstance(entry, LedgerEntry), "an audit finds the refund of the job"
    assert entry.money == sale.refund.money


def test_part_of_an_unsettled_sale_waits_until_it_settles() -> None:
    sale = Sale("submitted_for_settlement")

    waiting = sale.send()

    assert isinstance(waiting, NotSent)
    assert waiting.retry_after
    assert "waits for" in waiting.reason
    assert (sale.account.status(sale.ref), sale.refunds) == ("submitted_for_settlement", [])
    sale.model.set_status(sale.ref, "settled")
    assert isinstance(sale.send(), Succeeded)
    assert sale.returned == 800


@pytest.mark.parametrize("status", ["settlement_declined", "failed", "authorization_expired"])
def test_sale_that_took_no_money_gives_none_back(status: str) -> None:
    sale = Sale(status, amount=1250)
    assert isinstance(sale.client.read_charge(sale.ref), NotFound)
    assert isinstance(sale.send(), Anomalous)
    assert sale.refunds == []


def test_sale_that_was_voided_by_hand_is_all_returned() -> None:
    sale = Sale("voided")
    state = sale.client.read_charge(sale.ref)
    assert isinstance(state, ChargeState)
    assert (state.captured, state.refunded) == (Money(1250, "eur"), 1250)
    assert isinstance(sale.send(), Anomalous), "all of it was returned, and a part was requested"


def test_charge_state_names_owner_refunds_and_disputes() -> None:
    sale = Sale()
    sale.model.refund(sale.ref, share=5)
    state = ChargeState(
        captured=Money(1250, "eur"), refunded=250, order_id="18452", deployment="dev"
    )
    assert sale.client.read_charge(sale.ref) == state
    sale.model.dispute(sale.ref)
    assert sale.client.read_charge(sale.ref) == replace(state, disputed=True)
    assert isinstance(sale.client.read_charge("bt_unknown"), NotFound)
    (refund,) = sale.refunds
    assert isinstance(sale.client.read_charge(refund.transaction_id), NotFound)


@pytest.mark.parametrize(
    ("order_id", "owner"),
    [
        ("18452", (None, "18452")),
        ("2024:18452", (None, "2024:18452")),
        ("dev:payment.charge:order_18452:2", ("dev", "18452")),
        ("dev:payment.charge:order_a%20b", ("dev", "a b")),
        ("dev:sha256:12ab", ("dev", "sha256:12ab")),
    ],
)
def test_owner_of_a_sale_is_read_from_its_order_id(
    order_id: str, owner: tuple[str | None, str]
) -> None:
    sale = Sale()
    found = sale.model.ledger.find(RecordedTransaction, sale.ref)
    assert found is not None
    sale.model.ledger.save(replace(found, order_id=order_id))
    state = sale.client.read_charge(sale.ref)
    assert isinstance(state, ChargeState)
    assert (state.deployment, state.order_id) == owner


@pytest.mark.parametrize("fault", ["accept_then_drop", "error_after", "garbled", "truncated"])
@pytest.mark.parametrize(("status", "step"), [("settled", "refund"), ("authorized", "close")])
def test_lost_response_is_read_from_the_sale(fault: str, status: str, step: str) -> None:
    sale = Sale(status, amount=1250)
    sale.lose(fault, step)
    assert isinstance(sale.send(), Succeeded)
    assert sale.returned == 1250


def test_refund_that_the_search_does_not_show_is_found_by_id_and_the_other_way() -> None:
    sale = Sale()
    sale.send()
    sale.model.search_lag = timedelta(hours=1)
    assert isinstance(sale.client.lookup_refund(sale.refund), Succeeded)
    sale.model.search_lag, sale.model.refund_ids_lag = timedelta(0), timedelta(hours=1)
    assert isinstance(sale.client.lookup_refund(sale.refund), Succeeded)


def test_request_that_arrives_late_is_the_same_refund_as_its_repeat() -> None:
    sale = Sale()
    sale.lose("arrives_late", seconds=600)
    assert isinstance(sale.send(), Ambiguous)
    assert isinstance(sale.client.lookup_refund(sale.refund), NotFound)

    assert isinstance(sale.send(), Succeeded)
    sale.account.sandbox.deliver_late()

    assert sale.returned == 800
    assert len(sale.refunds) == 1


def test_void_that_arrives_after_settlement_gives_nothing_back() -> None:
    sale = Sale("submitted_for_settlement", amount=1250)
    sale.lose("arrives_late", "close", seconds=600)
    assert isinstance(sale.send(), Ambiguous)
    sale.model.set_status(sale.ref, "settled")

    assert isinstance(sale.send(), Succeeded)
    sale.account.sandbox.deliver_late()

    assert (sale.account.status(sale.ref), sale.returned) == ("settled", 1250)


def test_only_an_answer_stored_under_the_key_is_reported_as_one() -> None:
    sale = Sale()
    sale.lose("error_before")
    first = sale.send()
    assert isinstance(first, Ambiguous)
    assert not first.replayed, "a 500 alone does not prove that it was stored"

    second = sale.send()

    assert isinstance(second, Ambiguous)
    assert second.replayed
    assert isinstance(sale.send(IdempotencyKey("dev:next")), Succeeded)
    assert sale.returned == 800


@pytest.mark.parametrize("code", ["915232", "915233", "915235"])
def test_rejected_key_says_nothing_about_the_refund(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    sale = Sale()
    monkeypatch.setattr(sale.model, "_once", lambda *_: key_error(code))
    outcome = sale.send()
    assert isinstance(outcome, Ambiguous)
    assert not outcome.replayed


def test_merchant_without_keys_refunds_without_them() -> None:
    for status in ("settled", "authorized"):
        sale = Sale(status, amount=1250)
        sale.model.accepts_keys = False
        assert isinstance(sale.send(), Succeeded)
        assert sale.returned == 1250


def test_declined_refund_gives_its_amount_free() -> None:
    sale = Sale()
    sale.model.refund_status = "processor_declined"
    declined = sale.send()
    assert isinstance(declined, Declined)
    assert declined.code == "processor_declined"
    assert sale.client.lookup_refund(sale.refund) == declined
    assert sale.returned == 0


def test_refund_that_fails_after_it_succeeded_is_found() -> None:
    sale = Sale()
    sale.send()
    (made,) = sale.refunds
    sale.model.set_status(made.transaction_id, "settlement_declined")
    outcome = sale.client.lookup_refund(sale.refund)
    assert isinstance(outcome, Declined)
    assert outcome.code == "settlement_declined"


def test_undecided_refund_is_pending() -> None:
    sale = Sale()
    sale.model.refund_status = "settlement_pending"
    assert isinstance(sale.send(), Pending)
    assert isinstance(sale.client.lookup_refund(sale.refund), Pending)


@pytest.mark.parametrize(("shares", "code"), [((1,), "91512"), ((2,), "91521")])
def test_refund_of_what_is_gone_needs_review(shares: tuple[int, ...], code: str) -> None:
    """It is no decline: our own earlier request may have taken what is gone."""
    sale = Sale()
    for share in shares:
        sale.model.refund(sale.ref, share=share)
    outcome = sale.send()
    assert isinstance(outcome, Anomalous)
    assert code in outcome.reason


def test_rejection_because_of_the_moment_is_repeated_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was read as settled, and is not any more, or not yet for a refund."""
    sale = Sale("submitted_for_settlement")
    monkeypatch.setattr(sale.model, "_shown", lambda one: replace(one, status="settled"))
    outcome = sale.send()
    assert isinstance(outcome, NotSent)
    assert outcome.retry_after


def test_two_refunds_of_one_job_need_review() -> None:
    sale = Sale("settled", amount=400)
    for number in (1, 2):
        sale.send(IdempotencyKey(f"dev:{number}"))
    outcome = sale.client.lookup_refund(sale.refund)
    assert isinstance(outcome, Anomalous)
    assert "several" in outcome.reason


def test_refund_of_another_amount_needs_review() -> None:
    sale = Sale()
    sale.send()
    outcome = sale.client.lookup_refund(replace(sale.refund, money=Money(799, "eur")))
    assert isinstance(outcome, Anomalous)


@pytest.mark.parametrize("fault", ["outage", "drop_before", "rate_limit", "unauthorized"])
def test_sale_that_cannot_be_read_is_not_refunded(fault: str) -> None:
    sale = Sale()
    sale.lose(fault, "lookup", times=2)
    assert isinstance(sale.client.lookup_refund(sale.refund), LookupFailed)
    assert isinstance(sale.send(), NotSent)
    assert sale.refunds == []


# --- The jobs, over the shipped client ---


def refund_job(shop: AuditedShop) -> JobRow:
    return shop.world.job("payment.refund:order_18452:rma_1")


def look_up_charge(shop: AuditedShop) -> RepairOutcome:
    job = shop.job("18452")
    return shop.world.repairer().repair(
        RepairRequest(
            key=job.job_key,
            repair=Repair.LOOK_UP,
            version=job.version,
            actor="ana",
            reason="Braintree writes that something changed",
        )
    )


def test_order_that_has_not_settled_is_refunded_by_a_void() -> None:
    shop = AuditedShop()
    ref = shop.charge("18452", provider="braintree")

    assert is_finished(shop.world.run(shop.world.request_refund()))

    assert (shop.braintree.status(ref), refund_job(shop).provider_ref) == ("voided", ref)
    assert isinstance(shop.world.run(shop.world.request_refund("rma_2")), NeedsReview)
    assert isinstance(look_up_charge(shop), Repaired)
    assert shop.job("18452").status is Status.FINISHED, "a refund contradicts no charge"


def test_part_of_an_order_waits_without_an_attempt_until_it_settles() -> None:
    shop = AuditedShop()
    ref = shop.charge("18452", provider="braintree")

    shop.world.run(shop.world.request_refund(amount=500))

    job = refund_job(shop)
    assert (job.status, job.attempts) == (Status.READY, 0)
    assert f"waits for {ref} to be settled" in str(job.last_error)
    assert job.due_at
    assert job.due_at >= shop.clock.now() + timedelta(hours=2)
    shop.braintree.model.set_status(ref, "settled")
    assert shop.world.run_until_idle(job.job_key).status is Status.FINISHED
    assert shop.braintree.model.returned(ref) == 500


def test_sale_that_never_settles_needs_review_after_a_month(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oncely.providers.braintree.refunds.SETTLEMENT_WAIT", timedelta(hours=20))
    shop = AuditedShop()
    shop.charge("18452", provider="braintree")
    began, message = shop.clock.now(), shop.world.request_refund(amount=500)
    while not isinstance(shop.world.run(message), NeedsReview):
        shop.clock.time = refund_job(shop).due_at or began

    assert timedelta(days=30) < shop.clock.now() - began < timedelta(days=31)
    assert "it waited 30 days" in str(refund_job(shop).last_error)


def test_refund_waits_while_its_order_is_not_paid() -> None:
    shop = AuditedShop()
    shop.world.add_order(payment_provider="braintree")
    assert waits_for_rows(shop.world.run(shop.world.request_refund()))
    shop.charge("18452", provider="braintree")
    assert shop.world.run_until_idle(refund_job(shop).job_key).status is Status.FINISHED


@pytest.mark.parametrize("status", ["settlement_declined", "failed", "processor_declined"])
def test_charge_that_fails_after_its_submission_needs_review(status: str) -> None:
    shop = AuditedShop()
    ref = shop.charge("18452", provider="braintree")
    assert isinstance(look_up_charge(shop), Repaired)
    assert shop.job("18452").status is Status.FINISHED
    shop.braintree.model.set_status(ref, status)

    assert isinstance(look_up_charge(shop), Repaired)

    job = shop.job("18452")
    assert (job.status, status in str(job.last_error)) == (Status.NEEDS_REVIEW, True)
    assert shop.world.order()["status"] == "paid", "an operator decides what becomes of the order"
    entry = shop.braintree.client.ledger.find_charge(ref)
    assert isinstance(entry, LedgerEntry)
    assert not entry.moved_money, "an audit finds it as well"
