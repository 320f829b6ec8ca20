"""HubSpot's contacts: their state, the changes through the API and by users, and the search."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from oncely.testing.sandbox.http_messages import NowFunction, SandboxRequest, SandboxResponse
from oncely.testing.sandbox.ledger import ProviderLedger, RecordedEffect

ID_PROPERTY: Final = "oncely_id"  # the plug-in's default
# HubSpot always returns these, and the defaults only if the caller names no properties.
ALWAYS_RETURNED: Final = ("hs_object_id", "createdate", "lastmodifieddate")
RETURNED_BY_DEFAULT: Final = (*ALWAYS_RETURNED, "email", "firstname", "lastname")
READ_ONLY_PROPERTIES: Final = frozenset({"hs_object_id", "createdate", "lastmodifieddate"})
UNKNOWN_PROPERTY_PREFIX: Final = "no_such_"  # such properties do not exist
# What Oncely's search uses. Numbers and times are compared as numbers.
OPERATORS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "GT": operator.gt,
    "GTE": operator.ge,
}
_COMPARED: Final[Mapping[str, Callable[["Contact"], int]]] = {
    "hs_object_id": lambda contact: int(contact.contact_id),
    "lastmodifieddate": lambda contact: round(contact.updated.timestamp() * 1000),
}
SORTS: Final[tuple[list[dict[str, str]], ...]] = (
    [],
    [{"propertyName": "hs_object_id", "direction": "ASCENDING"}],
)
# HubSpot never returns results beyond this position.
MAX_RESULTS: Final = 10_000
DEFAULT_PAGE_SIZE, MAX_SEARCH_PAGE_SIZE = 10, 200


class HubSpotApiError(Exception):
    """An error response with the fields of HubSpot's error object."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        category: str = "VALIDATION_ERROR",
        **fields: object,
    ) -> None:
        super().__init__(message)
        self.status = status
        own = {"status": "error", "message": message, "category": category}
        self.body: dict[str, Any] = {**own, **fields}

    def to_response(self, request: SandboxRequest) -> SandboxResponse:
        return SandboxResponse(self.status, {**self.body, "correlationId": request.request_id})


def not_found_error(contact_id: str) -> HubSpotApiError:
    """A contact that does not exist or is archived."""
    message = f"Object not found.  objectId are usually numeric. ({contact_id})"
    return HubSpotApiError(message, status=404, category="OBJECT_NOT_FOUND")


def unknown_property_error(name: str) -> HubSpotApiError:
    """A property that does not exist."""
    message = f'Property values were not valid: Property "{name}" does not exist'
    errors = [{"message": message, "code": "PROPERTY_DOESNT_EXIST", "in": name}]
    return HubSpotApiError(message, errors=errors)


def too_large_error(message: str, *, status: int) -> HubSpotApiError:
    """An error of HubSpot's front end, without the fields of its API."""
    error = HubSpotApiError(message, status=status)
    error.body = {"message": message}
    return error


def rate_limit_error(policy: str, message: str) -> HubSpotApiError:
    """A request beyond a rate limit, with its name."""
    named = {"errorType": "RATE_LIMIT", "policyName": policy}
    return HubSpotApiError(message, status=429, category="RATE_LIMITS", **named)


def duplicate_value_error(name: str, value: str, holder: str, *, named: bool) -> HubSpotApiError:
    """A unique value that another contact has.

    Most responses contain only the contact's id, without a status or the property's name.
    """
    message = f"Contact already exists. Existing ID: {holder}"
    if not named:
        error = HubSpotApiError(message, status=409, category="CONFLICT")
        del error.body["status"]
        return error
    detail = f"A contact with {name} {value} already exists. Existing ID: {holder}"
    errors = [{"message": detail, "in": name}]
    return HubSpotApiError(message, status=409, category="OBJECT_ALREADY_EXISTS", errors=errors)


@dataclass(frozen=True, kw_only=True)
class Contact:
    """A contact. Each change creates a new version."""

    contact_id: str
    properties: Mapping[str, str]
    created: datetime
    updated: datetime
    archived: bool = False
    writes: int = 0  # through the API, without edits by users


class HubSpotLedger(ProviderLedger):
    """What happened at HubSpot."""

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """All current contacts, including archived ones."""
        return self.all(Contact)

    def effects(self) -> Iterator[RecordedEffect]:
        for one in self.contacts:
            if own := one.properties.get(ID_PROPERTY):
                yield RecordedEffect(kind="contacts", key=own, reference=one.contact_id)


