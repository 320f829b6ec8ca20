"""HubSpot's HTTP API of contacts: authentication, routing and the endpoints."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, unquote

from oncely.providers.hubspot.paths import CONTACTS
from oncely.providers.hubspot.sandbox.model import (
    DEFAULT_PAGE_SIZE,
    SORTS,
    HubSpotApiError,
    HubSpotContacts,
    HubSpotLedger,
    HubSpotRules,
    check_properties,
    contact_body,
    format_timestamp,
    matches,
    not_found_error,
    page_body,
    parse_search_page,
    rate_limit_error,
    too_large_error,
)
from oncely.testing.sandbox.faults import FaultKind
from oncely.testing.sandbox.http_messages import SandboxHandler, SandboxRequest, SandboxResponse
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions

TOKEN_PREFIX: Final = "pat-test-"  # noqa: S105  # a prefix, not a token
READ_ONLY_TOKEN: Final = "pat-test-read"  # noqa: S105  # as above
MAX_BODY_BYTES, MAX_URL_BYTES = 2_000_000, 8_192  # about the limits of HubSpot's front end
MAX_PAGE_SIZE, MAX_BATCH_SIZE = 100, 100
CONFLICT, RATE_LIMITED = 409, 429
DAILY_POLICY, TEN_SECOND_POLICY = "DAILY", "TEN_SECONDLY_ROLLING"  # HubSpot's names of its limits
RETRY_AFTER: Final = "10"  # seconds: the window of the limit
# Errors that a fault injects: status → category and message.
OWN_ERRORS: Final = {
    401: ("INVALID_AUTHENTICATION", "Authentication credentials not found."),
    403: ("MISSING_SCOPES", "This app hasn't been granted all required scopes."),
    409: ("CONFLICT", "The object is being written by another request."),
    500: ("INTERNAL_ERROR", "internal error"),
    503: ("SERVICE_UNAVAILABLE", "Service temporarily unavailable."),
}


class HubSpotSandbox(ProviderSandbox):
    """The part of HubSpot that sync jobs use."""

    path_prefix = "/crm/"
    requests: ClassVar = {
        "get_contact": {"method": "GET", "path": f"{CONTACTS}/*"},
        "list_contacts": {"method": "GET", "path": CONTACTS},
        "list_changed": {"method": "POST", "path": "*/search"},
        "upsert_contact": {"method": "P*", "path": f"{CONTACTS}/*"},
        "find_by_external_id": {"method": "GET", "path": f"{CONTACTS}/*"},
    }
    api_key = f"{TOKEN_PREFIX}oncely"
    fault_rates = (
        (FaultKind.ACCEPT_THEN_DROP, "upsert_contact", 5),
        (FaultKind.RATE_LIMIT, "upsert_contact", 2),
        (FaultKind.OUTAGE, "list_contacts", 3),
        (FaultKind.OUTAGE, "get_contact", 3),
    )
    differs: ClassVar = {
        "A requested property without a value is null. HubSpot describes values as strings. Oncely "
        "accepts null, an empty string and a missing property.": (
            "SimplePublic*.properties.*: null",
        ),
        "A search names its order as objects with `propertyName` and `direction`, and its first "
        "page has no `after`, as in HubSpot's guide. HubSpot describes strings, and requires all "
        "fields.": (
            "PublicObjectSearchRequest.sorts[[][]]: object",
            "*SearchRequest.after: missing",
        ),
        "Errors have `status`, and those of a rate limit `errorType` and `policyName`, as in "
        "HubSpot's guide. HubSpot describes none of them.": (
            *("Error.status: not described", "Error.errorType: not described"),
            "Error.policyName: not described",
        ),
        "413 and 414 have only a message: HubSpot's front end sends them.": (
            "Error.category: missing",
        ),
    }

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.ledger: HubSpotLedger = HubSpotLedger()
        self.rules = HubSpotRules()
        self.contacts = HubSpotContacts(self.ledger, self.rules, options.clock)

    def add_samples(self, number: int) -> list[str]:
        return self.contacts.add_contacts(number)

    def error_response(self, request: SandboxRequest, *, status: int) -> SandboxResponse:
        return _with_headers(request, _own_error(status).to_response(request))

    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        try:
            _check_size(request)
            _check_credentials(request)
            if self.rules.is_daily_limit_reached:
                raise rate_limit_error(DAILY_POLICY, "You have reached your daily limit.")
            response = wrap(self._with_lock(request, self._endpoint(request)))
        except HubSpotApiError as error:
            response = error.to_response(request)
        return _with_headers(request, response)

    def _endpoint(self, request: SandboxRequest) -> SandboxHandler:
        routes: list[tuple[str, str, Callable[..., SandboxResponse]]] = [
            ("GET", CONTACTS, self._list),
            ("POST", rf"{CONTACTS}/search", self._search),
            ("POST", rf"{CONTACTS}/batch/upsert", self._upsert),
            ("GET", rf"{CONTACTS}/([^/]+)", self._read),
            ("PATCH", rf"{CONTACTS}/([^/]+)", self._patch),
        ]
        for method, pattern, endpoint in routes:
            address = re.fullmatch(pattern, request.path)
            if address and method == request.method:
                return partial(endpoint, request, *map(unquote, address.groups()))
        raise HubSpotApiError(f"No {request.method} {request.path} here.", status=405)

    def _with_lock(self, request: SandboxRequest, execute: SandboxHandler) -> SandboxHandler:
        def locked() -> SandboxResponse:
            with self.ledger.lock:
                try:
                    return execute()
                except HubSpotApiError as error:
                    return error.to_response(request)

        return locked

    def _read(self, request: SandboxRequest, value: str) -> SandboxResponse:
        query = parse_qs(request.query)
        if (by := _last_value(query, "idProperty")) is not None:
            self._check_unique(by)
        archived = _last_value(query, "archived") == "true"
        found = self.contacts.find(value, by=by)
        if found is None or found.archived != archived:
            raise not_found_error(value)
        return SandboxResponse(200, contact_body(found, _requested_properties(query)))

    def _list(self, request: SandboxRequest) -> SandboxResponse:
        query = parse_qs(request.query)
        limit = int(_last_value(query, "limit") or DEFAULT_PAGE_SIZE)
        if not 1 <= limit <= MAX_PAGE_SIZE:
            raise HubSpotApiError(f"limit must be between 1 and {MAX_PAGE_SIZE}.")
        limit = min(limit, self.rules.max_results or limit)
        behind = int(_last_value(query, "after") or 0)
        archived = _last_value(query, "archived") == "true"
        found = [
            one
            for one in self.ledger.contacts
            if one.archived == archived and int(one.contact_id) > behind
        ]
        shown = [contact_body(one, _requested_properties(query)) for one in found[:limit]]
        after = shown[-1]["id"] if len(found) > limit else None
        return SandboxResponse(200, page_body(shown, after=after))

    def _search(self, request: SandboxRequest) -> SandboxResponse:
        document = request.params
        if document.get("sorts", []) not in SORTS:
            raise HubSpotApiError("This sandbox sorts by the contact's id.")
        groups: Sequence[Mapping[str, Any]] = document.get("filterGroups", ())
        first, end = parse_search_page(document)
        end = min(end, first + (self.rules.max_results or end))
        wanted: Sequence[str] = document.get("properties") or ()
        found = [one for one in self.contacts.searchable() if matches(one, groups)]
        after = str(end) if len(found) > end else None
        page = page_body([contact_body(one, wanted) for one in found[first:end]], after=after)
        return SandboxResponse(200, {"total": len(found), **page})

    def _patch(self, request: SandboxRequest, contact_id: str) -> SandboxResponse:
        properties = check_properties(request.params.get("properties"))
        written = self.contacts.patch(contact_id, properties)
        return SandboxResponse(200, contact_body(written, tuple(properties)))

    def _check_unique(self, name: object) -> None:
        if name not in self.rules.unique_properties:
            raise HubSpotApiError(f"{name} is not a unique property of contacts.")

    def _upsert(self, request: SandboxRequest) -> SandboxResponse:
        inputs = request.params.get("inputs")
        if not isinstance(inputs, list) or not 1 <= len(inputs) <= MAX_BATCH_SIZE:
            raise HubSpotApiError(f"A batch has between 1 and {MAX_BATCH_SIZE} inputs.")
        for one in inputs:
            self._check_unique(one.get("idProperty"))
            check_properties(one.get("properties"))
        results: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        for one in inputs:
            try:
                given = one["properties"]
                written, new = self.contacts.upsert(one["id"], given, by=one["idProperty"])
                results.append({**contact_body(written, tuple(given)), "new": new})
            except HubSpotApiError as error:
                if error.status == CONFLICT and not self.rules.reports_conflicting_property:
                    raise  # the usual error covers the whole batch
                details = {"context": {"ids": [one["id"]]}, "errors": [], "links": {}}
                errors.append({**details, **error.body})
        at = format_timestamp(request.at)
        body = {"status": "COMPLETE", "results": results, "startedAt": at, "completedAt": at}
        if errors:
            return SandboxResponse(207, {**body, "numErrors": len(errors), "errors": errors})
        return SandboxResponse(200, body)


def _check_size(request: SandboxRequest) -> None:
    if len(request.body) > MAX_BODY_BYTES:
        raise too_large_error("Request Entity Too Large", status=413)
    if len(request.path) + len(request.query) > MAX_URL_BYTES:
        raise too_large_error("Request-URI Too Long", status=414)


def _check_credentials(request: SandboxRequest) -> None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.startswith(TOKEN_PREFIX):
        raise _own_error(401)
    if token == READ_ONLY_TOKEN and request.method != "GET" and "/search" not in request.path:
        raise _own_error(403)


def _own_error(status: int) -> HubSpotApiError:
    if status == RATE_LIMITED:
        message = "You have reached your ten_secondly_rolling limit."
        return rate_limit_error(TEN_SECOND_POLICY, message)
    category, message = OWN_ERRORS[status]
    return HubSpotApiError(message, status=status, category=category)


def _last_value(query: Mapping[str, list[str]], name: str) -> str | None:
    return query[name][-1] if name in query else None


def _requested_properties(query: Mapping[str, list[str]]) -> tuple[str, ...]:
    # HubSpot accepts `properties=a&properties=b` and `properties=a,b`.
    return tuple(name for given in query.get("properties", ()) for name in given.split(","))


def _with_headers(request: SandboxRequest, response: SandboxResponse) -> SandboxResponse:
    policy = response.body.get("policyName")
    waits = {"Retry_After": RETRY_AFTER} if policy == TEN_SECOND_POLICY else {}
    return response.with_headers(X_HubSpot_Correlation_Id=request.request_id, **waits)
