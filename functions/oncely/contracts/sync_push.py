"""sync.push: bring our current record to the CRM; an older push never lands over a newer one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from oncely.contract import Call, Contract, Message, Needs, Proceed, Settled, Standing, Words
from oncely.domain.answers import (
    Absent,
    Answer,
    Done,
    NotSent,
    Odd,
    Prepared,
    Unclear,
    Unreachable,
)
from oncely.domain.jobs import Job
from oncely.domain.keys import MAX_PART, JobKey, job_key
from oncely.domain.profiles import HUBSPOT, Safety, StopRules, Terms
from oncely.domain.times import instant, time_text
from oncely.domain.writes import Expect, Json, LocalWrite
from oncely.providers import CrmRecord, Gone, Taken

Id = Annotated[str, Field(min_length=1, max_length=MAX_PART)]

# Two properties of our own on the CRM's contacts: the unique one, and which version it holds.
VERSION_PROPERTY: Final = "oncely_version"
# The property by which an existing contact is proved to be the same person.
ADDRESS: Final = "email"
_OUT_OF_TIME: Final = NotSent(
    "too little time was left for the next request; nothing was written",
    retry_after=timedelta(0),
)
# The CRM writes these itself and refuses them from others.
_READ_ONLY: Final = frozenset({"createdate", "lastmodifieddate"})
_READ_ONLY_PREFIX: Final = "hs_"


class PushMessage(Message):
    """Bring this version of a record to the CRM."""

    job: Literal["sync.push"]
    v: Literal[1]
    target: Literal["hubspot"]
    record_id: Id
    version: Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Outgoing:
    """A record as it stands in our table."""

    record_id: str
    version: int
    crm_id: str | None
    properties: Mapping[str, str]


class SyncPush(Contract[PushMessage, Outgoing]):
    """Pushes a record; see `words` for what that means."""

    job_type = "sync.push"
    message = PushMessage
    example = PushMessage.model_construct(
        job="sync.push",
        v=1,
        target="hubspot",
        record_id="hubspot#4419",
        version=7,
    )
    terms = Terms(
        safety=Safety.LOOKUP,
        profile=HUBSPOT,
        # Our two properties may be missing in the account: a mistake of ours, for every record.
        stop=StopRules(person_looks_at=frozenset({"VALIDATION_ERROR"})),
        rows_may_move=True,
    )
    needs = Needs(queue="sync", tables=("records",), secrets=("hubspot",), sends_to=("sync",))
    words = Words(
        outside=(
            "the one HubSpot contact that carries our id is created or updated. A contact that "
            "has the record's email and none of our ids is given our id instead."
        ),
        rows="the record keeps the contact's id at HubSpot and the version that is there.",
        success="HubSpot shows this version of the record, or a newer one.",
        failure="HubSpot does not accept the record's values.",
        alerts=(
            "when the record does not exist, or not yet in this version",
            "when HubSpot has the contact already and it is not certainly this record's",
        ),
    )

    @classmethod
    def key(cls, message: PushMessage) -> JobKey:
        """`sync.push:hubspot:<record id>:<version>`."""
        return job_key(cls.job_type, message.target, message.record_id, message.version)

    @classmethod
    def subject(cls, message: PushMessage) -> str:
        """People ask by the record."""
        return message.record_id

    @classmethod
    def done_words(cls, job: Job) -> str:
        """Whether this version arrived, or a newer one took its place."""
        result = job.result or {}
        if result.get("crm_id"):
            return f"Pushed once: HubSpot contact {result['crm_id']} holds this version."
        return f"Not pushed: version {result.get('superseded_by', 'a newer one')} took its place."

    def check(self, message: PushMessage) -> Standing[Outgoing]:
        """Only the current version is ever sent; an older one is left to the newer push."""
        row = self._row(message.record_id)
        if row is None:
            return Settled(answer=Odd(f"record {message.record_id} does not exist"))
        current = int(row["version"])
        values = {
            "target": message.target,
            "record_id": message.record_id,
            "version": message.version,
        }
        facts = _outgoing(row, message)
        if current < message.version:
            told = f"record {message.record_id} is at version {current}, not {message.version}"
            return Settled(answer=Odd(told), facts=facts, values=values)
        if current > message.version:
            return Settled(answer=_superseded(facts, current), facts=facts, values=values)
        return Proceed(facts=facts, values=values)

    def prepare(self, call: Call[Outgoing]) -> Prepared | Answer | None:
        """Take the record's one place for a push, so that two versions are never under way."""
        now = call.job.claimed_at or call.job.updated_at
        free = Expect("push_until", (), or_absent=True, or_up_to=time_text(now))
        # Its own from before: this job is ready again only when its earlier push is certainly over.
        own = Expect("push_job", (call.job.job_key,))
        if self._take(call, free) or self._take(call, own):
            return None
        return self._in_the_way(call.facts, now)

    def act(self, call: Call[Outgoing]) -> Answer:
        """Create or update by our unique id; never a blind create."""
        crm_id = call.facts.crm_id
        match self._push(call, crm_id):
            case Taken() as taken if crm_id is not None:
                return _for_an_operator(f"our contact is {crm_id}, and {taken.reason}", taken)
            case Gone() if crm_id is not None:
                return self._push_by_our_id(call)
            case answer:
                return self._linked(call, answer)

    def _push_by_our_id(self, call: Call[Outgoing]) -> Answer:
        """The contact that we knew was deleted: our unique id says which one it is now."""
        if not call.has_time(HUBSPOT.request_timeout):
            return _OUT_OF_TIME
        return self._linked(call, self._push(call, None))

    def _linked(self, call: Call[Outgoing], answer: Answer | Taken | Gone) -> Answer:
        """The answer to a push by our id; a contact that exists already is linked if it may be."""
        match answer:
            case Taken(record_id=str() as existing) as taken if not taken.by - {ADDRESS}:
                return self._link(call, taken, existing)
            case Taken() as taken:
                which = f"contact {taken.record_id} exists already" if taken.record_id else ""
                by = f"it shares {', '.join(sorted(taken.by))}" if taken.by else ""
                parts = (which, by, taken.reason)
                return _for_an_operator("; ".join(part for part in parts if part), taken)
            case Gone():
                return Unclear("HubSpot says that there is no contact to update by our id")
            case _:
                return answer

    def _link(self, call: Call[Outgoing], taken: Taken, existing: str) -> Answer:
        """Give an existing contact our id, if what HubSpot shows of it proves whose it is."""
        facts = call.facts
        match self.tools.crm().find(facts.record_id, crm_id=existing):
            case Unreachable(reason=reason):
                return NotSent(f"contact {existing} exists already and cannot be read: {reason}")
            case Odd() as odd:
                return odd
            case Gone():
                return _for_an_operator(f"contact {existing} is not there: {taken.reason}", taken)
            case CrmRecord() as found if why := _not_ours(facts, found, existing):
                return _for_an_operator(f"contact {existing} exists already, and {why}", taken)
            case CrmRecord(external_id=facts.record_id) as found if (
                _version(found) >= facts.version
            ):
                return self._read(call, found)
        if not call.has_time(HUBSPOT.request_timeout):
            return _OUT_OF_TIME
        match self._push(call, existing):
            case Taken() | Gone():
                return _for_an_operator(f"contact {existing} changed while it was linked", taken)
            case answer:
                return answer

    def _push(self, call: Call[Outgoing], crm_id: str | None) -> Answer | Taken | Gone:
        facts = call.facts
        answer = self.tools.crm().push(facts.record_id, facts.properties, crm_id=crm_id)
        return self._landed(call, answer.ref) if isinstance(answer, Done) else answer

    def ask(self, call: Call[Outgoing]) -> Answer:
        """Read our id back, and which version it carries."""
        match self.tools.crm().find(call.facts.record_id):
            case (Unreachable() | Odd()) as unread:
                return unread
            case Gone():
                return Absent(f"HubSpot has no contact for {call.facts.record_id}")
            case CrmRecord() as found:
                return self._read(call, found)

    def follow_ups(self, job: Job) -> tuple[Message, ...]:
        """A version that moved on meanwhile is pushed under its own key."""
        newer = (job.result or {}).get("superseded_by")
        if not isinstance(newer, int):
            return ()
        return (PushMessage.model_validate({**job.message, "version": newer}),)

    def _read(self, call: Call[Outgoing], found: CrmRecord) -> Done | Absent:
        """What the version of our contact says about this push."""
        version = _version(found)
        if version > call.facts.version:
            return _superseded(call.facts, version)
        if version == call.facts.version:
            return self._landed(call, found.record_id)
        return Absent(f"contact {found.record_id} is still at version {version}")

    def _take(self, call: Call[Outgoing], if_it_is: Expect) -> bool:
        job, facts = call.job, call.facts
        until = (job.lease_until or job.updated_at) + HUBSPOT.request_timeout
        place = LocalWrite(
            table="records",
            key={"record_id": facts.record_id},
            set={"push_job": job.job_key, "push_until": time_text(until)},
            expect=(Expect("version", (facts.version,)), if_it_is),
        )
        return self.tools.table("records").update(place)

    def _row(self, record_id: str) -> Mapping[str, Any] | None:
        return self.tools.table("records").get({"record_id": record_id})

    def _in_the_way(self, facts: Outgoing, now: datetime) -> Answer:
        row = self._row(facts.record_id)
        if row is None:
            return Odd(f"record {facts.record_id} was deleted")
        if (current := int(row["version"])) > facts.version:
            return _superseded(facts, current)
        until = instant(row.get("push_until") or time_text(now))
        return NotSent(
            f"{row.get('push_job')} is pushing this record",
            retry_after=max(until - now, timedelta(seconds=1)),
        )

    def _landed(self, call: Call[Outgoing], crm_id: str | None) -> Done:
        """Look at our row once more: it may have moved on while the push was under way."""
        facts = call.facts
        row = self._row(facts.record_id) or {}
        current = int(row.get("version", facts.version))
        result: dict[str, Json] = {"crm_id": crm_id, "version": facts.version}
        if current > facts.version:
            result["superseded_by"] = current
        newest = max(facts.version, int(row.get("pushed_version", 0)))
        holder = row.get("push_job")
        # Only what was looked at is written over, and only our own place is given up.
        held = Expect("push_job", (holder,) if holder else (), or_absent=not holder)
        written = LocalWrite(
            table="records",
            key={"record_id": facts.record_id},
            set={"crm_id": crm_id, "pushed_version": newest},
            remove=("push_job", "push_until") if holder == call.job.job_key else (),
            expect=(Expect("version", (current,)), held),
        )
        told = f"HubSpot contact {crm_id} is at version {facts.version}"
        return Done(told, ref=crm_id, result=result, writes=(written,))


