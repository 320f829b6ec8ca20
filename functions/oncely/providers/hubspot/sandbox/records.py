"""HubSpot's contacts in the ledger, and their JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from oncely.testing.sandbox.ledger import ProviderLedger, RecordedEffect

ID_PROPERTY: Final = "oncely_id"  # the plug-in's default
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


class HubSpotLedger(ProviderLedger):
    """What happened at HubSpot."""

    def __init__(self) -> None:
        super().__init__()
        self._contacts: dict[str, Contact] = {}

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """All current contacts, including archived ones."""
        with self.lock:
            return tuple(self._contacts.values())

    def contact(self, contact_id: str) -> Contact | None:
        with self.lock:
            return self._contacts.get(contact_id)

    def save(self, contact: Contact) -> None:
        with self.lock:
            self._contacts[contact.contact_id] = contact

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
