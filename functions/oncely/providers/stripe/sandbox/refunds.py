"""The refunds endpoints: create, and list by charge or intent."""

from dataclasses import replace

from oncely.providers.stripe.sandbox.errors import (
    StripeApiError,
    StripeValidationError,
    not_found_error,
)
from oncely.providers.stripe.sandbox.ledger import Charge, ChargeStatus, Refund, StripeLedger
from oncely.providers.stripe.sandbox.params import Params
from oncely.providers.stripe.sandbox.serializers import list_body, refund_body
from oncely.testing.sandbox.http_messages import (
    NowFunction,
    SandboxHandler,
    SandboxRequest,
    SandboxResponse,
    new_id,
)

REFUND_PARAMS = ("amount", "charge", "metadata", "payment_intent", "reason")


class Refunds:
    """The endpoint /v1/refunds, over one ledger."""

    def __init__(self, ledger: StripeLedger, clock: NowFunction) -> None:
        self._ledger, self._clock = ledger, clock

    def create(self, request: SandboxRequest) -> SandboxHandler:
        params = Params(request.params, known=REFUND_PARAMS)
        amount, metadata = params.optional_amount(), params.metadata()
        charge_id, intent_id = params.text("charge"), params.text("payment_intent")
        if (charge_id is None) == (intent_id is None):
            message = "One of charge or payment_intent is required, and not both."
            raise StripeValidationError(message, code="parameter_missing", param="charge")

        def execute() -> SandboxResponse:
            charge = self._paid(charge_id, intent_id)
            left = charge.amount - charge.amount_refunded
            wanted = left if amount is None else amount
            if not 0 < wanted <= left:
                message = f"Charge {charge.charge_id} has already been refunded."
                raise StripeApiError(message, code="charge_already_refunded")
            refund = Refund(
                refund_id=new_id("re"),
                charge_id=charge.charge_id,
                intent_id=charge.intent_id,
                amount=wanted,
                currency=charge.currency,
                created=self._clock(),
                metadata=metadata,
            )
            after = replace(charge, amount_refunded=charge.amount_refunded + wanted)
            self._ledger.save(after, refund, at=refund.created)
            return SandboxResponse(200, refund_body(refund))

        return execute

    def list(self, request: SandboxRequest) -> SandboxHandler:
        params = Params(request.params, known=("charge", "limit", "payment_intent"))
        limit = params.limit()
        charge_id, intent_id = params.text("charge"), params.text("payment_intent")

        def execute() -> SandboxResponse:
            found = [
                refund
                for refund in reversed(self._ledger.refunds)
                if charge_id in {None, refund.charge_id} and intent_id in {None, refund.intent_id}
            ]
            items = [refund_body(refund) for refund in found[:limit]]
            page = list_body(items, url=request.path, has_more=len(found) > limit)
            return SandboxResponse(200, page)

        return execute

    def _paid(self, charge_id: str | None, intent_id: str | None) -> Charge:
        intent = self._ledger.intent(intent_id) if intent_id else None
        charge = self._ledger.charge(intent.latest_charge if intent else charge_id)
        if charge is None or charge.status is not ChargeStatus.SUCCEEDED:
            raise not_found_error("charge", charge_id or str(intent_id), param="charge")
        return charge
