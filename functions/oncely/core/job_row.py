"""The record of one job, and how a decision changes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from oncely.core.effect_outcomes import Anomalous, Json, Succeeded
from oncely.core.keys import MAX_ID_LENGTH, JobKey
from oncely.core.lifecycle import (
    AWAITS_MESSAGE,
    ENDED,
    LISTED,
    NO_ROW,
    NOT_AGE,
    TRANSITIONS,
    UNRESOLVED,
    Event,
    Status,
    WaitKind,
    next_status,
)
from oncely.core.schedule import latest_run_at
from oncely.core.text import reason_line, single_line, truncate_to_milliseconds

# Stored in evidence, so it never changes. The prefix keeps an operator who signs in as `worker`
# apart from the worker.
_OPERATOR_PREFIX: Final = "operator:"


def operator_actor(name: str) -> str:
    """An operator's name as evidence stores it."""
    return _OPERATOR_PREFIX + single_line(name, MAX_ID_LENGTH)


def is_operator(actor: str) -> bool:
    """Whether an operator wrote the entry."""
    return actor.startswith(_OPERATOR_PREFIX)


def operator_name(actor: str | None) -> str:
    """An operator's name in a sentence. A restored row may not have it."""
    return actor.removeprefix(_OPERATOR_PREFIX) if actor else "an operator"


def display_name(actor: str) -> str:
    """The actor as the timeline shows it."""
    return f"{actor.removeprefix(_OPERATOR_PREFIX)} (operator)" if is_operator(actor) else actor


# Bounds the row far below DynamoDB's 400 kB; each entry is bounded as well.
MAX_EVIDENCE_ENTRIES: Final = 100


@dataclass(frozen=True, kw_only=True)
class EvidenceEntry:
    """One entry of the audit trail: who did what, when, and why.

    An event or status that only a newer version knows stays text.
    """

    at: datetime
    event: Event | str
    from_status: Status | str | None
    to_status: Status | str
    reason: str
    actor: str
    count: int = 1
    last_at: datetime | None = None  # when the last of `count` equal entries was made

    @classmethod
    def of_step(
        cls, before: Status | None, event: Event, *, at: datetime, actor: str, reason: str
    ) -> "EvidenceEntry":
        """The entry of one step of the life cycle. Raises IllegalTransitionError."""
        return cls(
            at=at,
            event=event,
            from_status=before,
            to_status=next_status(before, event),
            reason=reason_line(reason),
            actor=actor,
        )

    @property
    def actor_name(self) -> str:
        """The actor's display name."""
        return display_name(self.actor)

    @property
    def is_operator_note(self) -> bool:
        """Whether an operator's action changed no status, so that it proves nothing."""
        return self.from_status == self.to_status and is_operator(self.actor)

    @property
    def leaves_claimable(self) -> bool:
        """Whether a worker may claim the job after it."""
        return isinstance(self.to_status, Status) and self.to_status.allows(Event.CLAIM)

    def repeated_at(self, at: datetime) -> "EvidenceEntry":
        """The same entry, counted once more."""
        return replace(self, count=self.count + 1, last_at=at)

    def equals_except_time(self, other: "EvidenceEntry") -> bool:
        """Whether the two differ only in time."""
        return replace(self, at=other.at, count=other.count, last_at=other.last_at) == other


def append_evidence(
    evidence: tuple[EvidenceEntry, ...], entry: EvidenceEntry
) -> tuple[EvidenceEntry, ...]:
    """Add an entry. Equal entries in a row are counted; operator notes make room first."""
    if evidence and entry.equals_except_time(evidence[-1]):
        return (*evidence[:-1], evidence[-1].repeated_at(entry.at))
    return _within_limit((*evidence, entry))


def insert_claim(
    evidence: tuple[EvidenceEntry, ...], claim: EvidenceEntry
) -> tuple[EvidenceEntry, ...]:
    """Add a claim after the entry that made the job claimable, before those of its own run."""
    claimable = [
        place
        for place, entry in enumerate(evidence, start=1)
        if entry.leaves_claimable and entry.at <= claim.at
    ]
    place = max(claimable, default=0)
    return _within_limit((*evidence[:place], claim, *evidence[place:]))


def _within_limit(longer: tuple[EvidenceEntry, ...]) -> tuple[EvidenceEntry, ...]:
    if len(longer) <= MAX_EVIDENCE_ENTRIES:
        return longer
    # Keep the first entry, which shows how the job began, and the last, its current state.
    middle = range(1, len(longer) - 1)
    dropped = next((place for place in middle if longer[place].is_operator_note), middle[0])
    return (*longer[:dropped], *longer[dropped + 1 :])


