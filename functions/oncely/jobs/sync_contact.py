"""sync.contact: fetch one contact of the CRM into the records table; the newest version wins."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast

from pydantic import Field

from oncely import (
    AlreadyResolved,
    Anomalous,
    BusinessId,
    BusinessWrite,
    Call,
    DataOwner,
    EffectOutcome,
    Job,
    JobRow,
    Json,
    NotSent,
    PrecheckResult,
    Precondition,
    Proceed,
    Succeeded,
    Tools,
    format_time,
    parse_time,
)
from oncely.jobs.tables import IMPORT_EVENTS, RECORDS
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.interfaces import CrmRecord, RecordNotFound

# What stays of an erased record.
_TOMBSTONE_COLUMNS: Final = frozenset(
    {"record_id", "source", "source_id", "version", "gone", "expires_at"}
)

# Whoever may send a message can write anything about a contact into it.
_IgnoredRecord = Annotated[
    dict[str, Any],
    Field(description="ignored and not stored: Oncely fetches the contact itself"),
]


StoredRecord: TypeAlias = Mapping[str, Any] | None  # of the contact, before this event


class SyncContact(Job[StoredRecord]):
    """None; Oncely reads the contact from HubSpot."""

    key = ("source", "source_id", "event_id")
    provider = HUBSPOT
    queue = "sync"
    safety = "natural"
    reads = (RECORDS,)
    writes = (RECORDS, IMPORT_EVENTS)
    personal_fields = ("record",)
    data_owner = DataOwner.RECORD
    example: ClassVar = {"source": "hubspot", "source_id": "4419", "event_id": "evt-8c1f"}
    business_rows = (
        "the contact's record, if HubSpot has a newer version, and one import event. If the "
        "contact is gone, its record is removed; a tombstone without its data stays."
    )
    when_finished = (
        "the record is at HubSpot's version, or the contact is gone; the import event says which."
    )
    when_failed = "never."
    review_when = ("when the contact or its record has values that cannot be stored or read",)

    source: Literal["hubspot"]
    source_id: BusinessId
    event_id: BusinessId
    record: Annotated[_IgnoredRecord | None, Field(exclude=True)] = None

    @property
    def record_id(self) -> str:
        return f"{self.source}#{self.source_id}"

    def subject_id(self) -> str:
        return self.record_id

    @classmethod
    def success_summary(cls, row: JobRow) -> str:
        result = str((row.result or {}).get("result") or "noted").replace("_", " ")
        return f"The contact's event was handled: {result}."

    def precheck(self) -> PrecheckResult[StoredRecord]:
        """Read the record that the import is compared with, and may overwrite."""
        row = self.tools.table("records").get({"record_id": self.record_id})
        if row is not None and (problem := record_problem(row)):
            reason = f"record {self.record_id} cannot be compared: {problem}"
            return AlreadyResolved(outcome=Anomalous(reason))
        return Proceed(facts=row, values=self.business_values())

    def execute(self, call: Call[StoredRecord]) -> EffectOutcome:
        contact = ContactImport(
            self,
            call.facts,
            claimed_at=call.row.claimed_at or call.row.updated_at,
            retention=self.tools.retention(IMPORT_EVENTS.name),
        )
        match self.tools.provider(HUBSPOT).get_contact(self.source_id):
            case NotSent() as not_sent:
                return not_sent
            case CrmRecord(record_id=self.source_id, archived=False) as record:
                return _import_outcome(contact, record)
            case RecordNotFound() | CrmRecord():
                # Gone, archived, or merged into another contact, which has its own events.
                return _gone_outcome(contact)

    @classmethod
    def erase_record(
        cls, tools: Tools, record_id: str, *, now: datetime, has_open_jobs: bool
    ) -> BusinessWrite | None:
        """Leave a tombstone, so that an import under way has to fetch the contact again."""
        row = tools.table(RECORDS.name).get({"record_id": record_id})
        if row is None and not has_open_jobs:
            return None
        if row is not None and row.get("gone") and row.keys() <= _TOMBSTONE_COLUMNS:
            return None
        version = None if row is None else row.get("version")
        counted = version if isinstance(version, int) else 0  # others may write anything there
        expires_at = now + tools.retention(IMPORT_EVENTS.name)
        tombstone: dict[str, Json] = {
            "gone": True,
            "expires_at": int(expires_at.timestamp()),
            "version": counted + 1,
        }
        is_absent = row is None or "version" not in row
        unchanged = Precondition("version", () if is_absent else (version,), or_absent=is_absent)  # type: ignore[arg-type]  # of a row
        return BusinessWrite(
            table=RECORDS.name,
            key={"record_id": record_id},
            set=tombstone,
            remove=tuple(sorted(set(row or ()) - _TOMBSTONE_COLUMNS)),
            preconditions=() if row is None else (unchanged,),
            must_be_new=row is None,
        )


@dataclass(frozen=True)
class ContactImport:
    """One import of a contact. Its event expires, as does the tombstone of a deleted contact."""

    contact: SyncContact
    row: StoredRecord
    claimed_at: datetime
    retention: timedelta

    @property
    def record_id(self) -> str:
        return self.contact.record_id

    @property
    def expires_at(self) -> int:
        """In seconds since the epoch, as DynamoDB's TTL requires."""
        return int((self.claimed_at + self.retention).timestamp())

    @property
    def next_version(self) -> int:
        return 1 if self.row is None else cast("int", self.row["version"]) + 1

    @property
    def was_gone(self) -> bool:
        """Whether the contact was gone before this event."""
        return self.row is not None and bool(self.row.get("gone"))


