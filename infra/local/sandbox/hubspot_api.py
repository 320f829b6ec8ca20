"""HubSpot's HTTP API, as far as contacts go: who may ask, and which endpoint answers."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from infra.local.sandbox import hubspot_search as search
from infra.local.sandbox.hubspot_contacts import UNIQUE, HubSpotContacts, check_properties
from infra.local.sandbox.hubspot_errors import (
    HubSpotRefusalError,
    limit_reached,
    not_found,
    too_large,
)
from infra.local.sandbox.hubspot_shapes import contact_body, in_words, page_body
from infra.local.sandbox.ledger import Ledger
from infra.local.sandbox.messages import Answer, Execute, Request
from oncely.adapters.hubspot_paths import CONTACTS

TOKEN: Final = "pat-test-"  # noqa: S105 - what every test token begins with
READ_ONLY_TOKEN: Final = "pat-test-read"  # noqa: S105 - the same
LARGEST_BODY, LONGEST_ADDRESS = 2_000_000, 8_192  # bytes; about what HubSpot's front takes
DEFAULT_PAGE, LARGEST_PAGE, LARGEST_BATCH = 10, 100, 100
CONFLICT: Final = 409
RATE_LIMITED: Final = 429
DAILY, TEN_SECONDS = "DAILY", "TEN_SECONDLY_ROLLING"  # how HubSpot names its limits
RETRY_AFTER: Final = "10"  # seconds: the limit is counted over this long
# Errors that HubSpot causes itself: status → category and message.
OWN_ERRORS: Final = {
    401: ("INVALID_AUTHENTICATION", "Authentication credentials not found."),
    403: ("MISSING_SCOPES", "This app hasn't been granted all required scopes."),
    409: ("CONFLICT", "The object is being written by another request."),
    500: ("INTERNAL_ERROR", "internal error"),
    503: ("SERVICE_UNAVAILABLE", "Service temporarily unavailable."),
}


class HubSpotApi:
    """The part of HubSpot that sync jobs use."""

    def __init__(self, contacts: HubSpotContacts, ledger: Ledger) -> None:
        self._contacts = contacts
        self._ledger = ledger
        self._routes: list[tuple[str, str, Callable[..., Execute]]] = [
            ("GET", CONTACTS, self._list),
            ("POST", rf"{CONTACTS}/search", self._search),
            ("POST", rf"{CONTACTS}/batch/upsert", self._upsert),
            ("GET", rf"{CONTACTS}/([^/]+)", self._read),
            ("PATCH", rf"{CONTACTS}/([^/]+)", self._patch),
        ]

    def serves(self, path: str) -> bool:
        """Say whether the path is HubSpot's."""
        return path.startswith("/crm/")

    def refusal(self, request: Request, *, status: int) -> Answer:
        """Give an error of HubSpot's own making."""
        return _sent(request, _own_error(status).answer(request))

    def answer(self, request: Request, *, around: Callable[[Execute], Answer]) -> Answer:
        """Answer one request."""
        try:
            _check_size(request)
            _check_credentials(request)
            if self._contacts.daily_limit_is_spent:
                raise limit_reached(DAILY, "You have reached your daily limit.")
            answer = around(self._executing(request, self._endpoint(request)))
        except HubSpotRefusalError as refusal:
            answer = refusal.answer(request)
        return _sent(request, answer)

    def _endpoint(self, request: Request) -> Execute:
        for method, pattern, endpoint in self._routes:
            address = re.fullmatch(pattern, request.path)
            if address and method == request.method:
                return endpoint(request, *map(unquote, address.groups()))
        raise HubSpotRefusalError(f"No {request.method} {request.path} here.", status=405)

    def _executing(self, request: Request, execute: Execute) -> Execute:
        def locked() -> Answer:
            with self._ledger.lock:
                try:
                    return execute()
                except HubSpotRefusalError as refusal:
                    return refusal.answer(request)

        return locked

    def _read(self, request: Request, value: str) -> Execute:
        query = _query(request)
        by = _one(query, "idProperty")
        if by is not None:
            _check_unique(by)
        archived = _one(query, "archived") == "true"

        def execute() -> Answer:
            found = self._contacts.find(value, by=by)
            if found is None or found.archived != archived:
                raise not_found(value)
            return Answer(200, contact_body(found, _wanted(query)))

        return execute

    def _list(self, request: Request) -> Execute:
        query = _query(request)
        limit = int(_one(query, "limit") or DEFAULT_PAGE)
        if not 1 <= limit <= LARGEST_PAGE:
            raise HubSpotRefusalError(f"limit must be between 1 and {LARGEST_PAGE}.")
        behind = int(_one(query, "after") or 0)
        archived = _one(query, "archived") == "true"

        def execute() -> Answer:
            found = [
                one
                for one in self._ledger.contacts
                if one.archived == archived and int(one.contact_id) > behind
            ]
            shown = [contact_body(one, _wanted(query)) for one in found[:limit]]
            after = shown[-1]["id"] if len(found) > limit else None
            return Answer(200, page_body(shown, after=after))

        return execute

    def _search(self, request: Request) -> Execute:
        document = request.params
        matches = search.matcher(document.get("filterGroups", ()))
        first, end = search.window(document)
        wanted: Sequence[str] = document.get("properties") or ()

        def execute() -> Answer:
            found = [one for one in self._ledger.contacts if not one.archived and matches(one)]
            shown = search.in_order(found, document.get("sorts") or ())[first:end]
            after = str(end) if len(found) > end else None
            page = page_body([contact_body(one, wanted) for one in shown], after=after)
            return Answer(200, {"total": len(found), **page})

        return execute

    def _patch(self, request: Request, contact_id: str) -> Execute:
        properties = check_properties(request.params.get("properties"))

        def execute() -> Answer:
            written = self._contacts.patch(contact_id, properties)
            return Answer(200, contact_body(written, tuple(properties)))

        return execute

    def _upsert(self, request: Request) -> Execute:
        inputs = request.params.get("inputs")
        if not isinstance(inputs, list) or not 1 <= len(inputs) <= LARGEST_BATCH:
            raise HubSpotRefusalError(f"A batch has between 1 and {LARGEST_BATCH} inputs.")
        for one in inputs:
            _check_unique(one.get("idProperty"))
            check_properties(one.get("properties"))

        def execute() -> Answer:
            results: list[dict[str, Any]] = []
            errors: list[dict[str, Any]] = []
            for one in inputs:
                try:
                    written, new = self._contacts.upsert(
                        one["id"], one["properties"], by=one["idProperty"]
                    )
                    results.append({**contact_body(written, tuple(one["properties"])), "new": new})
                except HubSpotRefusalError as refusal:
                    if refusal.status == CONFLICT and not self._contacts.names_what_collided:
                        raise  # the usual answer is about the whole batch
                    errors.append({**refusal.body, "context": {"ids": [one["id"]]}})
            return _batch(request, results, errors)

        return execute