def _outgoing(row: Mapping[str, Any], message: PushMessage) -> Outgoing:
    own_id = row.get("source_id") if row.get("source") == message.target else None
    record: Mapping[str, Any] = row.get("record") or {}
    properties: Mapping[str, Any] = record.get("properties", record)
    writable = {
        name: "" if value is None else str(value)
        for name, value in properties.items()
        if name not in _READ_ONLY and not name.startswith(_READ_ONLY_PREFIX)
    }
    return Outgoing(
        record_id=message.record_id,
        version=message.version,
        crm_id=row.get("crm_id") or own_id,
        properties={**writable, VERSION_PROPERTY: str(message.version)},
    )


def _superseded(facts: Outgoing, current: int) -> Done:
    return Done(
        f"version {facts.version} was superseded by {current} before it was sent",
        result={"superseded_by": current},
    )


def _for_an_operator(reason: str, taken: Taken) -> Odd:
    """Nothing was written; the contact's id is what the operator looks for."""
    return Odd(reason, result={"existing_crm_id": taken.record_id})


def _not_ours(facts: Outgoing, found: CrmRecord, existing: str) -> str | None:
    """Why an existing contact must not be linked to our record; None if it may be."""
    if found.record_id != existing:
        return f"it was merged into contact {found.record_id}"
    if found.external_id == facts.record_id:
        return None
    if found.external_id:
        return f"it belongs to our record {found.external_id}"
    ours = _address(facts.properties)
    if not ours or ours != _address(found.body.get("properties")):
        return f"its {ADDRESS} is not the one of our record"
    return None


def _address(properties: Any) -> str:  # noqa: ANN401  # ours, or the CRM's JSON
    return str((properties or {}).get(ADDRESS) or "").strip().casefold()


def _version(found: CrmRecord) -> int:
    properties: Any = found.body.get("properties") or {}
    text = str(properties.get(VERSION_PROPERTY) or "0")
    return int(text) if text.isdecimal() else 0
