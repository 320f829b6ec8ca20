"""sync.contact: import one contact of the CRM into the records table; the newest version wins."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from oncely import (
    MAX_ID_LENGTH,
    Anomalous,
    BusinessWrite,
    Contract,
    DataOwner,
    Description,
    EffectCall,
    EffectOutcome,
    Job,
    JobKey,
    Json,
    Message,
    Mismatch,
    NotSent,
    PrecheckResult,
    Precondition,
    Proceed,
    RecordEraser,
    Resources,
    RetryPolicy,
    RetrySafety,
    Succeeded,
    format_time,
    job_key,
    parse_time,
)
from oncely.jobs.tables import IMPORT_EVENTS, RECORDS
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.interfaces import CrmRecord, RecordNotFound

# HubSpot's clock and ours may differ by this much.
SOURCE_CLOCK_SKEW: Final = timedelta(minutes=1)

# What stays of an erased record.
_TOMBSTONE_COLUMNS: Final = frozenset(
    {"record_id", "source", "source_id", "version", "gone", "gone_at", "expires_at"}
)

_BusinessId = Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH)]


def _validate_record(record: dict[str, Any]) -> dict[str, Any]:
    parse_time(record.get("updatedAt"))
    if not isinstance(record.get("id"), str):
        raise ValueError("the record's id must be a string")  # noqa: TRY004  # pydantic expects it
    if not isinstance(record.get("properties", {}), dict):
        raise ValueError("the record's properties must be an object")  # noqa: TRY004  # likewise
    return record


ContactRecord = Annotated[
    dict[str, Any],
    Field(
        description=(
            "the contact as HubSpot's API returns it, with `id` and `updatedAt`, which must not be "
            "in the future"
        ),
        json_schema_extra={
            "properties": {
                "id": {"type": "string"},
                "updatedAt": {"type": "string", "format": "date-time"},
                "properties": {"type": "object"},
            },
            "required": ["id", "updatedAt"],
        },
    ),
    AfterValidator(_validate_record),
]


class ContactMessage(Message):
    """A request to import a contact as of an event. Without `record`, Oncely fetches it."""

    job: Literal["sync.contact"]
    v: Literal[1]
    source: Literal["hubspot"]
    source_id: _BusinessId
    event_id: _BusinessId
    record: ContactRecord | None = None


@dataclass(frozen=True)
class StoredContact:
    """The stored record of the contact before this event, and the message."""

    message: ContactMessage
    row: Mapping[str, Any] | None

    @property
    def record_id(self) -> str:
        return _record_id(self.message)

    @property
    def is_claimed(self) -> bool:
        """Whether the stored version is from a message only, so that HubSpot's data wins."""
        return self.row is not None and not self.row.get("fetched")


@dataclass(frozen=True)
class ContactImport(StoredContact):
    """One import of a contact. Its event expires, as does the tombstone of a deleted contact."""

    claimed_at: datetime
    retention: timedelta

    @property
    def expires_at(self) -> int:
        """In seconds since the epoch, as DynamoDB's TTL requires."""
        return int((self.claimed_at + self.retention).timestamp())

    @property
    def was_gone(self) -> bool:
        """Whether the contact was gone before this event."""
        return self.row is not None and bool(self.row.get("gone"))