# One email has a few. A provider that reports more must not fill the row.
MAX_EVENT_RECORDS: Final = 10


class EventMark(StrEnum):
    """What an event means for its job. The values are stored, so never rename them."""

    HINT = "hint"  # a reason to look up now; never the outcome itself
    PROOF = "proof"  # the effect happened, under the claim in its tag
    REPORT = "report"  # a later result, such as a bounce


@dataclass(frozen=True, kw_only=True)
class EventRecord:
    """A provider event. It has only ids and codes, no personal data."""

    at: datetime  # when we received it
    provider: str
    name: str  # the provider's name for it
    mark: EventMark
    fence: int | None = None  # the claim in its tag
    ref: str | None = None  # the provider reference
    code: str | None = None  # such as the type of a bounce

    @property
    def proves(self) -> bool:
        """Whether it proves that the effect happened."""
        return self.mark is EventMark.PROOF

    def equals_except_time(self, other: "EventRecord") -> bool:
        """Whether both are deliveries of one event."""
        return replace(self, at=other.at) == other


def add_record(events: tuple[EventRecord, ...], event: EventRecord) -> tuple[EventRecord, ...]:
    """Add an event, unless it exists. In a full list, a proof replaces another."""
    if any(event.equals_except_time(one) for one in events):
        return events
    if len(events) < MAX_EVENT_RECORDS:
        return (*events, event)
    others = [one for one in events if not one.proves]
    if not event.proves or not others:
        return events
    return (*(one for one in events if one is not others[-1]), event)


# Clocks of two execution environments may differ by this much; a lease outlives it on both sides.
CLOCK_SKEW: Final = timedelta(seconds=2)
# Raised by a release whose rows an older engine would misread. Older engines skip such rows.
ENGINE_NUMBER: Final = 1
# What a row or a history line without a number has, whatever the number of this engine is.
FIRST_ENGINE: Final = 1
# Codes in the result of a job that an operator ended. They are stored.
RESOLVED_BY_OPERATOR: Final = "resolved_by_operator"  # and the provider confirmed it
MARKED_BY_OPERATOR: Final = "marked_by_operator"  # the provider could not be asked
UNCONFIRMED: Final = "unconfirmed"  # the business rows alone say that the money moved
NO_PROVIDER: Final = "no provider confirmed it"  # the end of the reason of such a job
CANCELLED_BY_OPERATOR: Final = "cancelled_by_operator"  # before anything was done

# They outlive an erasure: without them, texts would claim that the provider confirmed it.
NOT_CONFIRMED: Final = (MARKED_BY_OPERATOR, UNCONFIRMED)

# Every row that left `ready` without a claim holds at least one of these, also when it was erased
# or restored. Only our functions may write them: no producer can insert one.
OUR_MARKS: Final = ("result", "last_error", "deployment", "erasure_requested_at")