def record_problem(row: Mapping[str, object]) -> str | None:
    """Return why a row of `records` cannot be used: other processes write it, too."""
    for name, (is_valid, expected) in _RECORD_COLUMNS.items():
        if name in row and not is_valid(row[name]):
            return f"its {name} is not {expected}"
    return None if "version" in row else "it has no version"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_time(value: object) -> bool:
    try:
        return value is None or bool(parse_time(value))
    except ValueError:
        return False


_RECORD_COLUMNS: Final = {
    name: (is_valid, expected)
    for names, is_valid, expected in (
        ("version imported_version pushed_version", _is_count, "a whole number"),
        ("checksum crm_id push_job source source_id", _is_text, "text"),
        ("push_until source_updated_at", _is_time, "a time"),
    )
    for name in names.split()
}


def properties_checksum(record: Mapping[str, Json]) -> str:
    """Return a digest of a record's properties, independent of their order."""
    properties = record.get("properties", record)
    canonical = json.dumps(properties, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _import_outcome(contact: ContactImport, record: CrmRecord) -> EffectOutcome:
    mark = properties_checksum(record.body)
    if contact.row is None:
        return _imported_outcome("imported", contact, record, mark)
    stored = contact.row.get("source_updated_at")
    # It was fetched after a tombstone was read, so the contact is back.
    if contact.was_gone or stored is None or record.updated_at > parse_time(stored):
        return _imported_outcome("updated", contact, record, mark)
    if record.updated_at < parse_time(stored):
        return _event_outcome("skipped_stale", contact, record.updated_at, mark)
    same = contact.row.get("checksum") == mark
    return _event_outcome("unchanged" if same else "conflict", contact, record.updated_at, mark)


def _gone_outcome(contact: ContactImport) -> EffectOutcome:
    row = contact.row or {}
    if contact.was_gone and "record" not in row:
        return _event_outcome("gone", contact, None, None)
    # Not deleted: a worker that has fetched the contact earlier must find that the row changed.
    tombstone = _record_write(
        contact,
        {"gone": True, "expires_at": contact.expires_at},
        remove=("checksum", "imported_version", "record"),
    )
    outcome = _event_outcome("gone", contact, None, None, tombstone)
    if "record" not in row:
        return outcome
    removed = int(row["version"])
    return replace(
        outcome,
        reason=f"{outcome.reason}; version {removed} of its record was removed",
        result={**outcome.result, "removed_version": removed},
    )


def _imported_outcome(
    result: str, contact: ContactImport, record: CrmRecord, mark: str
) -> EffectOutcome:
    columns: dict[str, Json] = {
        "source_updated_at": format_time(record.updated_at),
        # A version that is not the source's own is the shop's change, to be pushed there.
        "imported_version": contact.next_version,
        "checksum": mark,
        "record": dict(record.body),
        "gone": False,
    }
    # Without the expiry of a tombstone: a contact that is back stays.
    imported = _record_write(contact, columns, remove=("expires_at",))
    return _event_outcome(result, contact, record.updated_at, mark, imported)


def _record_write(
    contact: ContactImport, columns: Mapping[str, Json], *, remove: tuple[str, ...]
) -> BusinessWrite:
    source: dict[str, Json] = {
        "source": contact.contact.source,
        "source_id": contact.contact.source_id,
    }
    # Overwrite only the version that was compared: what was fetched is newer than this row.
    compared = Precondition("version", (contact.next_version - 1,))
    return BusinessWrite(
        table=RECORDS.name,
        key={"record_id": contact.record_id},
        set={**source, **columns, "version": contact.next_version},
        remove=remove,
        preconditions=() if contact.row is None else (compared,),
        must_be_new=contact.row is None,
    )


def _event_outcome(
    result: str, contact: ContactImport, at: datetime | None, mark: str | None, *more: BusinessWrite
) -> Succeeded:
    event_write = BusinessWrite(
        table=IMPORT_EVENTS.name,
        key={"record_id": contact.record_id, "event_id": contact.contact.event_id},
        set={
            "source_id": contact.contact.source_id,
            "source_updated_at": None if at is None else format_time(at),
            "checksum": mark,
            "result": result,
            "expires_at": contact.expires_at,
        },
        may_create=True,
    )
    summary, writes = f"{contact.record_id}: {result}", (*more, event_write)
    return Succeeded(summary, result={"result": result}, writes=writes)
