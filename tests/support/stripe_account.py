"""Stripe in this process: the shipped client over the model, in the words of the tests."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

from oncely.core.keys import JobKey
from oncely.core.money import Money
from oncely.plugins.provider import ProviderAccess
from oncely.providers.interfaces import Payment
from oncely.providers.stripe.plugin import STRIPE, StripeSettings
from oncely.providers.stripe.sandbox.api import StripeSandbox
from oncely.providers.stripe.sandbox.model import (
    Charge,
    ChargeStatus,
    IntentStatus,
    PaymentIntent,
    RecordedRefund,
    object_id,
)
from oncely.testing.in_process import InProcessSandbox, base_url, refuse_connection
from oncely.testing.sandbox import FaultKind, SandboxFault, SandboxOptions
from oncely.testing.sandbox.http_messages import SandboxRequest, counting_ids
from tests.support.provider_fault import ProviderFault

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
FAULTS: Final = {
    ProviderFault.TIMEOUT_BEFORE: FaultKind.DROP_BEFORE,
    ProviderFault.TIMEOUT_AFTER: FaultKind.ACCEPT_THEN_HANG,
    ProviderFault.ARRIVES_LATE: FaultKind.ARRIVES_LATE,
    ProviderFault.REFUSED_CONNECTION: FaultKind.DROP_BEFORE,
    ProviderFault.SERVER_ERROR: FaultKind.ERROR_BEFORE,
    ProviderFault.SERVER_ERROR_AFTER: FaultKind.ERROR_AFTER,
    ProviderFault.SERVER_ERROR_UNSTORED: FaultKind.ERROR_UNSTORED,
    ProviderFault.UNAUTHORIZED: FaultKind.UNAUTHORIZED,
}
# Stripe stays unreachable until the client's call ends, so that a read after it fails as well.
UNREACHABLE: Final = frozenset(
    {ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER, ProviderFault.ARRIVES_LATE}
)

EFFECTS: Final = frozenset({"prepare", "execute", "close", "refund"})
CHARGED: Final = {
    "succeeded": (IntentStatus.SUCCEEDED, ChargeStatus.SUCCEEDED),
    "processing": (IntentStatus.PROCESSING, ChargeStatus.PENDING),
    "declined": (IntentStatus.REQUIRES_PAYMENT_METHOD, ChargeStatus.FAILED),
}


@dataclass(frozen=True)
class StripeIntent:
    """An intent, and the payment that it is for.

    Its status is Stripe's, or `declined`, `refunded` or `disputed`.
    """

    ref: str
    payment: Payment
    status: str = "requires_confirmation"


class StripeAccount:
    """The shipped client of one account, which records and can fail each call."""

    def __init__(
        self,
        *,
        declines: bool = False,
        now: Callable[[], datetime] | None = None,
        new_id: Callable[[str], str] | None = None,
    ) -> None:
        self.now = now  # None until a stack sets its clock
        options = SandboxOptions(
            clock=lambda: self.now() if self.now else START, new_id=new_id or counting_ids()
        )
        self.sandbox = _Sandbox([STRIPE], options=options)
        model = self.sandbox.providers[STRIPE.name]
        assert isinstance(model, StripeSandbox)
        self.model: StripeSandbox = model
        self.account = "test"
        self.declines = declines
        self.late_by = timedelta(minutes=10)
        self._forgotten = 0  # the number of requests
        self.faults: dict[str, deque[ProviderFault]] = {}  # by step

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever the client has
        if name == "client":
            raise AttributeError(name)  # not connected yet
        return getattr(self.client, name)

    @property
    def account(self) -> str:
        return self._account

    @account.setter
    def account(self, account: str) -> None:
        self._account = account
        access = ProviderAccess(
            settings=StripeSettings(api_base=base_url(STRIPE.name)),
            api_key=f"sk_test_{account}",
            network=self.sandbox.network,
        )
        self.client = _FailingClient(self, STRIPE.connect(access))

    # What was asked of Stripe, and what happened there.

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Each request: its step, and its idempotency key or the object that it names."""
        return [
            (_step(one.method, one.path), one.idempotency_key or _object(one.path, one.params))
            for one in self.sandbox.ledger.requests[self._forgotten :]
        ]

    def forget_calls(self) -> None:
        self._forgotten = len(self.sandbox.ledger.requests)

    @property
    def charges(self) -> list[str]:
        """The intent of each charge."""
        return [one.intent_id for one in self.model.ledger.charges]

    def ids(self, ref: str) -> set[str]:
        """The ids of an intent and of what was made for it."""
        ledger = self.model.ledger
        made: tuple[Any, ...] = (*ledger.attempts, *ledger.refunds, *ledger.disputes)
        return {ref, *(object_id(one) for one in made if one.intent_id == ref)}

    @property
    def refunds(self) -> dict[str, RecordedRefund]:
        return {one.refund_id: one for one in self.model.ledger.refunds}

    def refunded(self, charge_id: str) -> int:
        charge = self.model.ledger.charge(charge_id)
        return charge.amount_refunded if charge else 0

    @property
    def intents(self) -> "_Intents":
        return _Intents(self)

    # What happens next.

    def fail_next(self, step: str, *faults: ProviderFault) -> None:
        self.faults.setdefault(step, deque()).extend(faults)

    def deliver_late(self) -> None:
        """Perform the requests that arrive late."""
        self.sandbox.deliver_late()

    @property
    def declines(self) -> bool:
        return self.model.acts_as == self.model.samples["declined"]

    @declines.setter
    def declines(self, declines: bool) -> None:
        self.model.acts_as = self.model.samples["declined"] if declines else None

    @property
    def processes(self) -> bool:
        return self.model.acts_as == self.model.samples["pending"]

    @processes.setter
    def processes(self, processes: bool) -> None:
        self.model.acts_as = self.model.samples["pending"] if processes else None

    # What others do, whether Stripe's rules allow it or not.

    def complete(self, ref: str, *, status: str) -> None:
        """Give an intent this status."""
        intent = self.model.find_intent(ref)
        if status in {"refunded", "disputed"}:
            if intent.status is not IntentStatus.SUCCEEDED:
                self._charge(intent, "succeeded")
            (self.model.refund if status == "refunded" else self.model.dispute)(ref)
        elif status in CHARGED:
            self._charge(intent, status)
        else:
            latest = self.model.ledger.charge(intent.latest_charge)
            failed = [replace(latest, status=ChargeStatus.FAILED)] if latest else []
            self.model.ledger.save(replace(intent, status=IntentStatus(status)), *failed)

    def _charge(self, intent: PaymentIntent, status: str) -> None:
        intent_status, charge_status = CHARGED[status]
        charge = self.model.ledger.charge(intent.latest_charge)
        if charge is None or charge.status is not ChargeStatus.PENDING:
            charge = Charge(
                charge_id=self.model.options.new_id("ch"),
                intent_id=intent.intent_id,
                amount=intent.amount,
                currency=intent.currency,
                created=self.model.options.clock(),
                status=charge_status,
                customer=intent.customer,
                payment_method=intent.payment_method or "pm_card_visa",
                metadata=intent.metadata,
                idempotency_key=None,
            )
        error = {"code": "card_declined", "decline_code": "generic_decline"}
        after = replace(
            intent,
            status=intent_status,
            latest_charge=charge.charge_id,
            last_payment_error=error if status == "declined" else None,
        )
        self.model.ledger.save(after, replace(charge, status=charge_status))

    def complete_refund(self, ref: str, *, status: str) -> None:
        self.model.complete_refund(ref, succeeded=status == "succeeded")

    @property
    def disputed(self) -> bool:
        return bool(self.model.ledger.disputes)

    @disputed.setter
    def disputed(self, disputed: bool) -> None:
        assert disputed
        for one in self.charges:
            self.model.dispute(one)

    def call(self, step: str, method: Callable[..., Any], *given: Any, **named: Any) -> Any:  # noqa: ANN401  # any call
        """Call the client, with the next fault of this step."""
        waiting = self.faults.get(step)
        if not waiting:
            return method(*given, **named)
        fault = waiting[0]
        with self.sandbox.failing(fault, step, late_by=self.late_by) as hit:
            answer = method(*given, **named)
        if hit.hits:
            waiting.popleft()
        return answer