CLAIMS: Final = frozenset({Event.CLAIM, Event.CLAIM_REVIEW})
RESOLVED: Final = frozenset({Event.RESOLVE_FINISHED, Event.RESOLVE_FAILED})


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """A job as its row holds it. `apply` returns the next version, and a store swaps them."""

    job_key: JobKey
    job_type: str
    status: Status
    message: Mapping[str, Json]
    created_at: datetime
    updated_at: datetime
    owner: str | None = None
    fence: int = 0  # claims so far
    version: int = 1  # writes so far
    min_engine: int = ENGINE_NUMBER  # the lowest engine number that may claim it
    attempts: int = 0  # claims that may have called the provider; one that sent nothing is returned
    timeouts: int = 0  # ambiguous outcomes in a row
    unreachable: int = 0  # times in a row that the provider could not be reached
    key_number: int = 1  # raised only when absence is proved
    key_answered: bool = False  # a stored answer was replayed under this key number
    key_scope: str | None = None
    deployment: str | None = None  # the identity of the deployment that first claimed it
    provider: str | None = None  # chosen by the first claim, if its business rows specify one
    first_sent_at: datetime | None = None  # first send under this key number that is still open
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    due_at: datetime | None = None
    run_at: datetime | None = None  # no worker claims it before this time, if it is honored
    fingerprint: str | None = None
    # What it waits for: of a ready row, or of a review that a valid message may claim.
    waits_for: WaitKind | None = None
    # Of that wait, of a status that operators act on, or of an end that was restored.
    since: datetime | None = None
    subject: str | None = None  # the business id that people search by
    customer_id: str | None = None
    amount: int | None = None  # in minor units of `currency`
    currency: str | None = None
    provider_ref: str | None = None
    result: Mapping[str, Json] | None = None
    # A decline that is not certain yet. Either what was prepared is still open, and the next run
    # only closes that; or an earlier request may have had the effect, and a lookup must find none.
    closing: Mapping[str, Json] | None = None
    progress: Mapping[str, Json] | None = None  # how far a long job got
    last_error: str | None = None
    # When this job and those before it were resubmitted, as far back as the limit counts.
    resubmissions: tuple[datetime, ...] = ()
    # The start of its age, if not its creation. Some waits move it, and reopening restarts it.
    age_from: datetime | None = None
    pending_repair: Mapping[str, Json] | None = None  # waits for a second operator
    evidence: tuple[EvidenceEntry, ...] = field(default=())
    provider_events: tuple[EventRecord, ...] = field(default=())
    ended_version: int | None = None  # of the write that ended it, if that publishes an event
    expires_at: datetime | None = None
    erasure_requested_at: datetime | None = None  # never removed: the data stays erased

    @property
    def ended(self) -> bool:
        """Whether it is finished, failed or cancelled."""
        return self.status in ENDED

    @property
    def marked_by(self) -> str | None:
        """The operator who marked it as ended. Returns None if the provider confirmed it."""
        if not self.ended or (self.result or {}).get("code") != MARKED_BY_OPERATOR:
            return None
        actors = (entry.actor for entry in reversed(self.evidence) if entry.event in RESOLVED)
        return operator_name(next(actors, None))

    @property
    def is_unconfirmed(self) -> bool:
        """Whether it is finished because its business rows say so: no provider confirmed it."""
        return self.status.is_finished and (self.result or {}).get("code") == UNCONFIRMED

    @property
    def proofs(self) -> tuple[EventRecord, ...]:
        """The events that prove its effect."""
        return tuple(event for event in self.provider_events if event.proves)

    @property
    def proved_outcome(self) -> Succeeded | Anomalous | None:
        """What the saved events prove. Returns None if they prove nothing."""
        if not (proofs := self.proofs):
            return None
        refs = sorted({str(proof.ref) for proof in proofs})
        if len(refs) > 1:
            return Anomalous(f"events prove that it was sent {len(refs)} times: {', '.join(refs)}")
        [ref], provider = refs, proofs[0].provider
        earlier = sorted({proof.fence or 0 for proof in proofs} - {self.fence})
        if earlier:
            reason = f"an event of {provider} proves that claim {earlier[0]} sent it as {ref}"
            return Anomalous(f"{reason}, and claim {self.fence} may have sent it again", ref)
        return Succeeded(f"an event of {provider} proves that it was sent as {ref}", ref)

    @property
    def unresolved(self) -> bool:
        """Whether workers or the reconciler still have to end it."""
        return self.status in UNRESOLVED

    @property
    def was_claimed(self) -> bool:
        """Whether any worker ever claimed it."""
        return self.fence > 0

    @property
    def is_forged(self) -> bool:
        """Whether none of our functions wrote its status. A producer may insert any."""
        is_unmarked = all(getattr(self, name) is None for name in OUR_MARKS)
        return is_unmarked and not self.was_claimed and not self.allows(Event.CLAIM)

    @property
    def is_stranded(self) -> bool:
        """Whether its message was dead-lettered, and no worker has claimed or parked it since."""
        return self.waits_for is WaitKind.DEAD_LETTER

    @property
    def takes_other_message(self) -> bool:
        """Whether a message with other values may still become the job's message."""
        return not self.was_claimed and (self.allows(Event.CLAIM) or self.awaits_message)

    @property
    def awaits_second_operator(self) -> bool:
        """Whether an operator asked to send it, and nobody has run or ended it since."""
        changes = [entry.event for entry in self.evidence if entry.from_status != entry.to_status]
        return not self.was_claimed and changes[-1:] == [Event.REQUEST]

    @property
    def awaits_message(self) -> bool:
        """Whether a valid message would run the job, and none may be underway."""
        return self.waits_for in AWAITS_MESSAGE

    @property
    def runs_by_message(self) -> bool:
        """Whether it is in review, and a valid message runs it: certainly nothing was sent.

        The kind of its wait alone is not enough: the row must never have been claimed.
        """
        marked = self.awaits_message and not self.was_claimed
        return marked and self.allows(Event.CLAIM_REVIEW)

    def began_at(self, now: datetime) -> datetime:
        """When it could first run: no wait moves this."""
        return self._not_before_run_at(self.created_at, now)

    @property
    def ages(self) -> bool:
        """Whether the time since its last write is age: it does not wait for what is not."""
        return self.waits_for not in NOT_AGE

    def age_starts_at(self, now: datetime) -> datetime:
        """The start of its age, which a wait moves as it passes, and never beyond now."""
        start = self._not_before_run_at(self.age_from or self.created_at, now)
        return start if self.ages else max(start, min(start + (now - self.updated_at), now))

    def _not_before_run_at(self, at: datetime, now: datetime) -> datetime:
        """The time, or the run time if that has come and is later.

        One in the future does not count: either it is not honored, or nobody needs the age yet.
        """
        return at if self.run_at is None or now < self.run_at else max(at, self.run_at)

    def runs_at(self, now: datetime, schedule_limit: timedelta) -> datetime:
        """When it may run: at its run time, if that is to come and honored, and otherwise now."""
        run_at = self.run_at or now
        return run_at if now < run_at <= latest_run_at(now, schedule_limit) else now

    def runs_later(self, now: datetime, schedule_limit: timedelta) -> bool:
        """Whether its run time is in the future, and its contract honors it."""
        return self.runs_at(now, schedule_limit) > now

    def ignores_run_at(self, now: datetime, schedule_limit: timedelta) -> bool:
        """Whether its run time is further ahead than its contract honors: it may run now."""
        return self.run_at is not None and self.run_at > latest_run_at(now, schedule_limit)

    @property
    def status_since(self) -> datetime:
        """When it entered its status, as far as the row tells."""
        if self.allows(Event.CHECKPOINT) and self.claimed_at is not None:
            return self.claimed_at
        moves = [
            entry.at
            for entry in self.evidence
            if entry.from_status != entry.to_status == self.status
        ]
        # Of a ready row, it is the time of a wait.
        known = self.since if self.status in LISTED or self.ended else None
        return known or (moves[-1] if moves else self.updated_at)

    @property
    def has_ambiguous_send(self) -> bool:
        """Whether an earlier send under the same key has an open outcome."""
        return (
            self.first_sent_at is not None
            and self.claimed_at is not None
            and self.first_sent_at < self.claimed_at
        )

    @property
    def needs_newer_engine(self) -> str | None:
        """Why this engine may not touch it. Returns None if it may."""
        if self.min_engine <= ENGINE_NUMBER:
            return None
        return (
            f"the row of {self.job_key} needs engine {self.min_engine}, and this is engine "
            f"{ENGINE_NUMBER}: deploy the newer version again"
        )

    def allows(self, event: Event) -> bool:
        """Whether the life cycle allows `event` now."""
        return self.status.allows(event)

    def past_max_age(self, max_age: timedelta, now: datetime) -> str | None:
        """Why the job is past its age limit. Returns None if it is not."""
        if now - self.age_starts_at(now) < max_age:
            return None
        return f"the job is older than {max_age}"

    def lease_expired(self, now: datetime) -> bool:
        """Whether the owner is certainly gone. Allows lookups, never effects."""
        return self.lease_until is None or now >= self.lease_until

    @property
    def unrecorded_claim(self) -> EvidenceEntry | None:
        """The last claim, if the evidence does not have it yet: a claim writes no evidence."""
        claims = [entry for entry in self.evidence if entry.event in CLAIMS]
        if self.claimed_at is None or any(
            self.claimed_at in {entry.at, entry.last_at} for entry in claims
        ):
            return None
        enqueued = bool(self.evidence) and self.evidence[0].event is Event.ENQUEUE
        before = Status.READY if enqueued or self.fence > 1 else NO_ROW
        return EvidenceEntry.of_step(
            before, Event.CLAIM, at=self.claimed_at, actor="worker", reason=f"run {self.fence}"
        )

    def apply(
        self, event: Event, *, now: datetime, actor: str, reason: str, **changes: object
    ) -> "JobRow":
        """The job after `event`: the next version, with one more evidence entry."""
        status = next_status(self.status, event)
        entry = EvidenceEntry.of_step(self.status, event, at=now, actor=actor, reason=reason)
        same_wait = self.waits_for if status is self.status else None
        # A claim is one update without a read: what passed since the write before it is age.
        waited = {} if self.ages else {"age_from": self.age_starts_at(now)}
        changes = {"waits_for": same_wait, **waited, **changes}
        changed = {
            "status": status,
            "version": self.version + 1,
            "min_engine": ENGINE_NUMBER,
            "updated_at": now,
            "evidence": self._evidence_with(entry),
            "since": self._since(status, changes["waits_for"], now),
            # What a second operator was asked about is another job then.
            "pending_repair": self.pending_repair if status is self.status else None,
            **{name: _as_stored(name, value) for name, value in changes.items()},
        }
        return replace(self, **changed)  # type: ignore[arg-type]  # a mapping of fields by name

    def _evidence_with(self, entry: EvidenceEntry) -> tuple[EvidenceEntry, ...]:
        """Add an entry. If another claim may follow, record the last one before it is hidden."""
        claim = self.unrecorded_claim
        if claim is None or (entry.to_status, Event.CLAIM) not in TRANSITIONS:
            return append_evidence(self.evidence, entry)
        match self.evidence:
            # The same run again, such as one of many while a provider is down.
            case (*before, EvidenceEntry(event=Event.CLAIM) as run, end) if (
                entry.equals_except_time(end)
            ):
                runs = replace(run.repeated_at(claim.at), reason=f"up to {claim.reason}")
                return (*before, runs, end.repeated_at(entry.at))
        return append_evidence(insert_claim(self.evidence, claim), entry)

    def _since(self, status: Status, waits_for: object, now: datetime) -> datetime | None:
        if status is self.status and (status in LISTED or waits_for is self.waits_for):
            return self.since
        return now if status in LISTED or waits_for else None

    def same_owner_and_status_as(self, row: "JobRow") -> bool:
        """Whether `row` has the same owner and status, so that others only added evidence."""
        return row.owner == self.owner and row.status is self.status


