"""The payment job as Powertools' own pages show it: idempotency for each record of a batch."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

import stripe
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

from oncely.aws.business_tables import BusinessTable
from oncely.core.effect_outcomes import BusinessWrite, Json, Precondition


class PaymentError(Exception):
    """Any indefinite outcome: the record is deleted, and the message is redelivered."""


class Context(Protocol):
    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int: ...


TABLE: Final = "idempotency"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One version of the job. All of them read the order first, and save it last."""

    name: str
    idempotency_key: str  # JMESPath, from the SQS record
    uses_idempotency_key: bool  # whether Stripe is given a key made from the order's id


# Its page on batches uses the message id.
BATCH_PAGE: Final = Variant(
    name="Powertools, messageId", idempotency_key="messageId", uses_idempotency_key=False
)
# The same page: another field "might be more accurate". Its payments page uses business ids.
BUSINESS_ID: Final = Variant(
    name="Powertools, order_id",
    idempotency_key="powertools_json(body).order_id",
    uses_idempotency_key=False,
)
# Not in its documentation: a careful team also sends the provider a stable key.
BEST: Final = Variant(
    name="Powertools, order_id and idempotency key",
    idempotency_key="powertools_json(body).order_id",
    uses_idempotency_key=True,
)
VARIANTS: Final = (BATCH_PAGE, BUSINESS_ID, BEST)


@dataclass(frozen=True, kw_only=True)
class ChargeFunction:
    variant: Variant
    client: Any  # DynamoDB's, for the idempotency table
    orders: BusinessTable
    payments: stripe.StripeClient
    record_ttl: timedelta
    on_reply: Callable[[Mapping[str, Any]], None]

    def handle(self, event: dict[str, Any], context: Context) -> Any:  # noqa: ANN401  # its response
        config = IdempotencyConfig(
            event_key_jmespath=self.variant.idempotency_key,
            raise_on_no_idempotency_key=True,
            # "There is no limit on how long this expiration window can be set to."
            expires_after_seconds=int(self.record_ttl.total_seconds()),
        )
        config.register_lambda_context(context)  # type: ignore[arg-type]  # as much of it as is used
        layer = DynamoDBPersistenceLayer(table_name=TABLE, boto3_client=self.client)

        @idempotent_function(  # type: ignore[untyped-decorator]  # it says Any of itself
            data_keyword_argument="record", config=config, persistence_store=layer
        )
        def charge(record: SQSRecord) -> dict[str, Any]:
            return self._charge(record, context)

        def record_handler(record: SQSRecord) -> None:
            self.on_reply(charge(record=record))

        return process_partial_response(
            event=event,
            record_handler=record_handler,
            processor=BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False),
            context=context,  # type: ignore[arg-type]  # as much of it as is used
        )

    def _charge(self, record: SQSRecord, context: Context) -> dict[str, Any]:
        order_id = json.loads(record.body)["order_id"]
        order: Any = self.orders.get({"order_id": order_id})
        if order["status"] == "paid":
            return {"charge_id": order["charge_id"]}
        key = order_id if self.variant.uses_idempotency_key else context.aws_request_id
        try:
            paid = self._pay(order, key)
        except stripe.CardError as error:
            self._save(order, status="payment_failed")
            return {"declined": error.code}
        except stripe.StripeError as error:
            raise PaymentError(str(error)) from error
        if paid.status != "succeeded":
            raise PaymentError(paid.status)
        self._save(order, status="paid", charge_id=str(paid.latest_charge))
        return {"charge_id": paid.latest_charge}

    def _pay(self, order: Mapping[str, Any], key: str) -> stripe.PaymentIntent:
        """Create and confirm a payment, as Stripe's own pages do."""
        intents = self.payments.v1.payment_intents
        made = intents.create(
            {
                "amount": order["amount"],
                "currency": order["currency"],
                "customer": order["payment_customer"],
                "payment_method": order["payment_method"],
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            },
            {"idempotency_key": f"{key}:create"},
        )
        return intents.confirm(
            made.id, {"off_session": True}, {"idempotency_key": f"{key}:confirm"}
        )

    def _save(self, order: Mapping[str, Any], **changes: Json) -> None:
        write = BusinessWrite(
            table="orders",
            key={"order_id": order["order_id"]},
            set=changes,
            remove=("charge_requested_at",),
            preconditions=(
                Precondition("status", ("payment_pending", "payment_failed")),
                Precondition("amount", (order["amount"],)),
            ),
        )
        if not self.orders.update(write):
            raise PaymentError("the order has changed meanwhile")