class SyncContact(Contract[ContactMessage, StoredContact], RecordEraser):
    """The job type that imports a contact."""

    job_type = "sync.contact"
    message = ContactMessage
    example = ContactMessage.model_construct(
        job="sync.contact", v=1, source="hubspot", source_id="4419", event_id="evt-8c1f"
    )
    policy = RetryPolicy(safety=RetrySafety.NATURAL, profile=HUBSPOT.profile)
    resources = Resources(
        queue="sync", reads=(RECORDS,), writes=(RECORDS, IMPORT_EVENTS), providers=(HUBSPOT,)
    )
    personal_fields = ("record",)
    owner = DataOwner.RECORD
    # Personal data. A run without it fetches the contact.
    dropped_when_ended = frozenset({"record"})
    description = Description(
        effect="none; Oncely at most reads the contact from HubSpot.",
        business_rows=(
            "the contact's record, if this version is newer, and one import event. A fetched "
            "version also replaces one that only a message has named. If the contact is gone, its "
            "record is removed; a tombstone without its data keeps older versions out."
        ),
        success=(
            "the record is at this version or a newer one, or the contact is gone; the import "
            "event says which."
        ),
        failure="never.",
    )

    @classmethod
    def key(cls, message: ContactMessage) -> JobKey:
        """Return `sync.contact:hubspot:4419:<event id>`."""
        return job_key(cls.job_type, message.source, message.source_id, message.event_id)

    @classmethod
    def subject(cls, message: ContactMessage) -> str:
        return _record_id(message)

    @classmethod
    def success_summary(cls, job: Job) -> str:
        result = str((job.result or {}).get("result") or "noted").replace("_", " ")
        return f"The contact's event was handled: {result}."

    def precheck(self, message: ContactMessage) -> PrecheckResult[StoredContact]:
        """Read the record that the import is compared with, and may overwrite."""
        if message.record and (reason := self._future_version(message.record["updatedAt"])):
            return Mismatch(reason)
        row = self.dependencies.table("records").get({"record_id": _record_id(message)})
        values = {name: getattr(message, name) for name in ("source", "source_id", "event_id")}
        return Proceed(facts=StoredContact(message, row), values=values)

    def _future_version(self, updated_at: str) -> str | None:
        # No version that HubSpot has would ever replace it.
        if parse_time(updated_at) <= self.dependencies.clock.now() + SOURCE_CLOCK_SKEW:
            return None
        return f"the record's updatedAt is in the future: {updated_at}"

    def execute(self, call: EffectCall[StoredContact]) -> EffectOutcome:
        message, job = call.facts.message, call.job
        contact = ContactImport(
            message,
            call.facts.row,
            claimed_at=job.claimed_at or job.updated_at,
            retention=self.dependencies.retention(IMPORT_EVENTS.name),
        )
        # A job that left a review may be older than any tombstone, so fetch the contact again.
        if message.record is not None and job.reopened_at is None:
            return _import_outcome(contact, _from_message(message.record), is_fresh=False)
        match self.dependencies.provider(HUBSPOT).get_contact(message.source_id):
            case NotSent() as not_sent:
                return not_sent
            case CrmRecord(record_id=crm_id) as record if crm_id == message.source_id:
                return _import_outcome(contact, record, is_fresh=True)
            case RecordNotFound() | CrmRecord():
                # Gone, or merged into another contact, which has its own events.
                return _not_found_outcome(contact)

    def erase_record(
        self, record_id: str, *, now: datetime, has_open_jobs: bool
    ) -> BusinessWrite | None:
        """Leave a tombstone that is newer than every version that may still arrive in a message."""
        row = self.dependencies.table(RECORDS.name).get({"record_id": record_id})
        if row is None and not has_open_jobs:
            return None
        if row is not None and row.get("gone_at") and row.keys() <= _TOMBSTONE_COLUMNS:
            return None
        version = None if row is None else row.get("version")
        expires_at = now + self.dependencies.retention(IMPORT_EVENTS.name)
        tombstone: dict[str, Json] = {
            "gone": True,
            "gone_at": format_time(now + SOURCE_CLOCK_SKEW),
            "expires_at": int(expires_at.timestamp()),
            "version": int(str(version or 0)) + 1,
        }
        unchanged = Precondition("version", (version,) if version else (), or_absent=not version)  # type: ignore[arg-type]  # of a row
        return BusinessWrite(
            table=RECORDS.name,
            key={"record_id": record_id},
            set=tombstone,
            remove=tuple(sorted(set(row or ()) - _TOMBSTONE_COLUMNS)),
            preconditions=() if row is None else (unchanged,),
            must_be_new=row is None,
        )


def _record_id(message: ContactMessage) -> str:
    return f"{message.source}#{message.source_id}"


