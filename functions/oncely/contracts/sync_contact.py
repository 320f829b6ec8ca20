"""sync.contact: bring one contact of the CRM into our records, newest version wins."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from oncely.contract import Call, Contract, Message, Needs, Proceed, Standing, Words
from oncely.domain.answers import Answer, Done, NotSent, Odd
from oncely.domain.jobs import Job
from oncely.domain.keys import MAX_PART, JobKey, job_key
from oncely.domain.profiles import HUBSPOT, Safety, Terms
from oncely.domain.times import instant, time_text
from oncely.domain.writes import Expect, Json, LocalWrite
from oncely.providers import CrmRecord, Gone

Id = Annotated[str, Field(min_length=1, max_length=MAX_PART)]


def _is_a_record(record: dict[str, Any]) -> dict[str, Any]:
    instant(record.get("updatedAt"))
    if not isinstance(record.get("id"), str):
        raise ValueError("a record needs its id as text")  # noqa: TRY004  # pydantic's way to refuse
    if not isinstance(record.get("properties", {}), dict):
        raise ValueError("a record's properties are an object")  # noqa: TRY004  # the same
    return record


Record = Annotated[
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
    AfterValidator(_is_a_record),
]


class ContactMessage(Message):
    """Import this contact as it was at this event; without `record` it is fetched."""

    job: Literal["sync.contact"]
    v: Literal[1]
    source: Literal["hubspot"]
    source_id: Id
    event_id: Id
    record: Record | None = None


@dataclass(frozen=True)
class Stored:
    """What we have of the contact before this event, and what the message brought."""

    message: ContactMessage
    row: Mapping[str, Any] | None

    @property
    def record_id(self) -> str:
        """The key of the row."""
        return _record_id(self.message)


class SyncContact(Contract[ContactMessage, Stored]):
    """Imports a contact; see `words` for what that means."""

    job_type = "sync.contact"
    message = ContactMessage
    example = ContactMessage.model_construct(
        job="sync.contact",
        v=1,
        source="hubspot",
        source_id="4419",
        event_id="evt-8c1f",
    )
    terms = Terms(safety=Safety.NATURAL, profile=HUBSPOT)
    needs = Needs(queue="sync", tables=("records", "import_events"), secrets=("hubspot",))
    words = Words(
        outside="nothing; the contact is at most read from HubSpot.",
        rows="the contact's record, if this version is newer, and one import event.",
        success="the record is at this version or a newer one, and the event says which.",
        failure="there is none: what HubSpot does not have is marked as gone.",
    )

    @classmethod
    def key(cls, message: ContactMessage) -> JobKey:
        """`sync.contact:hubspot:4419:<event id>`."""
        return job_key(cls.job_type, message.source, message.source_id, message.event_id)

    @classmethod
    def subject(cls, message: ContactMessage) -> str:
        """People ask by the record."""
        return _record_id(message)

    @classmethod
    def done_words(cls, job: Job) -> str:
        """What the event did to our record."""
        result = str((job.result or {}).get("result") or "noted").replace("_", " ")
        return f"The contact's event was handled: {result}."

    def check(self, message: ContactMessage) -> Standing[Stored]:
        """Read our record; what to do is decided against it, and written only over it."""
        facts = Stored(message, None)
        row = self.tools.table("records").get({"record_id": facts.record_id})
        values = {
            "source": message.source,
            "source_id": message.source_id,
            "event_id": message.event_id,
        }
        return Proceed(facts=Stored(message, row), values=values)

    def act(self, call: Call[Stored]) -> Answer:
        """Take the record from the message or fetch it, and compare."""
        message = call.facts.message
        if message.record is not None:
            return _imported(call.facts, _from_message(message.record), fresh=False)
        match self.tools.crm().fetch(message.source_id):
            case NotSent() as later:
                return later
            case Gone():
                return _not_there(call.facts, call.job)
            case CrmRecord(record_id=found) if found != message.source_id:
                # Merged into another contact, which has events of its own.
                return _not_there(call.facts, call.job)
            case CrmRecord() as record:
                return _imported(call.facts, record, fresh=True)


def _record_id(message: ContactMessage) -> str:
    return f"{message.source}#{message.source_id}"


def checksum(record: Mapping[str, Json]) -> str:
    """A digest of a record's properties that does not know their order."""
    properties = record.get("properties", record)
    canonical = json.dumps(properties, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _from_message(record: Mapping[str, Any]) -> CrmRecord:
    return CrmRecord(
        record_id=record["id"],
        updated_at=instant(record["updatedAt"]),
        archived=bool(record.get("archived")),
        body=record,
    )


def _imported(facts: Stored, record: CrmRecord, *, fresh: bool) -> Answer:
    """What this version means beside the one we have; a `fresh` one was read just now."""
    if record.record_id != facts.message.source_id:
        return Odd(f"the record is {record.record_id}, the message names {facts.message.source_id}")
    if record.archived:
        return _gone(facts, record.updated_at)
    mark = checksum(record.body)
    if facts.row is None:
        return _done("imported", facts, record, mark)
    stored_at = _newest(facts.row, fresh=fresh)
    back_again = fresh and bool(facts.row.get("gone")) and record.updated_at == stored_at
    if stored_at is None or record.updated_at > stored_at or back_again:
        return _done("updated", facts, record, mark)
    if record.updated_at < stored_at:
        return _noted("skipped_stale", facts, record.updated_at, mark)
    same = facts.row.get("checksum") == mark
    return _noted("unchanged" if same else "conflict", facts, record.updated_at, mark)


def _newest(row: Mapping[str, Any], *, fresh: bool) -> datetime | None:
    """The time that a record must be newer than to change the row.

    That the source had no such contact counts like a version of that time, except against a look
    at the source that came later.
    """
    names = ("source_updated_at",) if fresh else ("source_updated_at", "gone_at")
    return max((instant(row[name]) for name in names if row.get(name)), default=None)


def _gone(facts: Stored, at: datetime) -> Answer:
    """An archived record: marked, not deleted, so that what we knew of the contact stays.

    The mark keeps its version, so that an older record which comes late does not undo it.
    """
    stored_at = None if facts.row is None else _newest(facts.row, fresh=True)
    if stored_at is not None and at < stored_at:
        return _noted("skipped_stale", facts, at, None)
    return _noted("gone", facts, at, None, _marked(facts, "source_updated_at", at))


def _not_there(facts: Stored, job: Job) -> Answer:
    """The source was asked, and has no such contact: whatever record is older comes late."""
    if facts.row is not None and facts.row.get("gone"):
        return _noted("gone", facts, None, None)
    asked_at = job.claimed_at or job.updated_at  # the claim came before the question
    return _noted("gone", facts, None, None, _marked(facts, "gone_at", asked_at))


def _marked(facts: Stored, name: str, at: datetime) -> LocalWrite:
    columns: dict[str, Json] = {"gone": True, name: time_text(at)}
    if facts.row is None:
        message = facts.message
        columns |= {"source": message.source, "source_id": message.source_id}
    return _over(facts, columns)


def _done(result: str, facts: Stored, record: CrmRecord, mark: str) -> Answer:
    columns: dict[str, Json] = {
        "source": facts.message.source,
        "source_id": facts.message.source_id,
        "source_updated_at": time_text(record.updated_at),
        "checksum": mark,
        "record": dict(record.body),
        "gone": False,
    }
    imported = _over(facts, columns, remove=("gone_at",))
    return _noted(result, facts, record.updated_at, mark, imported)


def _over(
    facts: Stored, columns: Mapping[str, Json], *, remove: tuple[str, ...] = ()
) -> LocalWrite:
    """Write over exactly the row that was compared with; one that moved on refuses."""
    version = 0 if facts.row is None else int(facts.row["version"])
    return LocalWrite(
        table="records",
        key={"record_id": facts.record_id},
        set={**columns, "version": version + 1},
        remove=remove,
        expect=() if facts.row is None else (Expect("version", (version,)),),
        must_be_new=facts.row is None,
    )


def _noted(
    result: str, facts: Stored, at: datetime | None, mark: str | None, *more: LocalWrite
) -> Done:
    event: dict[str, Json] = {
        "source_id": facts.message.source_id,
        "source_updated_at": None if at is None else time_text(at),
        "checksum": mark,
        "result": result,
    }
    written = LocalWrite(
        table="import_events",
        key={"record_id": facts.record_id, "event_id": facts.message.event_id},
        set=event,
        may_create=True,
    )
    return Done(f"{facts.record_id}: {result}", result={"result": result}, writes=(*more, written))
