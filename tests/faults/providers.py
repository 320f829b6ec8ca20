"""Models of the providers with the weaknesses that real ones have."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from oncely.core.money import Money
from oncely.providers.braintree.sandbox import SETTLED, BraintreeSandbox, RecordedTransaction
from oncely.providers.hubspot.sandbox.api import HubSpotSandbox
from oncely.providers.stripe.sandbox.api import StripeSandbox
from oncely.providers.stripe.sandbox.model import CONFIRMABLE, IntentStatus, PaymentIntent
from oncely.testing.sandbox import FaultKind, SandboxOptions
from oncely.testing.sandbox.http_messages import SandboxHandler, SandboxRequest, SandboxResponse
from oncely.testing.schedule import START
from tests.faults.expectations import KEY

DECLINED: Final = StripeSandbox.samples["declined"]
PROCESSING: Final = StripeSandbox.samples["pending"]
LIMIT_DURATION: Final = timedelta(hours=2)
OUTAGE: Final = timedelta(hours=1)
TEN_MINUTES: Final = timedelta(minutes=10)
# How long a payment or a refund is pending: a few sweeps. More would add no state.
PROCESSING_TIME: Final = timedelta(minutes=4)
# When a confirmation in flight arrives, just before its worker's timeout.
ARRIVAL: Final = timedelta(seconds=65)

Wrap = Callable[[SandboxHandler], SandboxResponse]
NewStripe = Callable[[SandboxOptions], StripeSandbox]
NewBraintree = Callable[[SandboxOptions], BraintreeSandbox]


def stripe(
    model_type: type[StripeSandbox] = StripeSandbox,
    *,
    seed: Callable[[StripeSandbox], object] = lambda _: None,
    key_window: timedelta | None = None,
    **attributes: object,
) -> NewStripe:
    """Build a model of Stripe with these attributes for each schedule."""

    def new_model(options: SandboxOptions) -> StripeSandbox:
        model = model_type(replace(options, key_window=key_window))
        for name, value in attributes.items():
            assert hasattr(model, name), name
            setattr(model, name, value)
        seed(model)
        return model

    return new_model


def braintree(
    *, seed: Callable[[BraintreeSandbox], object] = lambda _: None, **attributes: object
) -> NewBraintree:
    """Build a model of Braintree with these attributes for each schedule."""

    def new_model(options: SandboxOptions) -> BraintreeSandbox:
        model = BraintreeSandbox(options)
        for name, value in attributes.items():
            assert hasattr(model, name), name
            setattr(model, name, value)
        seed(model)
        return model

    return new_model


def stripe_fault(kind: FaultKind, call: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401  # its options
    """A fault of the first such request in every schedule."""
    return {"kind": kind, **StripeSandbox.requests[call], **more}


def braintree_fault(kind: FaultKind, call: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401  # as above
    """A fault of the first such request in every schedule."""
    return {"kind": kind, **BraintreeSandbox.requests[call], **more}


def draft_intent(**changes: Any) -> PaymentIntent:  # noqa: ANN401  # its fields
    """An unconfirmed intent of the scenarios' order."""
    given: dict[str, Any] = {
        "intent_id": "",
        "amount": 1250,
        "currency": "eur",
        "created": START,
        "status": IntentStatus.REQUIRES_CONFIRMATION,
        "customer": "cus_7",
        "payment_method": "pm_card_visa",
        "redirects_allowed": False,
    }
    return PaymentIntent(**{**given, "metadata": metadata(), **changes})


def metadata(job_key: str = KEY, deployment: str = "dev") -> Mapping[str, str]:
    order = job_key.rpartition("_")[2]
    return {"job_key": job_key, "order_id": order, "deployment": deployment}


def add_paid_intent(model: StripeSandbox, *, deployment: str = "dev") -> None:
    """The order was paid: pi_1 with ch_1."""
    draft = draft_intent(metadata=metadata(deployment=deployment))
    model.pay_open_intent(model.create_intent(draft).intent_id)


def add_sale(model: BraintreeSandbox, *, status: str = SETTLED, deployment: str = "dev") -> None:
    """The order was paid: bt_1."""
    sale = RecordedTransaction(
        transaction_id=model.options.new_id("bt"),
        money=Money(1250, "eur"),
        merchant_account="oncely_eur",
        created=START,
        status=status,
        order_id=f"{deployment}:{KEY}",
        customer="cus_7",
        token=model.samples["paid"],
    )
    model.ledger.save(sale)


def add_foreign_intent(model: StripeSandbox) -> None:
    """An unconfirmed payment of another customer, which must not pay our order."""
    theirs = metadata("payment.charge:order_9", "staging")
    foreign = draft_intent(intent_id="pi_victim", customer="cus_victim", amount=9900)
    model.ledger.save(replace(foreign, metadata=theirs))


