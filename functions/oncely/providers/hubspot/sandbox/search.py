"""HubSpot's search: filter groups, one sort, and at most 10,000 results."""

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from oncely.providers.hubspot.sandbox.errors import HubSpotApiError
from oncely.providers.hubspot.sandbox.records import Contact

OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EQ": operator.eq,
    "NEQ": operator.ne,
    "GT": operator.gt,
    "GTE": operator.ge,
    "LT": operator.lt,
    "LTE": operator.le,
}
TIME_PROPERTIES: Final = frozenset({"createdate", "lastmodifieddate"})
# HubSpot never returns results beyond this position.
MAX_RESULTS: Final = 10_000
DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE = 10, 200


def parse_filter(groups: Sequence[Mapping[str, Any]]) -> Callable[[Contact], bool]:
    """Parse filter groups into a predicate: all filters of at least one group."""
    tests = [[_build_predicate(one) for one in group.get("filters", ())] for group in groups]
    return lambda contact: not tests or any(all(test(contact) for test in group) for group in tests)


def sort_contacts(contacts: Sequence[Contact], sorts: Sequence[Mapping[str, str]]) -> list[Contact]:
    """Sort by HubSpot's single sort (default: oldest first)."""
    if len(sorts) > 1:
        raise HubSpotApiError("Only one sort is allowed.")
    wanted = sorts[0] if sorts else {"propertyName": "createdate"}
    descending = wanted.get("direction") == "DESCENDING"
    name = wanted["propertyName"]
    return sorted(contacts, key=lambda one: _comparable_value(one, name) or "", reverse=descending)


def parse_page(document: Mapping[str, Any]) -> tuple[int, int]:
    """Parse the start and end of the requested page."""
    first = int(document.get("after") or 0)
    limit = int(document.get("limit") or DEFAULT_PAGE_SIZE)
    if not 1 <= limit <= MAX_PAGE_SIZE:
        raise HubSpotApiError(f"limit must be between 1 and {MAX_PAGE_SIZE}.")
    if first + limit > MAX_RESULTS:
        raise HubSpotApiError(f"Results beyond {MAX_RESULTS} cannot be paged through.")
    return first, first + limit


def _build_predicate(wanted: Mapping[str, Any]) -> Callable[[Contact], bool]:
    name, value = wanted["propertyName"], _parse_value(wanted["propertyName"], wanted["value"])
    if (compare := OPERATORS.get(wanted["operator"])) is None:
        raise HubSpotApiError(f"{wanted['operator']} is not supported by this sandbox.")

    def passes(contact: Contact) -> bool:
        held = _comparable_value(contact, name)
        return held is not None and compare(held, value)

    return passes


def _comparable_value(contact: Contact, name: str) -> int | str | None:
    match name:
        case "hs_object_id":
            return int(contact.contact_id)
        case "createdate":
            return _milliseconds(contact.created)
        case "lastmodifieddate":
            return _milliseconds(contact.updated)
        case _:
            return contact.properties.get(name)


def _parse_value(name: str, value: str) -> int | str:
    try:
        if name in TIME_PROPERTIES and not value.isdigit():
            return _milliseconds(datetime.fromisoformat(value))
        return int(value) if name in {*TIME_PROPERTIES, "hs_object_id"} else value
    except ValueError:
        raise HubSpotApiError(f'"{value}" is not a valid value of {name}.') from None


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)
