"""A CRM in memory, with faults as its arguments; held to the same contract suite as HubSpot."""

import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from oncely.adapters.hubspot_paths import is_contact_id, leads_elsewhere
from oncely.domain.answers import Answer, Done, NotSent, Odd, Refused, Unclear, Unreachable
from oncely.domain.profiles import DAILY_LIMIT_CHECK
from oncely.domain.times import until_next
from oncely.domain.writes import Json
from oncely.providers import CrmRecord, Gone, Page, Taken
from tests.support.fakes import FakeClock
from tests.support.payments import Fault

PAGE: Final = 100
# A property whose name begins like this is one that the CRM does not know, here and in the sandbox.
UNKNOWN_PROPERTY: Final = "no_such_"

# What goes wrong with one call; a NotSent, such as a limited rate, is answered as it is.
Trouble = Fault | NotSent


@dataclass
class FakeCrm:
    """Contacts by id; `writes` is the truth that tests compare with."""

    id_property: str = "oncely_id"
    clock: FakeClock = field(default_factory=FakeClock)
    contacts: dict[str, CrmRecord] = field(default_factory=dict)
    writes: Counter[str] = field(default_factory=Counter)  # pushes that landed, by contact
    calls: list[tuple[str, str]] = field(default_factory=list)  # step, what it was asked about
    faults: dict[str, deque[Trouble]] = field(default_factory=dict)  # by step
    lock: threading.RLock = field(default_factory=threading.RLock)
    daily_limit_is_spent: bool = False
    names_what_collided: bool = False  # HubSpot does it in some of its answers only

    def fails(self, step: str, *faults: Trouble) -> None:
        """The next calls of `step` go wrong like this, one after the other."""
        self.faults.setdefault(step, deque()).extend(faults)

    def add(self, **properties: str) -> str:
        """A contact that somebody made in the CRM; gives its id."""
        with self.lock:
            record_id = str(len(self.contacts) + 1)
            self._put(record_id, properties, created=_in_words(self.clock.now()))
            return record_id

    def add_contacts(self, number: int) -> list[str]:
        """This many contacts, told apart by their addresses."""
        first = len(self.contacts) + 1
        return [self.add(email=f"{one}@example.com") for one in range(first, first + number)]

    def update(self, record_id: str, /, **properties: str) -> None:
        """Somebody changes a contact in the CRM, at the clock's time."""
        with self.lock:
            held = self.contacts[record_id]
            kept = {**_properties(held), **properties}
            self._put(record_id, kept, created=held.body["createdAt"])

    def archive(self, record_id: str, /) -> None:
        """Somebody deletes a contact in the CRM."""
        with self.lock:
            held = self.contacts[record_id]
            body = {**held.body, "archived": True}
            self.contacts[record_id] = replace(held, archived=True, body=body)

    def fetch(self, record_id: str) -> CrmRecord | Gone | NotSent:
        with self.lock:
            return self._unread("fetch", record_id) or self._standing(record_id)

    def page(self, *, after: str | None) -> Page | NotSent:
        with self.lock:
            return self._unread("page", after or "") or self._page(since=None, after=after)

    def changed(self, *, since: datetime, after: str | None) -> Page | NotSent:
        with self.lock:
            return self._unread("changed", after or "") or self._page(since=since, after=after)

    def push(
        self, external_id: str, properties: Mapping[str, str], *, crm_id: str | None = None
    ) -> Answer | Taken | Gone:
        with self.lock:
            if odd := _odd_id(external_id, crm_id):
                return odd
            self.calls.append(("push", external_id))
            match self._fault("push"):
                case Fault.TIMEOUT_BEFORE:
                    return Unclear("timeout")
                case Fault.TIMEOUT_AFTER:
                    self._write(external_id, properties, crm_id)
                    return Unclear("timeout")
                case None:
                    return self._write(external_id, properties, crm_id)
                case fault:
                    return _not_sent(fault)

    def find(
        self, external_id: str, *, crm_id: str | None = None
    ) -> CrmRecord | Gone | Unreachable | Odd:
        with self.lock:
            if odd := _odd_id(external_id, crm_id):
                return odd
            unread = self._unread("find", crm_id or external_id)
            if unread is not None:
                return Unreachable(unread.reason, unread.retry_after)
            found = self._standing(crm_id or self._holder(self.id_property, external_id) or "")
            if isinstance(found, Gone):
                return found
            ours = _properties(found).get(self.id_property)
            return replace(found, external_id=None if ours is None else str(ours))

    def _unread(self, step: str, about: str) -> NotSent | None:
        self.calls.append((step, about))
        fault = self._fault(step)
        return None if fault is None else _not_sent(fault)

    def _fault(self, step: str) -> Trouble | None:
        if self.daily_limit_is_spent:
            wait = until_next(self.clock.now(), DAILY_LIMIT_CHECK)
            return NotSent("429: the daily limit is spent", wait, alarm=True)
        waiting = self.faults.get(step)
        return waiting.popleft() if waiting else None

    def _standing(self, record_id: str) -> CrmRecord | Gone:
        held = self.contacts.get(record_id)
        return Gone() if held is None or held.archived else held

    def _page(self, *, since: datetime | None, after: str | None) -> Page:
        behind = int(after or 0)
        found = [
            one
            for one in self.contacts.values()
            if not one.archived
            and int(one.record_id) > behind
            and (since is None or one.updated_at >= since)
        ]
        shown = tuple(found[:PAGE])
        return Page(shown, after=shown[-1].record_id if len(found) > PAGE else None)

    def _write(
        self, external_id: str, properties: Mapping[str, str], crm_id: str | None
    ) -> Answer | Taken | Gone:
        unknown = [name for name in properties if name.startswith(UNKNOWN_PROPERTY)]
        if unknown:
            return Refused(f"no property {unknown[0]}", code="VALIDATION_ERROR")
        if crm_id is not None and isinstance(self._standing(crm_id), Gone):
            return Gone()
        own = {**properties, self.id_property: external_id}
        record_id = crm_id or self._holder(self.id_property, external_id)
        if taken := self._taken(own, record_id):
            return taken
        if record_id is None:
            record_id = self.add(**own)
        else:
            self.update(record_id, **own)
        self.writes[record_id] += 1
        result: dict[str, Json] = {"crm_id": record_id}
        return Done(f"pushed as contact {record_id}", record_id, result)

    def _taken(self, own: Mapping[str, str], record_id: str | None) -> Taken | None:
        for name in (self.id_property, "email"):
            holder = self._holder(name, own.get(name, ""))
            if holder not in {None, record_id}:
                by = frozenset({name} - {self.id_property}) if self.names_what_collided else None
                return Taken(f"contact {holder} exists already", holder, by or frozenset())
        return None

    def _holder(self, name: str, value: str) -> str | None:
        return next(
            (
                one.record_id
                for one in self.contacts.values()
                if value and not one.archived and _properties(one).get(name) == value
            ),
            None,
        )

    def _put(self, record_id: str, properties: Mapping[str, Json], *, created: Json) -> None:
        # A CRM tells its times to the millisecond.
        at = self.clock.now().replace(microsecond=self.clock.now().microsecond // 1000 * 1000)
        body: dict[str, Json] = {
            "id": record_id,
            "properties": {**properties, "hs_object_id": record_id},
            "createdAt": created,
            "updatedAt": _in_words(at),
            "archived": False,
        }
        self.contacts[record_id] = CrmRecord(
            record_id=record_id, updated_at=at, archived=False, body=body
        )


def _odd_id(external_id: str, crm_id: str | None) -> Odd | None:
    odd = leads_elsewhere(external_id) or not (crm_id is None or is_contact_id(crm_id))
    return Odd(f"no such id can be asked for: {external_id}, {crm_id}") if odd else None


def _properties(record: CrmRecord) -> dict[str, Json]:
    held = record.body["properties"]
    assert isinstance(held, dict)
    return held


def _not_sent(fault: Trouble) -> NotSent:
    match fault:
        case NotSent():
            return fault
        case Fault.UNAUTHORIZED:
            return NotSent("401: our token is refused", alarm=True)
        case _:
            return NotSent(f"the CRM could not be read: {fault}")


def _in_words(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
