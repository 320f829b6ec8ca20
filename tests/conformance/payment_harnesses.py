"""The payment providers of the conformance suites, each with its ledger and faults."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pkgutil import resolve_name
from typing import Any, Protocol

from oncely.domain.effect_outcomes import EffectOutcome, Prepared
from oncely.domain.keys import IdempotencyKey, JobKey
from oncely.domain.money import Money
from oncely.provider import AnyProvider, ProviderAccess
from oncely.providers.fake_payments import FakePayments
from oncely.providers.interfaces import Payment, PaymentProvider
from oncely.testing.provider_fault import ProviderFault
from oncely.testing.sandbox import EffectState, Sandbox

SANDBOX_FAULTS = {
    ProviderFault.TIMEOUT_BEFORE: "drop_before",
    ProviderFault.TIMEOUT_AFTER: "accept_then_drop",
    ProviderFault.UNAUTHORIZED: "unauthorized",
}


def make_payment(method: str, amount: int = 1250) -> Payment:
    return Payment(
        money=Money(amount, "eur"),
        customer="cus_7",
        method=method,
        job_key=JobKey("payment.charge:order_18452"),
        order_id="18452",
    )


@dataclass
class FakePaymentHarness:
    provider: FakePayments

    def charges(self) -> int:
        return len(self.provider.charges)

    def fail_next(self, step: str, fault: ProviderFault) -> None:
        self.provider.fail_next(step, fault)

    def complete_payment(self, ref: str, *, succeeded: bool) -> None:
        self.provider.complete(ref, status="succeeded" if succeeded else "declined")

    def refund(self, ref: str) -> None:
        self.provider.complete(ref, status="refunded")

    def dispute(self, ref: str) -> None:
        self.provider.complete(ref, status="disputed")

    def set_email(self, customer: str, email: str) -> None:
        self.provider.emails[customer] = email

    def payment(self, kind: str = "good") -> Payment:
        self.provider.declines = kind == "declined"
        self.provider.processes = kind == "processing"
        return make_payment(kind)


class PaymentSandbox(Protocol):
    """What the sandbox of a payment provider has beyond any other."""

    requests: Mapping[str, Mapping[str, str]]
    samples: Mapping[str, str]
    reads_before: Mapping[str, int]  # how many reads a step makes before its request

    def complete_pending(self, ref: str, /, *, succeeded: bool) -> object: ...

    def refund(self, ref: str, /) -> None: ...

    def dispute(self, ref: str, /) -> None: ...

    def set_email(self, customer: str, email: str, /) -> None: ...


@dataclass
class SandboxPaymentHarness:
    sandbox: Sandbox
    payments: PaymentSandbox
    provider: PaymentProvider

    def charges(self) -> int:
        charges = (one for one in self.sandbox.effects() if one.kind == "charges")
        return sum(one.state is EffectState.DONE for one in charges)

    def fail_next(self, step: str, fault: ProviderFault) -> None:
        self.sandbox.faults.add(SANDBOX_FAULTS[fault], **self.payments.requests[step])
        if fault is not ProviderFault.UNAUTHORIZED and step in {"execute", "close"}:
            # If one of these fails, the adapter looks up the payment, which must fail as well.
            reads = self.payments.reads_before.get(step, 0)
            self.sandbox.faults.add("outage", skip=reads, **self.payments.requests["lookup"])

    def complete_payment(self, ref: str, *, succeeded: bool) -> None:
        self.payments.complete_pending(ref, succeeded=succeeded)

    def refund(self, ref: str) -> None:
        self.payments.refund(ref)

    def dispute(self, ref: str) -> None:
        self.payments.dispute(ref)

    def set_email(self, customer: str, email: str) -> None:
        self.payments.set_email(customer, email)

    def payment(self, kind: str = "good") -> Payment:
        samples = {"good": "paid", "declined": "declined", "processing": "pending"}
        return make_payment(self.payments.samples[samples[kind]])


PaymentHarness = FakePaymentHarness | SandboxPaymentHarness


@contextmanager
def payment_harness(plugin: AnyProvider, *, fake: bool = False) -> Iterator[PaymentHarness]:
    if fake:
        now = partial(datetime.now, UTC)
        yield FakePaymentHarness(resolve_name(str(plugin.fake))(now=now))
        return
    with Sandbox([plugin]) as sandbox:
        payments: Any = sandbox.providers[plugin.name]
        given = {plugin.env_var(name): value for name, value in payments.settings.items()}
        settings = plugin.read_settings({**given, plugin.env_var("api_base"): sandbox.url})
        client = plugin.connect(ProviderAccess(settings=settings, api_key=payments.api_key))
        yield SandboxPaymentHarness(sandbox, payments, client)


def prepare_payment(rig: PaymentHarness, asked: Payment, *, number: int = 1) -> str:
    answer = rig.provider.prepare(asked, idempotency_key=IdempotencyKey(f"create:{number}"))
    assert isinstance(answer, Prepared)
    return answer.ref


def execute_payment(
    rig: PaymentHarness, ref: str, asked: Payment, *, number: int = 1, verified: bool = False
) -> EffectOutcome:
    key = IdempotencyKey(f"confirm:{number}")
    return rig.provider.execute(ref, asked, idempotency_key=key, verified=verified)


def charge_payment(rig: PaymentHarness, asked: Payment, *, number: int = 1) -> str:
    ref = prepare_payment(rig, asked, number=number)
    execute_payment(rig, ref, asked, number=number, verified=True)
    return ref
