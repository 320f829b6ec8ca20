"""A shop whose payments are audited: two providers, its history, and what can be planted."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from oncely.domain.effect_outcomes import Json
from oncely.domain.history import backfill_line
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.ledger import Difference, DifferenceKind
from oncely.domain.money import Money
from oncely.operate.audit_book import AuditBook, AuditPeriod
from oncely.operate.audit_payments import AuditResult, PaymentAuditor
from tests.support.braintree_account import BraintreeAccount
from tests.support.fakes import START, FakeClock
from tests.support.in_memory_stack import InMemoryStack, charge_message
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

    def job(self, order: str) -> Job:
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
        return entry_id in self.stripe.ids(ref) if provider == "stripe" else ref in entry_id

    def change_money(self, ref: str, money: Money, provider: str = "stripe") -> None:
        if provider == "braintree":
            self.braintree.change(ref, money=money)
            return
        intents = self.stripe.intents
        intents[ref] = replace(intents[ref], payment=replace(intents[ref].payment, money=money))

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
    ref = shop.charge(order, provider=provider)
    return shop.complete(ref, provider=provider, status="canceled")


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


def plant_job_without_refund(shop: AuditedShop, order: str, provider: str) -> str:
    """A refund of a provider that failed after its job had finished."""
    shop.charge(order, provider=provider)
    charged = shop.job(order)
    key = JobKey(f"payment.refund:order_{order}:rma_1")
    message: dict[str, Json] = {
        "job": "payment.refund",
        "v": 1,
        "order_id": order,
        "refund_id": "rma_1",
    }
    shop.world.store.jobs[key] = replace(
        charged,
        job_key=key,
        job_type="payment.refund",
        message=message,
        provider_ref=f"re_{order}",
        result={"refund": f"re_{order}", "charge_id": f"ch_{charged.provider_ref}"},
    )
    return f"re_{order}"


def plant_dispute(shop: AuditedShop, order: str, provider: str) -> str:
    ref = shop.charge(order, provider=provider)
    return shop.complete(ref, provider=provider, status="disputed")


PLANTS: dict[DifferenceKind, Callable[[AuditedShop, str, str], str]] = {
    DifferenceKind.CHARGE_WITHOUT_JOB: plant_charge_without_job,
    DifferenceKind.CHARGE_OF_FAILED_JOB: plant_charge_of_failed_job,
    DifferenceKind.SEVERAL_CHARGES: plant_several_charges,
    DifferenceKind.JOB_WITHOUT_CHARGE: plant_job_without_charge,
    DifferenceKind.AMOUNT_DIFFERS: plant_amount,
    DifferenceKind.CURRENCY_DIFFERS: plant_currency,
    DifferenceKind.REFUND_WITHOUT_JOB: plant_refund,
    DifferenceKind.JOB_WITHOUT_REFUND: plant_job_without_refund,
    DifferenceKind.DISPUTE: plant_dispute,
}
