"""HubSpot's contacts in a ledger: changes through the API, and edits by users."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import Final

from oncely.providers.hubspot.sandbox.errors import (
    HubSpotApiError,
    duplicate_value_error,
    not_found_error,
    unknown_property_error,
)
from oncely.providers.hubspot.sandbox.records import ID_PROPERTY, Contact, HubSpotLedger
from oncely.testing.sandbox.http_messages import NowFunction

# Properties whose values are unique among contacts.
UNIQUE_PROPERTIES: Final = ("email", ID_PROPERTY)
READ_ONLY_PROPERTIES: Final = frozenset({"hs_object_id", "createdate", "lastmodifieddate"})
UNKNOWN_PROPERTY_PREFIX: Final = "no_such_"  # such properties do not exist


class HubSpotContacts:
    """The contacts of one account. Tests change them directly."""

    def __init__(self, ledger: HubSpotLedger, clock: NowFunction) -> None:
        self._ledger, self._clock = ledger, clock
        # Whether a conflict error names the property; HubSpot rarely does.
        self.reports_conflicting_property = False
        # Whether the daily request limit is used up, so that every request fails.
        self.is_daily_limit_reached = False
        self._ids = count(1)
        self._holders: dict[tuple[str, str], str] = {}  # unique property and value → contact id

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

    def find(self, value: str, *, by: str | None) -> Contact | None:
        with self._ledger.lock:
            contact_id = value if by is None else self._holders.get((by, value))
            return None if contact_id is None else self._ledger.contact(contact_id)

    def upsert(self, value: str, properties: Mapping[str, str], *, by: str) -> tuple[Contact, bool]:
        """Create or update the contact with this unique value. Returns whether it is new."""
        own = {by: value, **properties}
        held = self.find(value, by=by)
        self._check_free(own, held)
        return self._written(self._new(own) if held is None else self._changed(held, own)), not held

    def patch(self, contact_id: str, properties: Mapping[str, str]) -> Contact:
        held = self._ledger.contact(contact_id)
        if held is None or held.archived:
            raise not_found_error(contact_id)
        self._check_free(properties, held)
        return self._written(self._changed(held, properties))

    def _check_free(self, properties: Mapping[str, str], held: Contact | None) -> None:
        for name in UNIQUE_PROPERTIES:
            holder = self._holders.get((name, properties.get(name, "")))
            if holder is not None and (held is None or holder != held.contact_id):
                named = self.reports_conflicting_property
                raise duplicate_value_error(name, properties[name], holder, named=named)

    def _written(self, contact: Contact) -> Contact:
        return self._save(replace(contact, writes=contact.writes + 1))

    def _new(self, properties: Mapping[str, str]) -> Contact:
        id_, at = str(next(self._ids)), self._now()
        return Contact(contact_id=id_, properties=properties, created=at, updated=at)

    def _changed(self, held: Contact, properties: Mapping[str, str]) -> Contact:
        return replace(held, properties={**held.properties, **properties}, updated=self._now())

    def _get(self, contact_id: str) -> Contact:
        if (held := self._ledger.contact(contact_id)) is None:
            raise KeyError(f"unknown contact {contact_id}")
        return held

    def _save(self, contact: Contact) -> Contact:
        previous = self._ledger.contact(contact.contact_id)
        for name in UNIQUE_PROPERTIES:
            if previous and (old := previous.properties.get(name)):
                self._holders.pop((name, old), None)
            # Archiving releases the unique values.
            if not contact.archived and (value := contact.properties.get(name)):
                self._holders[name, value] = contact.contact_id
        self._ledger.save(contact)
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