class _FailingClient:
    def __init__(self, account: StripeAccount, client: Any, step: str | None = None) -> None:  # noqa: ANN401  # the client or its ledger
        self._account, self._client, self._step = account, client, step

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever the client has
        found = getattr(self._client, name)
        if name == "ledger":
            return _FailingClient(self._account, found, "list")
        if not callable(found) or name in {"key_scope", "job_label"}:
            return found

        def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401  # any call
            return self._account.call(self._step or name, found, *given, **named)

        return call


class _Sandbox(InProcessSandbox):
    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401  # as inherited
        super().__init__(*args, **named)
        self._call = threading.local()  # the fault of each thread's call

    @contextmanager
    def failing(
        self, fault: ProviderFault, step: str, *, late_by: timedelta
    ) -> Iterator[SandboxFault]:
        where = StripeSandbox.requests[step] if step in EFFECTS else {"method": "GET"}
        late = fault is ProviderFault.ARRIVES_LATE
        seconds = late_by.total_seconds() if late else None
        hit = self.faults.add(FAULTS[fault], seconds=seconds, **where)
        self._call.fault = (fault, hit)
        try:
            yield hit
        finally:
            del self._call.fault
            self.faults.deactivate()

    def serve(self, request: SandboxRequest) -> bytes | OSError:
        fault, hit = getattr(self._call, "fault", (None, None))
        if hit is not None and hit.hits and fault in UNREACHABLE:
            self.ledger.record(request, fault=FaultKind.DROP_BEFORE)
            return ConnectionResetError("reset by the sandbox")
        if fault is ProviderFault.REFUSED_CONNECTION and hit is not None and hit.matches(request):
            hit.hits += 1
            refuse_connection()
        return super().serve(request)


