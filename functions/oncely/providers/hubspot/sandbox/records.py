"""HubSpot's contacts in the ledger, and their JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

# HubSpot always returns these, and the defaults only if the caller names no properties.
ALWAYS_RETURNED: Final = ("hs_object_id", "createdate", "lastmodifieddate")
RETURNED_BY_DEFAULT: Final = (*ALWAYS_RETURNED, "email", "firstname", "lastname")


@dataclass(frozen=True, kw_only=True)
class Contact:
    """A contact. Each change creates a new version."""

    contact_id: str
    properties: Mapping[str, str]
    created: datetime
    updated: datetime
    archived: bool = False
    writes: int = 0  # through the API, without edits by users


def contact_body(contact: Contact, wanted: Sequence[str] = ()) -> dict[str, Any]:
    """Serialize a contact with the requested properties. Unset ones are null."""
    names = (*ALWAYS_RETURNED, *wanted) if wanted else RETURNED_BY_DEFAULT
    held = {
        **contact.properties,
        "hs_object_id": contact.contact_id,
        "createdate": format_timestamp(contact.created),
        "lastmodifieddate": format_timestamp(contact.updated),
    }
    return {
        "id": contact.contact_id,
        "properties": {name: held.get(name) for name in names},
        "createdAt": format_timestamp(contact.created),
        "updatedAt": format_timestamp(contact.updated),
        "archived": contact.archived,
    }


def page_body(results: Sequence[dict[str, Any]], *, after: str | None) -> dict[str, Any]:
    """Serialize a page of results. The last page has no `after`."""
    paging = {} if after is None else {"paging": {"next": {"after": after, "link": "?after="}}}
    return {"results": list(results), **paging}


def format_timestamp(moment: datetime) -> str:
    """Format a time as HubSpot does."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