def properties_checksum(record: Mapping[str, Json]) -> str:
    """Return a digest of a record's properties, independent of their order."""
    properties = record.get("properties", record)
    canonical = json.dumps(properties, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _from_message(record: Mapping[str, Any]) -> CrmRecord:
    return CrmRecord(
        record_id=record["id"],
        updated_at=parse_time(record["updatedAt"]),
        archived=bool(record.get("archived")),
        body=record,
    )


def _import_outcome(contact: ContactImport, record: CrmRecord, *, is_fresh: bool) -> EffectOutcome:
    if record.record_id != contact.message.source_id:
        ours = contact.message.source_id
        return Anomalous(f"the record has id {record.record_id}, but the message has {ours}")
    if record.archived:
        return _archived_outcome(contact, record.updated_at, is_fresh=is_fresh)
    mark = properties_checksum(record.body)
    if contact.row is None:
        return _imported_outcome("imported", contact, record, mark, is_fresh=is_fresh)
    stored_at = _newest_version_time(contact.row, fresh=is_fresh)
    same = contact.row.get("checksum") == mark
    back_again = is_fresh and contact.was_gone and record.updated_at == stored_at
    corrects = is_fresh and contact.is_claimed and not (same and record.updated_at == stored_at)
    if stored_at is None or record.updated_at > stored_at or back_again or corrects:
        return _imported_outcome("updated", contact, record, mark, is_fresh=is_fresh)
    if record.updated_at < stored_at or contact.was_gone:
        # A checksum of the record of a contact that is gone would be personal data.
        kept_mark = None if contact.was_gone else mark
        return _event_outcome("skipped_stale", contact, record.updated_at, kept_mark)
    return _event_outcome("unchanged" if same else "conflict", contact, record.updated_at, mark)


def _newest_version_time(row: Mapping[str, Any], *, fresh: bool) -> datetime | None:
    # A contact that was not found counts as a version of that time, except against a later fetch.
    names = ("source_updated_at",) if fresh else ("source_updated_at", "gone_at")
    return max((parse_time(row[name]) for name in names if row.get(name)), default=None)


def _archived_outcome(contact: ContactImport, at: datetime, *, is_fresh: bool) -> EffectOutcome:
    stored_at = None if contact.row is None else _newest_version_time(contact.row, fresh=True)
    corrects = is_fresh and contact.is_claimed
    if stored_at is not None and at < stored_at and not corrects:
        return _event_outcome("skipped_stale", contact, at, None)
    return _gone_outcome(contact, at, source_updated_at=format_time(at), fetched=is_fresh)


def _not_found_outcome(contact: ContactImport) -> EffectOutcome:
    row = contact.row or {}
    is_tombstone = contact.was_gone and "record" not in row
    if is_tombstone and (row.get("gone_at") or not contact.is_claimed):
        return _event_outcome("gone", contact, None, None)
    # The claim came before the fetch, so every record older than it is stale.
    return _gone_outcome(contact, None, gone_at=format_time(contact.claimed_at))


def _gone_outcome(contact: ContactImport, at: datetime | None, **version: Json) -> Succeeded:
    # Not deleted: the tombstone has the version, so that a late older record does not undo it.
    columns: dict[str, Json] = {
        "source": contact.message.source,
        "source_id": contact.message.source_id,
        "gone": True,
        "expires_at": contact.expires_at,
        **version,
    }
    tombstone = _record_write(contact, columns, remove=("checksum", "record"))
    outcome = _event_outcome("gone", contact, at, None, tombstone)
    if contact.row is None or "record" not in contact.row:
        return outcome
    removed = int(contact.row["version"])
    return replace(
        outcome,
        reason=f"{outcome.reason}; version {removed} of its record was removed",
        result={**outcome.result, "removed_version": removed},
    )


def _imported_outcome(
    result: str, contact: ContactImport, record: CrmRecord, mark: str, *, is_fresh: bool
) -> EffectOutcome:
    columns: dict[str, Json] = {
        "source": contact.message.source,
        "source_id": contact.message.source_id,
        "source_updated_at": format_time(record.updated_at),
        "fetched": is_fresh,  # by Oncely; otherwise only a message has this version
        "checksum": mark,
        "record": dict(record.body),
        "gone": False,
    }
    # Without the expiry of a tombstone: a contact that is back stays.
    imported = _record_write(contact, columns, remove=("expires_at", "gone_at"))
    return _event_outcome(result, contact, record.updated_at, mark, imported)


def _record_write(
    contact: ContactImport, columns: Mapping[str, Json], *, remove: tuple[str, ...]
) -> BusinessWrite:
    # Overwrite only the version that was compared: what was fetched is newer than this row.
    version = 0 if contact.row is None else int(contact.row["version"])
    return BusinessWrite(
        table=RECORDS.name,
        key={"record_id": contact.record_id},
        set={**columns, "version": version + 1},
        remove=remove,
        preconditions=() if contact.row is None else (Precondition("version", (version,)),),
        must_be_new=contact.row is None,
    )


def _event_outcome(
    result: str, contact: ContactImport, at: datetime | None, mark: str | None, *more: BusinessWrite
) -> Succeeded:
    event_write = BusinessWrite(
        table=IMPORT_EVENTS.name,
        key={"record_id": contact.record_id, "event_id": contact.message.event_id},
        set={
            "source_id": contact.message.source_id,
            "source_updated_at": None if at is None else format_time(at),
            "checksum": mark,
            "result": result,
            "expires_at": contact.expires_at,
        },
        may_create=True,
    )
    summary, writes = f"{contact.record_id}: {result}", (*more, event_write)
    return Succeeded(summary, result={"result": result}, writes=writes)