def _batch(
    request: Request, results: Sequence[Mapping[str, Any]], errors: Sequence[Mapping[str, Any]]
) -> Answer:
    at = in_words(request.at)
    body = {"status": "COMPLETE", "results": results, "startedAt": at, "completedAt": at}
    if errors:
        return Answer(207, {**body, "numErrors": len(errors), "errors": errors})
    return Answer(201 if any(one["new"] for one in results) else 200, body)


def _check_size(request: Request) -> None:
    if len(request.body) > LARGEST_BODY:
        raise too_large("Request Entity Too Large", status=413)
    if len(request.path) + len(request.query) > LONGEST_ADDRESS:
        raise too_large("Request-URI Too Long", status=414)


def _check_credentials(request: Request) -> None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.startswith(TOKEN):
        raise _own_error(401)
    if token == READ_ONLY_TOKEN and request.method != "GET" and "/search" not in request.path:
        raise _own_error(403)


def _check_unique(name: object) -> None:
    if name not in UNIQUE:
        raise HubSpotRefusalError(f"{name} is not a unique property of contacts.")


def _own_error(status: int) -> HubSpotRefusalError:
    if status == RATE_LIMITED:
        return limit_reached(TEN_SECONDS, "You have reached your ten_secondly_rolling limit.")
    category, message = OWN_ERRORS[status]
    return HubSpotRefusalError(message, status=status, category=category)


def _query(request: Request) -> Mapping[str, list[str]]:
    return parse_qs(request.query)


def _one(query: Mapping[str, list[str]], name: str) -> str | None:
    return query[name][-1] if name in query else None


def _wanted(query: Mapping[str, list[str]]) -> tuple[str, ...]:
    # HubSpot takes `properties=a&properties=b` and `properties=a,b` alike.
    return tuple(name for given in query.get("properties", ()) for name in given.split(","))


def _sent(request: Request, answer: Answer) -> Answer:
    short = answer.body.get("policyName") == TEN_SECONDS
    waits = {"Retry_After": RETRY_AFTER} if short else {}
    return answer.with_headers(X_HubSpot_Correlation_Id=request.request_id, **waits)
