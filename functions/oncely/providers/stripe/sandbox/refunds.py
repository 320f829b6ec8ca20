"""The endpoint that creates refunds, and their later states."""

from dataclasses import replace

from oncely.providers.stripe.sandbox.errors import (
    StripeApiError,
    StripeValidationError,
    not_found_error,
)
from oncely.providers.stripe.sandbox.ledger import (
    Charge,
    ChargeStatus,
    RecordedRefund,
    StripeLedger,
)
from oncely.providers.stripe.sandbox.params import Params
from oncely.providers.stripe.sandbox.serializers import refund_body
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
        self.status = "succeeded"  # of new refunds

    def complete(self, refund_id: str, *, succeeded: bool) -> None:
        """Set the result of a refund, even one that had succeeded: a bank can return the money."""
        with self._ledger.lock:
            (refund,) = (one for one in self._ledger.refunds if one.refund_id == refund_id)
            after = replace(refund, status="succeeded" if succeeded else "failed")
            entries: list[Charge | RecordedRefund] = [after]
            charge = self._ledger.charge(refund.charge_id)
            if charge and not succeeded and refund.status != "failed":
                left = charge.amount_refunded - refund.amount
                entries.append(replace(charge, amount_refunded=left))
            self._ledger.save(*entries)

    def create(self, request: SandboxRequest) -> SandboxHandler:
        params = Params(request.params, known=REFUND_PARAMS)
        amount, metadata = params.optional_amount(), params.metadata()
        charge_id, intent_id = params.text("charge"), params.text("payment_intent")
        if (charge_id is None) == (intent_id is None):
            message = "One of charge or payment_intent is required, and not both."
            raise StripeValidationError(message, code="parameter_missing", param="charge")

        def execute() -> SandboxResponse:
            charge = self._paid(charge_id, intent_id)
            if charge.disputed:
                message = f"Charge {charge.charge_id} has been charged back."
                raise StripeApiError(message, code="charge_disputed")
            left = charge.amount - charge.amount_refunded
            wanted = left if amount is None else amount
            if not 0 < wanted <= left:
                message = f"Charge {charge.charge_id} has already been refunded."
                raise StripeApiError(message, code="charge_already_refunded")
            refund = RecordedRefund(
                refund_id=new_id("re"),
                charge_id=charge.charge_id,
                intent_id=charge.intent_id,
                amount=wanted,
                currency=charge.currency,
                created=self._clock(),
                metadata=metadata,
                status=self.status,
            )
            after = replace(charge, amount_refunded=charge.amount_refunded + wanted)
            self._ledger.save(after, refund)
            return SandboxResponse(200, refund_body(refund))

        return execute

    def _paid(self, charge_id: str | None, intent_id: str | None) -> Charge:
        intent = self._ledger.intent(intent_id) if intent_id else None
        charge = self._ledger.charge(intent.latest_charge if intent else charge_id)
        if charge is None or charge.status is not ChargeStatus.SUCCEEDED:
            raise not_found_error("charge", charge_id or str(intent_id), param="charge")
        return charge
