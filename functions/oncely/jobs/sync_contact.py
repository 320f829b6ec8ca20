"""sync.contact: import one contact of the CRM into the records table; the newest version wins."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from oncely import (
    MAX_ID_LENGTH,
    Anomalous,
    BusinessWrite,
    Contract,
    Description,
    EffectCall,
    EffectOutcome,
    Job,
    JobKey,
    Json,
    Message,
    NotSent,
    PrecheckResult,
    Precondition,
    Proceed,
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
        description="the contact as HubSpot's API returns it, with `id` and `updatedAt`",
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


class SyncContact(Contract[ContactMessage, StoredContact]):
    """The job type that imports a contact."""

    job_type = "sync.contact"
    message = ContactMessage
    example = ContactMessage.model_construct(
        job="sync.contact", v=1, source="hubspot", source_id="4419", event_id="evt-8c1f"
    )
    policy = RetryPolicy(safety=RetrySafety.NATURAL, profile=HUBSPOT.profile)
    resources = Resources(queue="sync", tables=(RECORDS, IMPORT_EVENTS), providers=(HUBSPOT,))
    description = Description(
        effect="none; Oncely at most reads the contact from HubSpot.",
        business_rows="the contact's record, if this version is newer, and one import event.",
        success="the record is at this version or a newer one; the import event says which.",
        failure="never: a contact that HubSpot does not have is marked as gone.",
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
        row = self.dependencies.table("records").get({"record_id": _record_id(message)})
        values = {name: getattr(message, name) for name in ("source", "source_id", "event_id")}
        return Proceed(facts=StoredContact(message, row), values=values)

    def execute(self, call: EffectCall[StoredContact]) -> EffectOutcome:
        message = call.facts.message
        if message.record is not None:
            return _import_outcome(call.facts, _from_message(message.record), is_fresh=False)
        match self.dependencies.provider(HUBSPOT).get_contact(message.source_id):
            case NotSent() as not_sent:
                return not_sent
            case CrmRecord(record_id=crm_id) as record if crm_id == message.source_id:
                return _import_outcome(call.facts, record, is_fresh=True)
            case RecordNotFound() | CrmRecord():
                # Gone, or merged into another contact, which has its own events.
                return _not_found_outcome(call.facts, call.job)


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


def _import_outcome(facts: StoredContact, record: CrmRecord, *, is_fresh: bool) -> EffectOutcome:
    if record.record_id != facts.message.source_id:
        ours = facts.message.source_id
        return Anomalous(f"the record has id {record.record_id}, but the message has {ours}")
    if record.archived:
        return _archived_outcome(facts, record.updated_at)
    mark = properties_checksum(record.body)
    if facts.row is None:
        return _imported_outcome("imported", facts, record, mark)
    stored_at = _newest_version_time(facts.row, fresh=is_fresh)
    back_again = is_fresh and bool(facts.row.get("gone")) and record.updated_at == stored_at
    if stored_at is None or record.updated_at > stored_at or back_again:
        return _imported_outcome("updated", facts, record, mark)
    if record.updated_at < stored_at:
        return _event_outcome("skipped_stale", facts, record.updated_at, mark)
    same = facts.row.get("checksum") == mark
    return _event_outcome("unchanged" if same else "conflict", facts, record.updated_at, mark)


def _newest_version_time(row: Mapping[str, Any], *, fresh: bool) -> datetime | None:
    # A contact that was not found counts as a version of that time, except against a later fetch.
    names = ("source_updated_at",) if fresh else ("source_updated_at", "gone_at")
    return max((parse_time(row[name]) for name in names if row.get(name)), default=None)


def _archived_outcome(facts: StoredContact, at: datetime) -> EffectOutcome:
    # Marked, not deleted, and with its version, so that a late older record does not undo it.
    stored_at = None if facts.row is None else _newest_version_time(facts.row, fresh=True)
    if stored_at is not None and at < stored_at:
        return _event_outcome("skipped_stale", facts, at, None)
    return _event_outcome("gone", facts, at, None, _gone_write(facts, "source_updated_at", at))


def _not_found_outcome(facts: StoredContact, job: Job) -> EffectOutcome:
    if facts.row is not None and facts.row.get("gone"):
        return _event_outcome("gone", facts, None, None)
    # The claim came before the fetch, so every record older than it is stale.
    gone_at = job.claimed_at or job.updated_at
    return _event_outcome("gone", facts, None, None, _gone_write(facts, "gone_at", gone_at))


def _gone_write(facts: StoredContact, name: str, at: datetime) -> BusinessWrite:
    columns: dict[str, Json] = {"gone": True, name: format_time(at)}
    if facts.row is None:
        columns |= {"source": facts.message.source, "source_id": facts.message.source_id}
    return _record_write(facts, columns)


def _imported_outcome(
    result: str, facts: StoredContact, record: CrmRecord, mark: str
) -> EffectOutcome:
    columns: dict[str, Json] = {
        "source": facts.message.source,
        "source_id": facts.message.source_id,
        "source_updated_at": format_time(record.updated_at),
        "checksum": mark,
        "record": dict(record.body),
        "gone": False,
    }
    imported = _record_write(facts, columns, remove=("gone_at",))
    return _event_outcome(result, facts, record.updated_at, mark, imported)


def _record_write(
    facts: StoredContact, columns: Mapping[str, Json], *, remove: tuple[str, ...] = ()
) -> BusinessWrite:
    # Overwrite only the version that was compared.
    version = 0 if facts.row is None else int(facts.row["version"])
    return BusinessWrite(
        table="records",
        key={"record_id": facts.record_id},
        set={**columns, "version": version + 1},
        remove=remove,
        preconditions=() if facts.row is None else (Precondition("version", (version,)),),
        must_be_new=facts.row is None,
    )


def _event_outcome(
    result: str, facts: StoredContact, at: datetime | None, mark: str | None, *more: BusinessWrite
) -> Succeeded:
    event_write = BusinessWrite(
        table="import_events",
        key={"record_id": facts.record_id, "event_id": facts.message.event_id},
        set={
            "source_id": facts.message.source_id,
            "source_updated_at": None if at is None else format_time(at),
            "checksum": mark,
            "result": result,
        },
        may_create=True,
    )
    summary, writes = f"{facts.record_id}: {result}", (*more, event_write)
    return Succeeded(summary, result={"result": result}, writes=writes)
