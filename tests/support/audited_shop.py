"""A shop whose payments are audited: two providers, its history, and what can be planted."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from oncely.core.job_row import Decision, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.money import Money
from oncely.history.lines import backfill_line
from oncely.operate.audit_book import AuditBook, AuditPeriod
from oncely.operate.audit_payments import AuditResult, PaymentAuditor
from oncely.plugins.ledger import Difference, DifferenceKind, EntryKind
from oncely.providers.braintree.sandbox import RecordedTransaction
from oncely.providers.stripe.sandbox.model import RecordedRefund
from tests.support.braintree_account import BraintreeAccount
from tests.support.fakes import START, FakeClock
from tests.support.in_memory_stack import InMemoryStack, charge_message, refund_message
from tests.support.stripe_account import StripeAccount

PERIOD = AuditPeriod(since=START.replace(hour=0), until=START.replace(hour=0) + timedelta(days=1))


@dataclass
class AuditedShop:
    """A deployment `dev` with two payment providers, and its history."""

    clock: FakeClock = field(default_factory=FakeClock)
    pauses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stripe = StripeAccount(now=self.clock.now)
        self.braintree = BraintreeAccount(now=self.clock.now)
        self.world = InMemoryStack(
            clock=self.clock,
            payments=self.stripe,
            other_payments={"braintree": self.braintree.client},
            deployment="dev",
        )

    def charge(self, order: str, *, provider: str = "stripe", **message: object) -> str:
        """Charge an order, and return the provider reference of its job."""
        self.world.add_order(order, payment_provider=provider)
        self.world.run(charge_message(order, **message))
        return self.job(order).provider_ref or ""

    def job(self, order: str) -> JobRow:
        return self.world.job(f"payment.charge:order_{order}")

    def payments(self, provider: str = "stripe") -> Any:  # noqa: ANN401  # each provider's own
        return self.stripe if provider == "stripe" else self.braintree

    def plant(self, ref: str, *, provider: str = "stripe", **payment: object) -> str:
        """Add a charge like that of `ref`, which no worker made."""
        if provider == "braintree":
            return self.braintree.plant(ref, **payment)
        intents = self.stripe.intents
        new = f"{ref}_{len(intents)}"
        intent = intents[ref]
        planted = replace(intent.payment, **payment)  # type: ignore[arg-type]  # by name
        intents[new] = replace(intent, ref=new, payment=planted)
        return new

    def names(self, ref: str, entry_id: str, provider: str) -> bool:
        """Whether an entry of the provider's list belongs to this payment."""
        return ref == entry_id or (provider == "stripe" and entry_id in self.stripe.ids(ref))

    def change_money(self, ref: str, money: Money, provider: str = "stripe") -> None:
        if provider == "braintree":
            self.braintree.change(ref, money=money)
            return
        intents = self.stripe.intents
        intents[ref] = replace(intents[ref], payment=replace(intents[ref].payment, money=money))

    def add_job(self, order: str, *, provider: str, **changes: object) -> JobRow:
        """Add a row of a refund, or a charge's like that of a new order, which no worker wrote."""
        self.charge(f"{order}base", provider=provider)
        refund_id, base = f"rma_{order}", self.job(f"{order}base")
        refund: dict[str, Any] = {
            "job_key": JobKey(f"payment.refund:order_{order}base:{refund_id}"),
            "job_type": "payment.refund",
            "message": refund_message(refund_id, order_id=f"{order}base"),
            "provider_ref": f"re_{order}",
            "result": {"refund": f"re_{order}", "charge_id": (base.result or {})["charge_id"]},
        }
        charge = {
            "job_key": JobKey(f"payment.charge:order_{order}"),
            "message": charge_message(order),
            "subject": order,
            "provider_ref": f"{base.provider_ref}404",
            "result": {},
        }
        is_refund = changes.pop("kind", EntryKind.REFUND) is EntryKind.REFUND
        job = replace(base, **{**(refund if is_refund else charge), **changes})
        self.world.store.jobs[job.job_key] = job
        return job

    def add_refund(
        self,
        job: JobRow,
        entry_id: str,
        *,
        provider: str,
        fails: bool = False,
        key: str | None = None,
    ) -> str:
        """Record a refund at the provider, with the metadata of a job."""
        charge_id = str((job.result or {})["charge_id"])
        key = key or job.job_key
        if provider == "braintree":
            sale = self.braintree.model.ledger.find(RecordedTransaction, charge_id)
            assert sale is not None
            made = replace(sale, type="credit", transaction_id=entry_id, refunded_id=charge_id)
            status = "settlement_declined" if fails else "settled"
            made = replace(made, order_id=f"dev:{key}", status=status)
            self.braintree.model.ledger.save(made)
        else:
            charge = self.stripe.model.ledger.charge(charge_id)
            assert charge is not None
            made_by_stripe = RecordedRefund(
                refund_id=entry_id,
                charge_id=charge_id,
                intent_id=charge.intent_id,
                amount=charge.amount,
                currency=charge.currency,
                created=self.clock.now(),
                metadata={"job_key": key, "deployment": "dev"},
                status="failed" if fails else "succeeded",
            )
            self.stripe.model.ledger.save(made_by_stripe)
        return entry_id

    def add_clean_orders(self, number: int) -> int:
        """Add orders in which nothing is wrong. Returns how many differ and are explained."""
        notes = 0
        for order in range(number):
            provider = PROVIDERS[order % 2]
            name = f"clean{order}"
            match order // 2 % 10:
                case 0:
                    self._refund(name, provider=provider)
                case 1:
                    self._refund(name, provider=provider, share=2)
                case 2:
                    ref = self.charge(name, provider=provider)
                    self.complete(ref, provider=provider, status="refunded")
                    charge_id = (self.job(name).result or {})["charge_id"]
                    self.note(name, f"the provider reports: 12.50 EUR ({charge_id}) was refunded")
                    notes += 1
                case 3 if provider == "braintree":
                    self._void(name)
                    notes += 1
                case 4:
                    payments = self.payments(provider)
                    payments.declines = True
                    self.charge(name, provider=provider)
                    payments.declines = False
                case _:
                    self.charge(name, provider=provider)
        return notes

    def _refund(self, name: str, *, provider: str, share: int = 1) -> None:
        """Let a job refund an order. At Braintree, a row and the provider's entry stand for it."""
        if provider == "stripe":
            self.charge(name)
            request = self.world.request_refund(order_id=name, amount=EUR.amount // share)
            self.world.run(request)
            return
        job = self.add_job(name, provider=provider, amount=EUR.amount // share)
        self.add_refund(job, f"re_{name}", provider=provider)
        if share > 1:
            self.braintree.change(f"re_{name}", money=Money(EUR.amount // share, "eur"))

    def _void(self, name: str) -> None:
        """Refund a sale of Braintree by a void, which leaves no entry of its own."""
        ref = self.charge(name, provider="braintree")
        job = self.add_job(f"{name}void", provider="braintree")
        voided = replace(job, subject=name, provider_ref=ref, result={"charge_id": ref})
        self.world.store.jobs[job.job_key] = voided
        self.complete(ref, provider="braintree", status="canceled")

    def note(self, order: str, reason: str) -> None:
        """Add evidence to a job, as an event of its provider does."""
        job = self.job(order)
        decided = Decision(event=Event.NOTE, reason=reason)
        noted = decided.apply_to(job, now=self.clock.now(), actor="events")
        self.world.store.jobs[job.job_key] = noted

    def complete(self, ref: str, *, provider: str, status: str) -> str:
        """Give a payment this status. Returns the id under which its provider lists that."""
        if provider == "braintree":
            return self.braintree.complete(ref, status=status)
        self.stripe.complete(ref, status=status)
        return ref

    def archive(self) -> None:
        """Write the rows to the history, as the stream does."""
        for number, job in enumerate(self.world.store.jobs.values()):
            line = backfill_line(job, generation="T1")
            self.world.history.put(line.at.date(), line.job_type, f"object-{number}", [line])

    @property
    def auditor(self) -> PaymentAuditor:
        return replace(self.world.app().payment_auditor, pause=self.pauses.append)

    def audit(
        self, path: str = ":memory:", period: AuditPeriod = PERIOD
    ) -> tuple[AuditResult, list[Difference]]:
        with AuditBook(path, period) as book:
            return self.auditor.run(book), list(book.differences())


PROVIDERS = ("stripe", "braintree")
EUR = Money(1250, "eur")


def plant_charge_without_job(shop: AuditedShop, order: str, provider: str) -> str:
    ref = shop.charge(order, provider=provider)
    return shop.plant(ref, provider=provider, job_key=JobKey(f"payment.charge:order_x{order}"))


def plant_charge_of_failed_job(shop: AuditedShop, order: str, provider: str) -> str:
    payments = shop.payments(provider)
    payments.declines = True
    shop.charge(order, provider=provider)
    payments.declines = False
    *_, ref = payments.refs if isinstance(payments, BraintreeAccount) else payments.intents
    return shop.complete(ref, provider=provider, status="succeeded")


def plant_several_charges(shop: AuditedShop, order: str, provider: str) -> str:
    return shop.plant(shop.charge(order, provider=provider), provider=provider)


def plant_job_without_charge(shop: AuditedShop, order: str, provider: str) -> str:
    """An operator marked a job as finished, and the provider has no such payment."""
    return shop.add_job(order, provider=provider, kind=EntryKind.CHARGE).provider_ref or ""


def plant_failed_charge(shop: AuditedShop, order: str, provider: str) -> str:
    """A settlement that failed, or a payment that was canceled, after its job had finished."""
    ref = shop.charge(order, provider=provider)
    if provider == "braintree":
        shop.braintree.model.set_status(ref, "settlement_declined")
        return ref
    return shop.complete(ref, provider=provider, status="canceled")


def plant_invented_charge_id(shop: AuditedShop, order: str, provider: str) -> str:
    """A finished job whose charge its provider does not have: its row was edited."""
    invented = f"ch_{order}invented"
    shop.world.add_order(order, payment_provider=provider, status="paid")
    shop.world.run(charge_message(order))
    job = shop.job(order)
    edited = replace(job, result={**(job.result or {}), "charge_id": invented})
    shop.world.store.jobs[job.job_key] = edited
    return invented


def plant_amount(shop: AuditedShop, order: str, provider: str) -> str:
    ref = shop.charge(order, provider=provider)
    shop.change_money(ref, Money(1251, "eur"), provider)
    return ref


def plant_currency(shop: AuditedShop, order: str, provider: str) -> str:
    ref = shop.charge(order, provider=provider)
    shop.change_money(ref, Money(1250, "usd"), provider)
    return ref


def plant_refund(shop: AuditedShop, order: str, provider: str) -> str:
    ref = shop.charge(order, provider=provider)
    return shop.complete(ref, provider=provider, status="refunded")


def plant_refund_of_failed_job(shop: AuditedShop, order: str, provider: str) -> str:
    job = shop.add_job(order, provider=provider, status=Status.CANCELLED)
    return shop.add_refund(job, f"re_{order}", provider=provider)


def plant_second_refund(shop: AuditedShop, order: str, provider: str) -> str:
    job = shop.add_job(order, provider=provider)
    shop.add_refund(job, f"re_{order}", provider=provider)
    return shop.add_refund(job, f"re_{order}again", provider=provider)


def plant_job_without_refund(shop: AuditedShop, order: str, provider: str) -> str:
    return shop.add_job(order, provider=provider).provider_ref or ""


def plant_failed_refund(shop: AuditedShop, order: str, provider: str) -> str:
    """A refund that failed after its job had finished."""
    job = shop.add_job(order, provider=provider)
    return shop.add_refund(job, f"re_{order}", provider=provider, fails=True)


def plant_dispute(shop: AuditedShop, order: str, provider: str) -> str:
    ref = shop.charge(order, provider=provider)
    return shop.complete(ref, provider=provider, status="disputed")


PLANTS: dict[DifferenceKind, Callable[[AuditedShop, str, str], str]] = {
    DifferenceKind.CHARGE_WITHOUT_JOB: plant_charge_without_job,
    DifferenceKind.CHARGE_OF_FAILED_JOB: plant_charge_of_failed_job,
    DifferenceKind.SEVERAL_CHARGES: plant_several_charges,
    DifferenceKind.JOB_WITHOUT_CHARGE: plant_job_without_charge,
    DifferenceKind.CHARGE_FAILED_LATER: plant_failed_charge,
    DifferenceKind.CHARGE_ID_UNKNOWN: plant_invented_charge_id,
    DifferenceKind.AMOUNT_DIFFERS: plant_amount,
    DifferenceKind.CURRENCY_DIFFERS: plant_currency,
    DifferenceKind.REFUND_WITHOUT_JOB: plant_refund,
    DifferenceKind.REFUND_OF_FAILED_JOB: plant_refund_of_failed_job,
    DifferenceKind.SEVERAL_REFUNDS: plant_second_refund,
    DifferenceKind.JOB_WITHOUT_REFUND: plant_job_without_refund,
    DifferenceKind.REFUND_FAILED_LATER: plant_failed_refund,
    DifferenceKind.DISPUTE: plant_dispute,
}
