"""The lists of charges, refunds and disputes by their time of creation."""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import islice
from typing import Any

from oncely.providers.stripe.sandbox.errors import not_found_error
from oncely.providers.stripe.sandbox.ledger import Charge, Dispute, RecordedRefund, StripeLedger
from oncely.providers.stripe.sandbox.params import Params
from oncely.providers.stripe.sandbox.serializers import (
    charge_body,
    dispute_body,
    intent_body,
    list_body,
    refund_body,
)
from oncely.testing.sandbox.http_messages import (
    NowFunction,
    SandboxHandler,
    SandboxRequest,
    SandboxResponse,
)

_FILTERS = ("charge", "created", "limit", "payment_intent", "starting_after")


class MoneyLists:
    """The list endpoints of what moved money, over one ledger, the newest first."""

    def __init__(self, ledger: StripeLedger, clock: NowFunction) -> None:
        self._ledger, self._clock = ledger, clock
        self.refund_lag = timedelta(0)  # how late a new refund is listed

    def charges(self, request: SandboxRequest) -> SandboxHandler:
        return self._list(request, lambda: self._ledger.attempts, charge_body)

    def refunds(self, request: SandboxRequest) -> SandboxHandler:
        return self._list(request, self._listed_refunds, refund_body)

    def _listed_refunds(self) -> tuple[RecordedRefund, ...]:
        until = self._clock() - self.refund_lag
        return tuple(one for one in self._ledger.refunds if one.created <= until)

    def disputes(self, request: SandboxRequest) -> SandboxHandler:
        return self._list(request, lambda: self._ledger.disputes, dispute_body)

    def customers(self, request: SandboxRequest) -> SandboxHandler:
        params = Params(request.params, known=("email", "limit"))
        email, limit = params.required("email"), params.limit()
        found = [one for one, known in self._ledger.emails.items() if known == email]
        items = [{"id": one, "object": "customer", "email": email} for one in found[:limit]]
        page = list_body(items, url=request.path, has_more=len(found) > limit)
        return lambda: SandboxResponse(200, page)

    def retrieve(self, request: SandboxRequest, object_id: str) -> SandboxHandler:
        """Return a charge, a refund or a dispute by its id."""
        expand = Params(request.params, known=()).expands("payment_intent")
        ledger = self._ledger
        kinds: tuple[tuple[tuple[Any, ...], Callable[[Any], dict[str, Any]]], ...] = (
            (ledger.attempts, charge_body),
            (ledger.refunds, refund_body),
            (ledger.disputes, dispute_body),
        )

        def execute() -> SandboxResponse:
            for objects, body in kinds:
                for one in objects:
                    if one.object_id == object_id:
                        return SandboxResponse(200, self._expanded(body(one), one, expand=expand))
            raise not_found_error("object", object_id)

        return execute

    def _list(
        self,
        request: SandboxRequest,
        objects: Callable[[], tuple[Any, ...]],
        body: Callable[[Any], dict[str, Any]],
    ) -> SandboxHandler:
        params = Params(request.params, known=_FILTERS)
        limit, expand = params.limit(), params.expands("payment_intent")

        def execute() -> SandboxResponse:
            found = _selected(reversed(objects()), params)
            items = [self._expanded(body(one), one, expand=expand) for one in islice(found, limit)]
            has_more = next(found, None) is not None
            return SandboxResponse(200, list_body(items, url=request.path, has_more=has_more))

        return execute

    def _expanded(
        self, body: dict[str, Any], one: Charge | RecordedRefund | Dispute, *, expand: bool
    ) -> dict[str, Any]:
        intent = self._ledger.intent(one.intent_id) if expand and one.intent_id else None
        return {**body, "payment_intent": intent_body(intent)} if intent else body


def _selected(newest: Iterable[Any], params: Params) -> Iterator[Any]:
    first, last = params.created()
    charge, intent = params.text("charge"), params.text("payment_intent")
    after = params.text("starting_after")
    for one in newest:
        if after is not None:
            after = None if one.object_id == after else after
        elif (
            first <= one.created.timestamp() < last
            and charge in {None, one.charge_id}
            and intent in {None, one.intent_id}
        ):
            yield one