def _as_stored(name: str, value: object) -> object:
    """Round times to the row's milliseconds, and remove ARNs from errors."""
    if name == "last_error" and isinstance(value, str):
        return reason_line(value)
    return truncate_to_milliseconds(value) if isinstance(value, datetime) else value


def new_job(
    job_key: JobKey,
    job_type: str,
    message: Mapping[str, Json],
    *,
    now: datetime,
    due_at: datetime | None,
    actor: str,
    reason: str,
    owner: str | None = None,
    subject: str | None = None,
    run_at: datetime | None = None,
    event: Event = Event.ENQUEUE,
) -> JobRow:
    """The first row of a job, such as a producer writes it before it sends the message.

    `owner` is a fresh token, so that a producer recognizes its own row after a lost response.
    """
    status = next_status(NO_ROW, event)
    return JobRow(
        job_key=job_key,
        job_type=job_type,
        status=status,
        message=message,
        created_at=now,
        updated_at=now,
        since=now if status in LISTED else None,
        due_at=due_at,
        subject=subject,
        owner=owner,
        run_at=run_at,
        evidence=(EvidenceEntry.of_step(NO_ROW, event, at=now, actor=actor, reason=reason),),
    )


def known_values(job: JobRow) -> dict[str, Json]:
    """The values of a job by the names that messages use: of its message, and of its claim."""
    resolved = {name: getattr(job, name) for name in ("amount", "currency", "customer_id")}
    return {**{name: v for name, v in resolved.items() if v is not None}, **job.message}


