"""sync.push: push a record that we changed. An older push never overwrites a newer one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from oncely import (
    AlreadyResolved,
    Ambiguous,
    Anomalous,
    BusinessId,
    BusinessWrite,
    Call,
    DataOwner,
    Declined,
    EffectOutcome,
    Job,
    JobRow,
    Json,
    LookupFailed,
    LookupOutcome,
    NotFound,
    NotSent,
    NotThereYet,
    PrecheckResult,
    Precondition,
    Prepared,
    Proceed,
    Succeeded,
    format_time,
    parse_time,
)
from oncely.jobs.sync_contact import SyncContact, record_problem
from oncely.jobs.tables import RECORDS
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.interfaces import (
    EMAIL_PROPERTY,
    CrmConflict,
    CrmRecord,
    RecordNotFound,
)

_OUT_OF_TIME: Final = NotSent(
    "not enough time was left for the next request; nothing was written", retry_after=timedelta(0)
)
# The CRM sets these and all that start with hs_, and rejects writes to them.
_READ_ONLY: Final = frozenset({"createdate", "lastmodifieddate"})


@dataclass(frozen=True)
class RecordSnapshot:
    """A record as read from the records table."""

    record_id: str
    version: int
    crm_id: str | None
    properties: Mapping[str, str]
    is_from_crm: bool  # imported from the CRM, which says whether it is gone


class SyncPush(Job[RecordSnapshot]):
    """The one HubSpot contact with our id is created or updated.

    A contact that has the record's email and none of our ids gets our id instead.
    """

    key = ("target", "record_id", "version")
    provider = HUBSPOT
    queue = "sync"
    reads = (RECORDS,)
    writes = (RECORDS,)
    sends_to = ("sync",)
    tolerates_row_changes = True
    data_owner = DataOwner.RECORD  # errors may quote the contact
    example: ClassVar = {"target": "hubspot", "record_id": "hubspot#4419", "version": 7}
    business_rows = "the record stores the contact's HubSpot id and the version pushed there."
    when_finished = (
        "HubSpot has this version of the record or a newer one, or the record is gone. A version "
        "that was imported from HubSpot is not pushed back."
    )
    when_failed = "HubSpot does not accept the record's values."
    waits_for = "its record to reach this version"
    review_when = (
        "when the record has columns or properties of a wrong type",
        "when HubSpot already has the contact and it may not be this record's",
    )

    target: Literal["hubspot"]
    record_id: BusinessId
    version: Annotated[int, Field(ge=1)]

    def subject_id(self) -> str:
        return self.record_id

    @classmethod
    def success_summary(cls, row: JobRow) -> str:
        result = row.result or {}
        if result.get("crm_id"):
            return f"Pushed once: HubSpot contact {result['crm_id']} has this version."
        if result.get("gone"):
            return "Not pushed: the record is gone at its source."
        if result.get("imported"):
            return "Not pushed: this version was imported from HubSpot."
        return f"Not pushed: superseded by version {result.get('superseded_by', 'unknown')}."

    def precheck(self) -> PrecheckResult[RecordSnapshot]:
        """Proceed with the current version only. The newer push replaces an older one."""
        if (row := self._row(self.record_id)) is None:
            return NotThereYet(waits_for=f"record {self.record_id} to exist")
        facts = _record_snapshot(row, self)
        if isinstance(facts, str):
            reason = f"record {self.record_id} cannot be pushed: {facts}"
            return AlreadyResolved(outcome=Anomalous(reason))
        current: int = row["version"]
        values = self.business_values()
        if current < self.version:
            target = f"record {self.record_id} to reach version {self.version}"
            return NotThereYet(waits_for=f"{target}; it is at {current}", facts=facts)
        if row.get("gone"):
            gone = _gone_outcome(facts, f"record {self.record_id} is gone")
            return AlreadyResolved(outcome=gone, facts=facts, values=values)
        if current > self.version:
            superseded = _superseded_outcome(facts, current)
            return AlreadyResolved(outcome=superseded, facts=facts, values=values)
        if row.get("source") == self.target and row.get("imported_version") == current:
            # The target may have changed since, and nobody has changed our copy.
            outcome = _imported_outcome(facts)
            return AlreadyResolved(outcome=outcome, facts=facts, values=values)
        return Proceed(facts=facts, values=values)

    def prepare(self, call: Call[RecordSnapshot]) -> Prepared | EffectOutcome | None:
        """Reserve the record, so that two versions are never pushed at the same time."""
        now = call.row.claimed_at or call.row.updated_at
        free = Precondition("push_until", (), or_absent=True, or_at_most=format_time(now))
        # Its own earlier reservation: a job is ready again only once its push has certainly ended.
        own = Precondition("push_job", (call.row.job_key,))
        if self._reserve_push(call, free) or self._reserve_push(call, own):
            return None
        return self._reservation_conflict(call.facts, now)

    def execute(self, call: Call[RecordSnapshot]) -> EffectOutcome:
        """Create or update the contact by our unique id, never by a blind create."""
        crm_id = call.facts.crm_id
        match self._push(call, crm_id):
            case CrmConflict() as taken if crm_id is not None:
                return _needs_review(f"our contact is {crm_id}, but {taken.reason}", taken)
            case RecordNotFound() if call.facts.is_from_crm:
                # Not created again from our copy. A sync.contact follows, and removes the copy.
                reason = f"HubSpot no longer has contact {crm_id}"
                return _gone_outcome(call.facts, reason, missing_crm_id=crm_id)
            case RecordNotFound() if crm_id is not None:
                return self._push_by_our_id(call)
            case outcome:
                return self._link_if_taken(call, outcome)

    def _push_by_our_id(self, call: Call[RecordSnapshot]) -> EffectOutcome:
        # The known contact was deleted; our unique id finds its successor, if there is one.
        if not call.has_time_for(HUBSPOT.profile.request_timeout):
            return _OUT_OF_TIME
        return self._link_if_taken(call, self._push(call, None))

    def _link_if_taken(
        self,
        call: Call[RecordSnapshot],
        outcome: EffectOutcome | CrmConflict | RecordNotFound,
    ) -> EffectOutcome:
        match outcome:
            case CrmConflict(record_id=str() as existing) as taken if not taken.properties - {
                EMAIL_PROPERTY
            }:
                return self._link(call, taken, existing)
            case CrmConflict() as taken:
                which = f"contact {taken.record_id} already exists" if taken.record_id else ""
                by = f"it shares {', '.join(sorted(taken.properties))}" if taken.properties else ""
                parts = (which, by, taken.reason)
                return _needs_review("; ".join(part for part in parts if part), taken)
            case RecordNotFound():
                return Ambiguous("HubSpot returned 404 to an upsert by our id")
            case _:
                return outcome

    def _link(self, call: Call[RecordSnapshot], taken: CrmConflict, existing: str) -> EffectOutcome:
        # Only if HubSpot's data proves that the contact is this record's.
        facts, crm = call.facts, self.tools.provider(HUBSPOT)
        match crm.find_by_external_id(facts.record_id, crm_id=existing):
            case LookupFailed(reason=reason):
                return NotSent(f"contact {existing} already exists but cannot be read: {reason}")
            case Anomalous() as anomalous:
                return anomalous
            case RecordNotFound():
                return _needs_review(f"contact {existing} was not found: {taken.reason}", taken)
            case CrmRecord() as contact if obstacle := _link_obstacle(facts, contact, existing):
                return _needs_review(f"contact {existing} already exists, but {obstacle}", taken)
            case CrmRecord(external_id=facts.record_id) as contact if (
                contact.version >= facts.version
            ):
                return self._recorded_outcome(call, contact)
        if not call.has_time_for(HUBSPOT.profile.request_timeout):
            return _OUT_OF_TIME
        match self._push(call, existing):
            case CrmConflict() | RecordNotFound():
                return _needs_review(f"contact {existing} changed during linking", taken)
            case outcome:
                return outcome

    def _push(
        self, call: Call[RecordSnapshot], crm_id: str | None
    ) -> EffectOutcome | CrmConflict | RecordNotFound:
        facts, crm = call.facts, self.tools.provider(HUBSPOT)
        outcome = crm.upsert_contact(
            facts.record_id, facts.properties, version=facts.version, crm_id=crm_id
        )
        match outcome:
            case Succeeded(ref=ref):
                return self._pushed_outcome(call, ref)
            case Declined(code="VALIDATION_ERROR"):
                # Our two properties may be missing in the account, which would fail every record.
                return Anomalous(outcome.reason, result=outcome.result)
            case _:
                return outcome

    def lookup(self, call: Call[RecordSnapshot]) -> LookupOutcome:
        match self.tools.provider(HUBSPOT).find_by_external_id(call.facts.record_id):
            case LookupFailed() as outcome:
                return outcome
            case Anomalous(reason=reason):
                return NotFound(reason, conclusive=True)  # such an id was never sent
            case RecordNotFound():
                return NotFound(f"HubSpot has no contact for {call.facts.record_id}")
            case CrmRecord() as contact:
                if contact.version < call.facts.version:
                    reason = f"contact {contact.record_id} is still at version {contact.version}"
                    return NotFound(reason)
                return self._recorded_outcome(call, contact)

    def follow_ups(self, row: JobRow) -> tuple[Job[Any], ...]:
        result = row.result or {}
        if crm_id := result.get("missing_crm_id"):
            event = f"push-{self.version}"
            return (SyncContact(source=self.target, source_id=str(crm_id), event_id=event),)
        newer = result.get("superseded_by")
        if not isinstance(newer, int):
            return ()
        return (SyncPush(target=self.target, record_id=self.record_id, version=newer),)

    def _recorded_outcome(
        self, call: Call[RecordSnapshot], contact: CrmRecord
    ) -> Succeeded | Anomalous:
        """The outcome of a push whose version, or a newer one, the contact has."""
        if contact.version > call.facts.version:
            return _superseded_outcome(call.facts, contact.version)
        return self._pushed_outcome(call, contact.record_id)

    def _reserve_push(self, call: Call[RecordSnapshot], precondition: Precondition) -> bool:
        row, facts = call.row, call.facts
        until = (row.lease_until or row.updated_at) + HUBSPOT.profile.request_timeout
        reservation = BusinessWrite(
            table="records",
            key={"record_id": facts.record_id},
            set={"push_job": row.job_key, "push_until": format_time(until)},
            preconditions=(Precondition("version", (facts.version,)), precondition),
        )
        return self.tools.table("records").update(reservation)

    def _row(self, record_id: str) -> Mapping[str, Any] | None:
        return self.tools.table("records").get({"record_id": record_id})

    def _reservation_conflict(self, facts: RecordSnapshot, now: datetime) -> EffectOutcome:
        if (row := self._row(facts.record_id)) is None:
            return Anomalous(f"record {facts.record_id} was deleted")
        if problem := record_problem(row):
            return Anomalous(f"record {facts.record_id} cannot be pushed: {problem}")
        if row.get("gone"):
            return _gone_outcome(facts, f"record {facts.record_id} is gone")
        if (current := row["version"]) > facts.version:
            return _superseded_outcome(facts, current)
        until = parse_time(row.get("push_until") or format_time(now))
        wait = max(until - now, timedelta(seconds=1))
        return NotSent(f"{row.get('push_job')} is pushing this record", retry_after=wait)

    def _pushed_outcome(
        self, call: Call[RecordSnapshot], crm_id: str | None
    ) -> Succeeded | Anomalous:
        # Read the row again: a producer may have changed it during the push.
        facts = call.facts
        row = self._row(facts.record_id) or {}
        if row.get("gone"):
            # Removed or erased during the push: write nothing into what is left of it.
            return _gone_outcome(facts, f"record {facts.record_id} is gone", sent_to=crm_id)
        result: dict[str, Json] = {"crm_id": crm_id, "version": facts.version}
        if row and (problem := record_problem(row)):
            reason = f"HubSpot contact {crm_id} is at version {facts.version}, but {problem}"
            return Anomalous(reason, crm_id, result)
        current = row.get("version", facts.version)
        if current > facts.version:
            result["superseded_by"] = current
        newest = max(facts.version, row.get("pushed_version", 0))
        holder = row.get("push_job")
        # Write only over the row that was read, and release only this job's reservation.
        held = Precondition("push_job", (holder,) if holder else (), or_absent=not holder)
        record_write = BusinessWrite(
            table="records",
            key={"record_id": facts.record_id},
            set={"crm_id": crm_id, "pushed_version": newest},
            remove=("push_job", "push_until") if holder == call.row.job_key else (),
            preconditions=(Precondition("version", (current,)), held),
        )
        summary = f"HubSpot contact {crm_id} is at version {facts.version}"
        return Succeeded(summary, ref=crm_id, result=result, writes=(record_write,))


def _record_snapshot(row: Mapping[str, Any], push: SyncPush) -> RecordSnapshot | str:
    """Return the record as facts, or why it cannot be pushed."""
    if problem := record_problem(row):
        return problem
    own_id = row.get("source_id") if row.get("source") == push.target else None
    crm_id = row.get("crm_id") or own_id
    record = row.get("record")
    properties = record.get("properties", record) if isinstance(record, dict) else record
    if not isinstance(properties, dict | None):
        return f"its properties are {type(properties).__name__}, not a map"
    writable: dict[str, str] = {}
    for name, value in (properties or {}).items():
        if not isinstance(value, str | int | float | None):
            return f"its property {name!r} is neither text nor a number"
        if name not in _READ_ONLY and not name.startswith("hs_"):
            writable[name] = "" if value is None else str(value)
    return RecordSnapshot(
        record_id=push.record_id,
        version=push.version,
        crm_id=crm_id,
        properties=writable,
        is_from_crm=own_id is not None and crm_id == own_id,
    )


def _gone_outcome(facts: RecordSnapshot, reason: str, **more: Json) -> Succeeded:
    result: dict[str, Json] = {"gone": True, **more}
    return Succeeded(f"{reason}, so version {facts.version} was not pushed", result=result)


def _imported_outcome(facts: RecordSnapshot) -> Succeeded:
    reason = f"version {facts.version} was imported from HubSpot, so it was not pushed"
    return Succeeded(reason, result={"imported": True})


def _superseded_outcome(facts: RecordSnapshot, current: int) -> Succeeded:
    reason = f"version {facts.version} was superseded by {current} before it was sent"
    return Succeeded(reason, result={"superseded_by": current})


def _needs_review(reason: str, taken: CrmConflict) -> Anomalous:
    return Anomalous(reason, result={"existing_crm_id": taken.record_id})


def _link_obstacle(facts: RecordSnapshot, contact: CrmRecord, existing: str) -> str | None:
    if contact.record_id != existing:
        return f"it was merged into contact {contact.record_id}"
    if contact.external_id == facts.record_id:
        return None
    if contact.external_id:
        return f"it belongs to our record {contact.external_id}"
    ours = _normalized_email(facts.properties)
    if not ours or ours != _normalized_email(contact.body.get("properties")):
        return f"its {EMAIL_PROPERTY} is not that of our record"
    return None


def _normalized_email(properties: Any) -> str:  # noqa: ANN401  # ours, or the CRM's JSON
    return str((properties or {}).get(EMAIL_PROPERTY) or "").strip().casefold()