def add_intent(model: StripeSandbox) -> None:
    """The unconfirmed intent pi_1 of our job."""
    model.create_intent(draft_intent())


class StripeWithEvents(StripeSandbox):
    """Does something on its own before each request."""

    def before_request(self) -> None:
        raise NotImplementedError

    def handle(self, request: SandboxRequest, *, wrap: Wrap) -> SandboxResponse:
        self.before_request()
        return super().handle(request, wrap=wrap)


class DecliningFirstAttempt(StripeSandbox):
    """Declines the first business attempt for an order, and takes the second."""

    def _attempt_charge(self, intent: PaymentIntent, attempt: Any) -> PaymentIntent:  # noqa: ANN401  # as inherited
        self.acts_as = None if intent.metadata["job_key"].endswith(":2") else DECLINED
        return super()._attempt_charge(intent, attempt)


def pay_open_intents(model: StripeSandbox) -> None:
    """Let every confirmation that may still arrive find the money."""
    for one in model.ledger.intents:
        if one.status in CONFIRMABLE and one.latest_charge is not None:
            model.pay_open_intent(one.intent_id)


class LateConfirmation(StripeWithEvents):
    """A confirmation is in flight, and arrives a minute later, unless the intent is closed."""

    def before_request(self) -> None:
        self.arrive()

    def arrive(self) -> None:
        intent = self.find_intent("pi_1")
        if intent.status in CONFIRMABLE and self.options.now() >= START + ARRIVAL:
            self.pay_open_intent("pi_1")


class FailingRefunds(StripeWithEvents):
    """Refunds are pending for a while. Then the bank returns the money."""

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.refund_status = "pending"

    def before_request(self) -> None:
        self.return_refunds("pending")

    def return_refunds(self, status: str) -> None:
        moment = self.options.now() - PROCESSING_TIME
        for one in self.ledger.refunds:
            if one.status == status and one.created <= moment:
                self.complete_refund(one.refund_id, succeeded=False)


class ReturnedRefunds(FailingRefunds):
    """The bank returns every refund a while after its success."""

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.refund_status = "succeeded"

    def before_request(self) -> None:
        self.return_refunds("succeeded")


class OutageStripe(StripeSandbox):
    """Charges, and then does not respond for an hour: an outage that begins with the response."""

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.down_since: datetime | None = None

    def handle(self, request: SandboxRequest, *, wrap: Wrap) -> SandboxResponse:
        if self.down_since is not None and self.options.now() - self.down_since < OUTAGE:
            return self.error_response(request, status=503)
        response = super().handle(request, wrap=wrap)
        if self.down_since is None and request.path.endswith("/confirm"):
            self.down_since = self.options.now()
            return self.error_response(request, status=503)
        return response


class DisputedStripe(StripeWithEvents):
    """Every charge is disputed soon after it was made."""

    def before_request(self) -> None:
        for one in self.ledger.charges:
            if not one.disputed:
                self.dispute(one.intent_id)


class LimitedHubSpot(HubSpotSandbox):
    """Its daily limit is used up, for longer than a job may age."""

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.spent_since: datetime | None = None

    def handle(self, request: SandboxRequest, *, wrap: Wrap) -> SandboxResponse:
        now = self.options.now()
        self.spent_since = self.spent_since or now
        self.rules.is_daily_limit_reached = now - self.spent_since < LIMIT_DURATION
        return super().handle(request, wrap=wrap)


class SmallPages(HubSpotSandbox):
    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.rules.max_results = 2


class VanishingHubSpot(HubSpotSandbox):
    """Its contact is deleted just after the first read."""

    def handle(self, request: SandboxRequest, *, wrap: Wrap) -> SandboxResponse:
        response = super().handle(request, wrap=wrap)
        if self.request_name(request) == "get_contact" and response.status == 200:
            for one in self.ledger.contacts:
                self.contacts.archive(one.contact_id)
        return response


class ReturningHubSpot(HubSpotSandbox):
    """Its contact is missing at the first read, and restored just after it."""

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.is_back = False

    def handle(self, request: SandboxRequest, *, wrap: Wrap) -> SandboxResponse:
        if self.is_back or self.request_name(request) != "get_contact":
            return super().handle(request, wrap=wrap)
        for one in self.ledger.contacts:
            self.contacts.archive(one.contact_id)
        response = super().handle(request, wrap=wrap)
        for one in self.ledger.contacts:
            self.contacts.restore(one.contact_id)
        self.is_back = True
        return response
