"""Writes HubSpot's JSON: contacts and pages of them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from oncely.providers.hubspot.sandbox.records import Contact

# HubSpot gives these always, and the others only if the caller names no properties of its own.
ALWAYS_RETURNED: Final = ("hs_object_id", "createdate", "lastmodifieddate")
RETURNED_BY_DEFAULT: Final = (*ALWAYS_RETURNED, "email", "firstname", "lastname")


def contact_body(contact: Contact, wanted: Sequence[str] = ()) -> dict[str, Any]:
    """Write a contact with the properties that the caller wants; those not set are null."""
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
    """Write a page; without `after` it was the last."""
    paging = {} if after is None else {"paging": {"next": {"after": after, "link": "?after="}}}
    return {"results": list(results), **paging}


def format_timestamp(moment: datetime) -> str:
    """Write a time as HubSpot does."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
