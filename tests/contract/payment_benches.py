"""The payment providers that the contract suites are run on, each with its truth and faults."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from infra.local.sandbox import StripeSandbox
from oncely.adapters.stripe_payments import StripePayments
from oncely.domain.answers import Prepared
from oncely.domain.keys import JobKey, ProviderKey
from oncely.domain.money import Money
from oncely.providers import Payment, PaymentProvider
from tests.support.payments import FakePayments, Fault


class Bench(Protocol):
    """A provider, its truth, and a way to make it fail."""

    @property
    def provider(self) -> PaymentProvider: ...

    def charges(self) -> int: ...

    def fails(self, step: str, fault: Fault) -> None: ...

    def pays_out(self, ref: str, *, succeeded: bool) -> None: ...

    def refunds(self, ref: str) -> None: ...

    def payment(self, kind: str = "good") -> Payment: ...


def payment(method: str, amount: int = 1250) -> Payment:
    return Payment(
        money=Money(amount, "eur"),
        customer="cus_7",
        method=method,
        job_key=JobKey("payment.charge:order_18452"),
        order_id="18452",
    )


@dataclass
class FakeBench:
    provider: FakePayments = field(default_factory=FakePayments)

    def charges(self) -> int:
        return len(self.provider.charges)

    def fails(self, step: str, fault: Fault) -> None:
        self.provider.fails(step, fault)

    def pays_out(self, ref: str, *, succeeded: bool) -> None:
        self.provider.settle(ref, status="succeeded" if succeeded else "declined")

    def refunds(self, ref: str) -> None:
        self.provider.settle(ref, status="refunded")

    def payment(self, kind: str = "good") -> Payment:
        self.provider.declines = kind == "declined"
        self.provider.processes = kind == "processing"
        return payment(kind)


@dataclass
class StripeBench:
    sandbox: StripeSandbox
    provider: StripePayments

    def charges(self) -> int:
        return len(self.sandbox.ledger.charges)

    def fails(self, step: str, fault: Fault) -> None:
        method, path = {
            "prepare": ("POST", "/v1/payment_intents"),
            "execute": ("POST", "/v1/payment_intents/*/confirm"),
            "look_up": ("GET", "/v1/payment_intents/*"),
            "find": ("GET", "/v1/payment_intents"),
            "close": ("POST", "/v1/payment_intents/*/cancel"),
        }[step]
        kind = {
            Fault.TIMEOUT_BEFORE: "drop_before",
            Fault.TIMEOUT_AFTER: "accept_then_drop",
            Fault.UNAUTHORIZED: "unauthorized",
        }[fault]
        self.sandbox.faults.add(kind, method=method, path=path)
        if fault is not Fault.UNAUTHORIZED and step in {"execute", "close"}:
            # Where one of these fails, the adapter reads the intent; nor can it do that.
            self.sandbox.faults.add("outage", method="GET")

    def pays_out(self, ref: str, *, succeeded: bool) -> None:
        self.sandbox.settle(ref, succeeded=succeeded)

    def refunds(self, ref: str) -> None:
        self.provider.client.v1.refunds.create({"payment_intent": ref})

    def payment(self, kind: str = "good") -> Payment:
        methods = {
            "good": "pm_card_visa",
            "declined": "pm_card_chargeDeclined",
            "processing": "pm_processing",
        }
        return payment(methods[kind])


@contextmanager
def a_bench(name: str) -> Iterator[Bench]:
    """One of them, by name."""
    if name == "fake":
        yield FakeBench()
        return
    with StripeSandbox() as sandbox:
        yield StripeBench(sandbox, StripePayments.with_key("sk_test_1", api_base=sandbox.url))


def key(text: str) -> ProviderKey:
    return ProviderKey(text)


def prepared(bench: Bench, asked: Payment, *, number: int = 1) -> str:
    answer = bench.provider.prepare(asked, key=key(f"create:{number}"))
    assert isinstance(answer, Prepared)
    return answer.ref