class _Intents(Mapping[str, StripeIntent]):
    def __init__(self, account: StripeAccount) -> None:
        self._account, self._ledger = account, account.model.ledger

    def __getitem__(self, ref: str) -> StripeIntent:
        if (intent := self._ledger.intent(ref)) is None:
            raise KeyError(ref)
        payment = Payment(
            money=Money(intent.amount, intent.currency),
            customer=str(intent.customer),
            method=intent.payment_method or "pm_card_visa",
            job_key=JobKey(intent.metadata["job_key"]),
            order_id=intent.metadata["order_id"],
            deployment=intent.metadata.get("deployment"),
        )
        return StripeIntent(ref, payment, self._status(intent))

    def _status(self, intent: PaymentIntent) -> str:
        charge = self._ledger.charge(intent.latest_charge)
        if charge and charge.amount_refunded == charge.amount:
            return "refunded"
        if charge and charge.disputed:
            return "disputed"
        declined = intent.last_payment_error and intent.status is not IntentStatus.CANCELED
        return "declined" if declined else intent.status.value

    def __setitem__(self, ref: str, intent: StripeIntent) -> None:
        """Plant an intent, or change one and its charge."""
        payment = intent.payment
        metadata = {"job_key": payment.job_key, "order_id": payment.order_id}
        if payment.deployment is not None:
            metadata["deployment"] = payment.deployment
        shared: dict[str, Any] = {
            "amount": payment.money.amount,
            "currency": payment.money.currency,
            "customer": payment.customer,
            "metadata": metadata,
        }
        planted = PaymentIntent(
            intent_id=ref,
            created=self._account.model.options.clock(),
            status=IntentStatus.REQUIRES_CONFIRMATION,
            payment_method=payment.method,
            redirects_allowed=False,
            **shared,
        )
        if (known := self._ledger.intent(ref)) is not None:
            planted = replace(known, **shared)
            if (charge := self._ledger.charge(known.latest_charge)) is not None:
                self._ledger.save(replace(charge, **shared))
        self._ledger.save(planted)
        if intent.status != self[ref].status:
            self._account.complete(ref, status=intent.status)

    def __iter__(self) -> Iterator[str]:
        return (one.intent_id for one in self._ledger.intents)

    def __len__(self) -> int:
        return len(self._ledger.intents)


# The longest pattern first: that of a lookup matches other requests of an intent as well.
_STEPS: Final = sorted(StripeSandbox.requests.items(), key=lambda one: -len(one[1]["path"]))


def _step(method: str, path: str) -> str:
    for step, where in _STEPS:
        if method == where["method"] and fnmatchcase(path, where["path"]):
            return step
    return f"{method} {path}"


def _object(path: str, params: Mapping[str, Any]) -> str:
    named = next((one for one in path.split("/") if "_" in one and one != "payment_intents"), None)
    return named or str(params.get("charge") or params.get("customer") or "")