def contact_body(contact: Contact, wanted: Sequence[str] = ()) -> dict[str, Any]:
    """Serialize a contact with the requested properties. Unset ones are null."""
    names = (*ALWAYS_RETURNED, *wanted) if wanted else RETURNED_BY_DEFAULT
    created, updated = format_timestamp(contact.created), format_timestamp(contact.updated)
    times = {"createdate": created, "lastmodifieddate": updated}
    held = {**contact.properties, **times, "hs_object_id": contact.contact_id}
    return {
        "id": contact.contact_id,
        "properties": {name: held.get(name) for name in names},
        "createdAt": created,
        "updatedAt": updated,
        "archived": contact.archived,
    }


def page_body(results: Sequence[dict[str, Any]], *, after: str | None) -> dict[str, Any]:
    """Serialize a page of results. The last page has no `after`."""
    paging = {} if after is None else {"paging": {"next": {"after": after, "link": "?after="}}}
    return {"results": list(results), **paging}


def format_timestamp(moment: datetime) -> str:
    """Format a time as HubSpot does."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class HubSpotRules:
    """What HubSpot enforces, and how it may behave. Tests change it."""

    has_unique_values: bool = True  # without it, each upsert creates a contact
    unique_properties: Sequence[str] = ("email", ID_PROPERTY)
    reports_conflicting_property: bool = False  # HubSpot rarely does
    is_daily_limit_reached: bool = False  # then every request fails
    search_lag: timedelta = timedelta(0)  # the search shows contacts as they were before
    max_results: int | None = None  # of a page, if it is less than the request asks for


class HubSpotContacts:
    """The contacts of one account. Tests change them directly."""

    def __init__(self, ledger: HubSpotLedger, rules: HubSpotRules, clock: NowFunction) -> None:
        self._ledger, self._rules, self._clock = ledger, rules, clock
        self.last_id = 0
        self._holders: dict[tuple[str, str], str] = {}  # unique property and value → contact id
        self._merged: dict[str, str] = {}  # contact id → id of the contact it was merged into
        # What the search still shows: time of the change, contact id, and the contact before it.
        self._not_indexed: list[tuple[datetime, str, Contact | None]] = []

    def add(self, **properties: str) -> str:
        """Create a contact, as a user does. Returns its id."""
        with self._ledger.lock:
            return self._save(self._new(properties)).contact_id

    def add_contacts(self, number: int) -> list[str]:
        first = len(self._ledger.contacts) + 1
        return [self.add(email=f"{one}@example.com") for one in range(first, first + number)]

    def update(self, contact_id: str, /, **properties: str) -> None:
        """Change a contact, as a user does."""
        with self._ledger.lock:
            self._save(self._changed(self._get(contact_id), properties))

    def archive(self, contact_id: str, /) -> None:
        """Delete a contact, as a user does. It can still be read as archived."""
        with self._ledger.lock:
            self._save(replace(self._get(contact_id), archived=True))

    def restore(self, contact_id: str, /) -> None:
        """Undo the deletion of a contact, as a user can for 90 days."""
        with self._ledger.lock:
            self._save(replace(self._get(contact_id), archived=False))

    def merge(self, contact_id: str, /, *, into: str) -> None:
        """Merge a contact into another, as a user does. Its id then stands for the other."""
        with self._ledger.lock:
            merged, kept = self._get(contact_id), self._get(into)
            self._save(replace(merged, archived=True))
            missing = {name: value for name, value in merged.properties.items() if value}
            self._save(self._changed(kept, {**missing, **kept.properties}))
            self._merged[contact_id] = into

    def find(self, value: str, *, by: str | None) -> Contact | None:
        with self._ledger.lock:
            contact_id = value if by is None else self._holders.get((by, value))
            return None if contact_id is None else self._contact(contact_id)

    def searchable(self) -> list[Contact]:
        """The contacts that the search knows by now, without archived ones."""
        with self._ledger.lock:
            indexed_until = self._clock() - self._rules.search_lag
            self._not_indexed = [one for one in self._not_indexed if one[0] > indexed_until]
            # The first change that is not indexed says what the search still shows.
            shown = {contact_id: before for _, contact_id, before in reversed(self._not_indexed)}
            found = (shown.get(one.contact_id, one) for one in self._ledger.contacts)
            return [one for one in found if one is not None and not one.archived]

    def upsert(self, value: str, properties: Mapping[str, str], *, by: str) -> tuple[Contact, bool]:
        """Create or update the contact with this unique value. Returns whether it is new."""
        own = {by: value, **properties}
        held = self.find(value, by=by) if self._rules.has_unique_values else None
        self._check_free(own, held)
        return self._written(self._new(own) if held is None else self._changed(held, own)), not held

    def patch(self, contact_id: str, properties: Mapping[str, str]) -> Contact:
        held = self._contact(contact_id)
        if held is None or held.archived:
            raise not_found_error(contact_id)
        self._check_free(properties, held)
        return self._written(self._changed(held, properties))

    def _check_free(self, properties: Mapping[str, str], held: Contact | None) -> None:
        if not self._rules.has_unique_values:
            return
        for name in self._rules.unique_properties:
            holder = self._holders.get((name, properties.get(name, "")))
            if holder is not None and (held is None or holder != held.contact_id):
                named = self._rules.reports_conflicting_property
                raise duplicate_value_error(name, properties[name], holder, named=named)

    def _written(self, contact: Contact) -> Contact:
        return self._save(replace(contact, writes=contact.writes + 1))

    def _new(self, properties: Mapping[str, str]) -> Contact:
        self.last_id += 1
        id_, at = str(self.last_id), self._now()
        return Contact(contact_id=id_, properties=properties, created=at, updated=at)

    def _changed(self, held: Contact, properties: Mapping[str, str]) -> Contact:
        return replace(held, properties={**held.properties, **properties}, updated=self._now())

    def _get(self, contact_id: str) -> Contact:
        if (held := self._contact(contact_id)) is None:
            raise KeyError(f"unknown contact {contact_id}")
        return held

    def _contact(self, contact_id: str) -> Contact | None:
        while contact_id in self._merged:
            contact_id = self._merged[contact_id]
        return self._ledger.find(Contact, contact_id)

    def _save(self, contact: Contact) -> Contact:
        previous = self._ledger.find(Contact, contact.contact_id)
        if self._rules.search_lag:
            self._not_indexed.append((self._clock(), contact.contact_id, previous))
        for name in self._rules.unique_properties:
            old = (name, previous.properties.get(name, "")) if previous else None
            if old and self._holders.get(old) == contact.contact_id:
                del self._holders[old]
            # Archiving releases the unique values.
            if not contact.archived and (value := contact.properties.get(name)):
                self._holders[name, value] = contact.contact_id
        self._ledger.put(contact.contact_id, contact)
        return contact

    def _now(self) -> datetime:
        # HubSpot's times are whole milliseconds.
        at = self._clock()
        return at.replace(microsecond=at.microsecond // 1000 * 1000)


def check_properties(properties: object) -> Mapping[str, str]:
    """Validate properties as HubSpot does."""
    if not isinstance(properties, dict):
        raise HubSpotApiError("Invalid input JSON: properties is missing.")
    for name, value in properties.items():
        if not isinstance(value, str):
            raise HubSpotApiError(f"Invalid input JSON: {name} must be a string.")
        if name.startswith(UNKNOWN_PROPERTY_PREFIX):
            raise unknown_property_error(name)
        if name in READ_ONLY_PROPERTIES:
            raise HubSpotApiError(f'"{name}" is a read only property; its value cannot be set.')
    return properties


def matches(contact: Contact, groups: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a contact passes all filters of at least one group."""
    return not groups or any(
        all(_passes(contact, one) for one in group["filters"]) for group in groups
    )


def parse_search_page(document: Mapping[str, Any]) -> tuple[int, int]:
    """Parse the start and end of the requested page."""
    first = int(document.get("after") or 0)
    limit = int(document.get("limit") or DEFAULT_PAGE_SIZE)
    if not 1 <= limit <= MAX_SEARCH_PAGE_SIZE:
        raise HubSpotApiError(f"limit must be between 1 and {MAX_SEARCH_PAGE_SIZE}.")
    if first + limit > MAX_RESULTS:
        raise HubSpotApiError(f"Results beyond {MAX_RESULTS} cannot be paged through.")
    return first, first + limit


def _passes(contact: Contact, wanted: Mapping[str, Any]) -> bool:
    held = _COMPARED[wanted["propertyName"]](contact)
    return OPERATORS[wanted["operator"]](held, int(wanted["value"]))
