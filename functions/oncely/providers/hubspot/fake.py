"""A CRM in memory. It passes the same conformance suite as HubSpot."""

import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    Json,
    LookupFailed,
    NotSent,
    Succeeded,
)
from oncely.domain.text import time_until_next
from oncely.ports import Clock
from oncely.providers.hubspot.paths import is_contact_id, is_path_traversal
from oncely.providers.hubspot.plugin import DAILY_LIMIT_RECHECK_INTERVAL
from oncely.providers.interfaces import CrmConflict, CrmPage, CrmRecord, RecordNotFound
from oncely.testing.provider_fault import ProviderFault

PAGE_SIZE: Final = 100
# Prefix of properties that the CRM does not have, here and in the sandbox.
UNKNOWN_PROPERTY: Final = "no_such_"

# A fault of one call; a NotSent, such as a limited rate, is returned unchanged.
CrmFault = ProviderFault | NotSent


class _FixedClock:
    """A fixed clock, for tests that do not advance time."""

    def now(self) -> datetime:
        return datetime(2026, 11, 16, 3, 0, tzinfo=UTC)


@dataclass
class FakeCrm:
    """Contacts by id, whose `writes` are the ledger that tests compare with."""

    id_property: str = "oncely_id"
    clock: Clock = field(default_factory=_FixedClock)
    contacts: dict[str, CrmRecord] = field(default_factory=dict)
    writes: Counter[str] = field(default_factory=Counter)  # completed pushes, by contact
    calls: list[tuple[str, str]] = field(default_factory=list)  # step, id
    faults: dict[str, deque[CrmFault]] = field(default_factory=dict)  # by step
    lock: threading.RLock = field(default_factory=threading.RLock)
    daily_limit_exhausted: bool = False
    reports_conflicting_property: bool = False  # HubSpot does so in some responses only

    def fail_next(self, step: str, *faults: CrmFault) -> None:
        self.faults.setdefault(step, deque()).extend(faults)

    def add(self, **properties: str) -> str:
        with self.lock:
            record_id = str(len(self.contacts) + 1)
            self._put(record_id, properties, created=_format_timestamp(self.clock.now()))
            return record_id

    def add_contacts(self, number: int) -> list[str]:
        first = len(self.contacts) + 1
        return [self.add(email=f"{one}@example.com") for one in range(first, first + number)]

    def update(self, record_id: str, /, **properties: str) -> None:
        with self.lock:
            held = self.contacts[record_id]
            kept = {**_properties(held), **properties}
            self._put(record_id, kept, created=held.body["createdAt"])

    def archive(self, record_id: str, /) -> None:
        with self.lock:
            held = self.contacts[record_id]
            body = {**held.body, "archived": True}
            self.contacts[record_id] = replace(held, archived=True, body=body)

    def get_contact(self, record_id: str) -> CrmRecord | RecordNotFound | NotSent:
        with self.lock:
            return self._read_fault("get_contact", record_id) or self._active_contact(record_id)

    def list_contacts(self, *, after: str | None) -> CrmPage | NotSent:
        with self.lock:
            return self._read_fault("list_contacts", after or "") or self._page(
                since=None, after=after
            )

    def list_changed(self, *, since: datetime, after: str | None) -> CrmPage | NotSent:
        with self.lock:
            return self._read_fault("list_changed", after or "") or self._page(
                since=since, after=after
            )

    def upsert_contact(
        self, external_id: str, properties: Mapping[str, str], *, crm_id: str | None = None
    ) -> EffectOutcome | CrmConflict | RecordNotFound:
        with self.lock:
            if odd := _invalid_id(external_id, crm_id):
                return odd
            self.calls.append(("upsert_contact", external_id))
            match self._fault("upsert_contact"):
                case ProviderFault.TIMEOUT_BEFORE:
                    return Ambiguous("timeout")
                case ProviderFault.TIMEOUT_AFTER:
                    self._write(external_id, properties, crm_id)
                    return Ambiguous("timeout")
                case None:
                    return self._write(external_id, properties, crm_id)
                case fault:
                    return _not_sent(fault)

    def find_by_external_id(
        self, external_id: str, *, crm_id: str | None = None
    ) -> CrmRecord | RecordNotFound | LookupFailed | Anomalous:
        with self.lock:
            if odd := _invalid_id(external_id, crm_id):
                return odd
            unread = self._read_fault("find_by_external_id", crm_id or external_id)
            if unread is not None:
                return LookupFailed(unread.reason, unread.retry_after)
            found = self._active_contact(
                crm_id or self._holder(self.id_property, external_id) or ""
            )
            if isinstance(found, RecordNotFound):
                return found
            ours = _properties(found).get(self.id_property)
            return replace(found, external_id=None if ours is None else str(ours))

    def _read_fault(self, step: str, about: str) -> NotSent | None:
        self.calls.append((step, about))
        fault = self._fault(step)
        return None if fault is None else _not_sent(fault)

    def _fault(self, step: str) -> CrmFault | None:
        if self.daily_limit_exhausted:
            wait = time_until_next(self.clock.now(), DAILY_LIMIT_RECHECK_INTERVAL)
            return NotSent("429: the daily limit is spent", wait, credentials_rejected=True)
        waiting = self.faults.get(step)
        return waiting.popleft() if waiting else None

    def _active_contact(self, record_id: str) -> CrmRecord | RecordNotFound:
        held = self.contacts.get(record_id)
        return RecordNotFound() if held is None or held.archived else held

    def _page(self, *, since: datetime | None, after: str | None) -> CrmPage:
        behind = int(after or 0)
        found = [
            one
            for one in self.contacts.values()
            if not one.archived
            and int(one.record_id) > behind
            and (since is None or one.updated_at >= since)
        ]
        shown = tuple(found[:PAGE_SIZE])
        return CrmPage(shown, after=shown[-1].record_id if len(found) > PAGE_SIZE else None)

    def _write(
        self, external_id: str, properties: Mapping[str, str], crm_id: str | None
    ) -> EffectOutcome | CrmConflict | RecordNotFound:
        unknown = [name for name in properties if name.startswith(UNKNOWN_PROPERTY)]
        if unknown:
            return Declined(f"no property {unknown[0]}", code="VALIDATION_ERROR")
        if crm_id is not None and isinstance(self._active_contact(crm_id), RecordNotFound):
            return RecordNotFound()
        own = {**properties, self.id_property: external_id}
        record_id = crm_id or self._holder(self.id_property, external_id)
        if taken := self._conflict(own, record_id):
            return taken
        if record_id is None:
            record_id = self.add(**own)
        else:
            self.update(record_id, **own)
        self.writes[record_id] += 1
        result: dict[str, Json] = {"crm_id": record_id}
        return Succeeded(f"pushed as contact {record_id}", record_id, result)

    def _conflict(self, own: Mapping[str, str], record_id: str | None) -> CrmConflict | None:
        for name in (self.id_property, "email"):
            holder = self._holder(name, own.get(name, ""))
            if holder not in {None, record_id}:
                by = (
                    frozenset({name} - {self.id_property})
                    if self.reports_conflicting_property
                    else None
                )
                return CrmConflict(f"contact {holder} exists already", holder, by or frozenset())
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
        # HubSpot's times have milliseconds.
        at = self.clock.now().replace(microsecond=self.clock.now().microsecond // 1000 * 1000)
        body: dict[str, Json] = {
            "id": record_id,
            "properties": {**properties, "hs_object_id": record_id},
            "createdAt": created,
            "updatedAt": _format_timestamp(at),
            "archived": False,
        }
        self.contacts[record_id] = CrmRecord(
            record_id=record_id, updated_at=at, archived=False, body=body
        )


def _invalid_id(external_id: str, crm_id: str | None) -> Anomalous | None:
    odd = is_path_traversal(external_id) or not (crm_id is None or is_contact_id(crm_id))
    return Anomalous(f"no such id can be looked up: {external_id}, {crm_id}") if odd else None


def _properties(record: CrmRecord) -> dict[str, Json]:
    held = record.body["properties"]
    return held if isinstance(held, dict) else {}


def _not_sent(fault: CrmFault) -> NotSent:
    match fault:
        case NotSent():
            return fault
        case ProviderFault.UNAUTHORIZED:
            return NotSent("401: our token is refused", credentials_rejected=True)
        case _:
            return NotSent(f"the CRM could not be read: {fault}")


def _format_timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