def is_our_write(row: JobRow, *, before: JobRow, write: JobRow) -> bool:
    """Whether `row` shows that our write over `before` was applied: its response was lost."""
    if row.owner != write.owner or row.version < write.version:
        return False
    if row == write:
        return True
    # Others may have added evidence since, but what we changed must still be there. Our entry, too:
    # two operators may decide the same, and only one of them wrote it.
    if not all(entry in row.evidence for entry in write.evidence[-1:]):
        return False
    # Each write of a row that waits moves the start of its age.
    bookkeeping = {"version", "updated_at", "evidence", "age_from"}
    changed = {
        name
        for name in write.__dataclass_fields__
        if name not in bookkeeping and getattr(write, name) != getattr(before, name)
    }
    if not changed:
        return bool(write.evidence)
    return all(getattr(row, name) == getattr(write, name) for name in changed)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A transition, with the fields it changes."""

    event: Event
    reason: str
    changes: Mapping[str, object] = field(default_factory=dict)
    alert: bool = False  # operators are alerted about this job
    send_new_message: bool = False  # a long job continues with a new message
    run_at: datetime | None = None  # when a job that returns to ready may be retried

    def apply_to(self, job: JobRow, *, now: datetime, actor: str) -> JobRow:
        """The job after this decision. If it needs an alert, it is due until one is delivered."""
        alert_changes = {"due_at": now} if self.alert else {}
        changes = {**self.changes, **alert_changes}
        return job.apply(self.event, now=now, actor=actor, reason=self.reason, **changes)
