"""The payment providers that the contract suites are run on, each with its truth and faults."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from oncely.domain.effect_outcomes import EffectOutcome, Prepared
from oncely.domain.keys import IdempotencyKey, JobKey
from oncely.domain.money import Money
from oncely.providers.interfaces import Payment
from oncely.providers.sandbox import ProviderSandbox
from oncely.providers.stripe.fake import FakePayments
from oncely.providers.stripe.payments import StripePayments
from oncely.testing.provider_fault import ProviderFault

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
    provider: FakePayments = field(default_factory=FakePayments)

    def charges(self) -> int:
        return len(self.provider.charges)

    def fail_next(self, step: str, fault: ProviderFault) -> None:
        self.provider.fail_next(step, fault)

    def complete_payment(self, ref: str, *, succeeded: bool) -> None:
        self.provider.complete(ref, status="succeeded" if succeeded else "declined")

    def refund(self, ref: str) -> None:
        self.provider.complete(ref, status="refunded")

    def payment(self, kind: str = "good") -> Payment:
        self.provider.declines = kind == "declined"
        self.provider.processes = kind == "processing"
        return make_payment(kind)


@dataclass
class StripeHarness:
    sandbox: ProviderSandbox
    provider: StripePayments

    def charges(self) -> int:
        return len(self.sandbox.ledger.charges)

    def fail_next(self, step: str, fault: ProviderFault) -> None:
        method, path = {
            "prepare": ("POST", "/v1/payment_intents"),
            "execute": ("POST", "/v1/payment_intents/*/confirm"),
            "lookup": ("GET", "/v1/payment_intents/*"),
            "find": ("GET", "/v1/payment_intents"),
            "close": ("POST", "/v1/payment_intents/*/cancel"),
        }[step]
        self.sandbox.faults.add(SANDBOX_FAULTS[fault], method=method, path=path)
        if fault is not ProviderFault.UNAUTHORIZED and step in {"execute", "close"}:
            # Where one of these fails, the adapter reads the intent; nor can it do that.
            self.sandbox.faults.add("outage", method="GET")

    def complete_payment(self, ref: str, *, succeeded: bool) -> None:
        self.sandbox.complete_pending(ref, succeeded=succeeded)

    def refund(self, ref: str) -> None:
        self.provider.client.v1.refunds.create({"payment_intent": ref})

    def payment(self, kind: str = "good") -> Payment:
        methods = {
            "good": "pm_card_visa",
            "declined": "pm_card_chargeDeclined",
            "processing": "pm_processing",
        }
        return make_payment(methods[kind])


PaymentHarness = FakePaymentHarness | StripeHarness


@contextmanager
def payment_harness(name: str) -> Iterator[PaymentHarness]:
    if name == "fake":
        yield FakePaymentHarness()
        return
    with ProviderSandbox() as sandbox:
        yield StripeHarness(sandbox, StripePayments.from_api_key("sk_test_1", api_base=sandbox.url))


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
    execute_payment(rig, ref, asked, number=number)
    return ref
