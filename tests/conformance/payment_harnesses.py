"""The payment providers of the conformance suites, each with its ledger and faults."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from oncely.core.effect_outcomes import EffectOutcome, Prepared
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.money import Money
from oncely.plugins.provider import INTERNET, AnyProvider, Network, ProviderAccess
from oncely.providers.interfaces import Payment, PaymentProvider
from oncely.testing.in_process import InProcessSandbox, base_url
from oncely.testing.sandbox import EffectState, Sandbox
from oncely.testing.sandbox.server import SandboxProviders
from tests.support.provider_fault import ProviderFault

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
class PaymentHarness:
    sandbox: SandboxProviders
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


@contextmanager
def payment_harness(plugin: AnyProvider, *, in_process: bool = False) -> Iterator[PaymentHarness]:
    if in_process:
        local = InProcessSandbox([plugin])
        yield _connect(plugin, local, api_base=base_url(plugin.name), network=local.network)
        return
    with Sandbox([plugin]) as sandbox:
        yield _connect(plugin, sandbox, api_base=sandbox.url)


def _connect(
    plugin: AnyProvider, sandbox: SandboxProviders, *, api_base: str, network: Network = INTERNET
) -> PaymentHarness:
    payments: Any = sandbox.providers[plugin.name]
    given = {plugin.env_var(name): value for name, value in payments.settings.items()}
    settings = plugin.read_settings({**given, plugin.env_var("api_base"): api_base})
    access = ProviderAccess(settings=settings, api_key=payments.api_key, network=network)
    return PaymentHarness(sandbox, payments, plugin.connect(access))


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
