"""The record of one job, its evidence, and how a decision changes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from oncely.domain.actors import display_name, is_operator
from oncely.domain.effect_outcomes import Json
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import (
    ATTENTION,
    ENDED,
    NO_ROW,
    TRANSITIONS,
    UNRESOLVED,
    Event,
    Status,
    next_status,
)
from oncely.domain.text import single_line, truncate_to_milliseconds

# Bounds the row far below DynamoDB's 400 kB; each entry is bounded as well.
MAX_EVIDENCE_ENTRIES: Final = 100

# Clocks of two execution environments may differ by this much; a lease outlives it on both sides.
CLOCK_SKEW: Final = timedelta(seconds=2)
# Longer than a year, so that a yearly replay or audit still finds the row.
PROOF_RETENTION: Final = timedelta(days=400)
# "Was I charged twice?" is asked years later.
MONEY_RETENTION: Final = timedelta(days=7 * 365)
# The stream publishes within seconds. A sweep publishes what it missed after this time.
PUBLISH_GRACE: Final = timedelta(minutes=5)
# A version that was rolled back is redeployed within this time, or never.
ROLLBACK_GRACE: Final = timedelta(days=1)


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

    @property
    def actor_name(self) -> str:
        """The actor's display name."""
        return display_name(self.actor)

    @property
    def is_operator_note(self) -> bool:
        """Whether an operator did something that changed no status: it proves nothing."""
        return self.from_status == self.to_status and is_operator(self.actor)

    def equals_except_time(self, other: "EvidenceEntry") -> bool:
        """Whether the two differ only in time."""
        return replace(self, at=other.at, count=other.count, last_at=other.last_at) == other


@dataclass(frozen=True, kw_only=True)
class Job:
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
    attempts: int = 0  # claims that may have called; one that sent nothing is given back
    timeouts: int = 0  # ambiguous outcomes in a row
    unreachable: int = 0  # times in a row that the provider could not be reached
    paused_seconds: int = 0  # how long providers asked us to wait, which is not age
    key_number: int = 1  # raised only when absence is proved
    key_scope: str | None = None
    deployment: str | None = None  # the identity of the deployment that first claimed it
    first_sent_at: datetime | None = None  # first send under this key number that is still open
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    due_at: datetime | None = None
    fingerprint: str | None = None
    since: datetime | None = None  # when it entered a status that operators act on
    subject: str | None = None  # the business id that people search by
    customer_id: str | None = None
    amount: int | None = None  # in minor units of `currency`
    currency: str | None = None
    provider_ref: str | None = None
    result: Mapping[str, Json] | None = None
    # Set if the provider declined but something is still open: the next run only closes that.
    closing: Mapping[str, Json] | None = None
    progress: Mapping[str, Json] | None = None  # how far a long job got
    last_error: str | None = None
    stranded_fence: int | None = None  # the fence when its message was last dead-lettered
    stranded_since: datetime | None = None  # and since when no worker has claimed it
    reopened_at: datetime | None = None  # when an operator reopened it: its age restarts
    evidence: tuple[EvidenceEntry, ...] = field(default=())
    expires_at: datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether it is finished or failed."""
        return self.status in ENDED

    @property
    def unresolved(self) -> bool:
        """Whether workers or the reconciler still have to end it."""
        return self.status in UNRESOLVED

    @property
    def was_claimed(self) -> bool:
        """Whether any worker ever claimed it."""
        return self.fence > 0

    @property
    def age_starts_at(self) -> datetime:
        """From when its age counts. Reopening restarts it, and a provider's pause moves it."""
        return (self.reopened_at or self.created_at) + timedelta(seconds=self.paused_seconds)

    @property
    def status_since(self) -> datetime:
        """When it entered its status, as far as the row tells."""
        if self.status is Status.STARTED and self.claimed_at is not None:
            return self.claimed_at
        moves = [
            entry.at
            for entry in self.evidence
            if entry.from_status != entry.to_status == self.status
        ]
        return self.since or (moves[-1] if moves else self.updated_at)

    @property
    def has_ambiguous_send(self) -> bool:
        """Whether an earlier send under the same key has an open outcome."""
        return (
            self.first_sent_at is not None
            and self.claimed_at is not None
            and self.first_sent_at < self.claimed_at
        )

    def allows(self, event: Event) -> bool:
        """Whether the life cycle allows `event` now."""
        return (self.status, event) in TRANSITIONS

    def past_max_age(self, max_age: timedelta, now: datetime) -> str | None:
        """Why the job is past its age limit. Returns None if it is not."""
        if now - self.age_starts_at < max_age:
            return None
        return f"the job is older than {max_age}"

    def lease_expired(self, now: datetime) -> bool:
        """Whether the owner is certainly gone. Allows lookups, never effects."""
        return self.lease_until is None or now >= self.lease_until

    def apply(
        self, event: Event, *, now: datetime, actor: str, reason: str, **changes: object
    ) -> "Job":
        """The job after `event`: the next version, with one more evidence entry."""
        status = next_status(self.status, event)
        entry = EvidenceEntry(
            at=now,
            event=event,
            from_status=self.status,
            to_status=status,
            reason=single_line(reason),
            actor=actor,
        )
        changed = {
            "status": status,
            "version": self.version + 1,
            "updated_at": now,
            "evidence": append_evidence(self.evidence, entry),
            "since": self._since(status, now),
            **{name: _as_stored(value) for name, value in changes.items()},
        }
        return replace(self, **changed)  # type: ignore[arg-type]  # a mapping of fields by name

    def _since(self, status: Status, now: datetime) -> datetime | None:
        if status is self.status:
            return self.since
        return now if status in ATTENTION else None

    def same_owner_and_status_as(self, row: "Job") -> bool:
        """Whether `row` has the same owner and status, so others at most added evidence."""
        return row.owner == self.owner and row.status is self.status


def _as_stored(value: object) -> object:
    """Jitter makes times finer than the milliseconds that a row holds."""
    return truncate_to_milliseconds(value) if isinstance(value, datetime) else value


def append_evidence(
    evidence: tuple[EvidenceEntry, ...], entry: EvidenceEntry
) -> tuple[EvidenceEntry, ...]:
    """Add an entry. Equal entries in a row are counted; operator notes make room first."""
    if evidence and entry.equals_except_time(evidence[-1]):
        last = evidence[-1]
        return (*evidence[:-1], replace(last, count=last.count + 1, last_at=entry.at))
    longer = (*evidence, entry)
    if len(longer) <= MAX_EVIDENCE_ENTRIES:
        return longer
    # The first entry tells how the job began, and the last what happens now, so both stay.
    middle = range(1, len(longer) - 1)
    dropped = next((place for place in middle if longer[place].is_operator_note), middle[0])
    return (*longer[:dropped], *longer[dropped + 1 :])


def new_job(
    job_key: JobKey,
    job_type: str,
    message: Mapping[str, Json],
    *,
    now: datetime,
    due_at: datetime,
    actor: str,
    reason: str,
    owner: str | None = None,
    subject: str | None = None,
) -> Job:
    """The row that a producer or the reconciler writes before it sends the message.

    `owner` is a fresh token, so that a producer recognizes its own row after a lost response.
    """
    status = next_status(NO_ROW, Event.ENQUEUE)
    entry = EvidenceEntry(
        at=now,
        event=Event.ENQUEUE,
        from_status=NO_ROW,
        to_status=status,
        reason=reason,
        actor=actor,
    )
    return Job(
        job_key=job_key,
        job_type=job_type,
        status=status,
        message=message,
        created_at=now,
        updated_at=now,
        due_at=due_at,
        subject=subject,
        owner=owner,
        evidence=(entry,),
    )


def is_our_write(row: Job, *, before: Job, write: Job) -> bool:
    """Whether `row` shows that our write over `before` was applied: its response was lost."""
    if row.owner != write.owner or row.version < write.version:
        return False
    if row == write:
        return True
    # Others may have added evidence since, but everything else we changed must still be there.
    bookkeeping = {"version", "updated_at", "evidence"}
    changed = {
        name
        for name in write.__dataclass_fields__
        if name not in bookkeeping and getattr(write, name) != getattr(before, name)
    }
    if not changed:
        return bool(write.evidence) and write.evidence[-1] in row.evidence
    return all(getattr(row, name) == getattr(write, name) for name in changed)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A transition, with the fields it changes."""

    event: Event
    reason: str
    changes: Mapping[str, object] = field(default_factory=dict)
    alert: bool = False  # operators are alerted about this job
    credentials_rejected: bool = False  # affects every job of the provider: one alarm, not many
    resend_when_due: bool = False  # the wait is long: the row becomes due and resends the message
    send_new_message: bool = False  # a long job continues with a new message
    run_at: datetime | None = None  # when a job that returns to ready may be retried

    def apply_to(self, job: Job, *, now: datetime, actor: str) -> Job:
        """The job after this decision. If it needs an alert, it is due until one is delivered."""
        alert_changes = {"due_at": now} if self.alert else {}
        changes = {**self.changes, **alert_changes}
        return job.apply(self.event, now=now, actor=actor, reason=self.reason, **changes)


def finalize_if_ended(
    before: Job, after: Job, *, retention: timedelta, must_publish: bool, now: datetime
) -> Job:
    """Give a job that ends with this write its expiry, or leave it due if it must publish first.

    Its due time stays, so that the index entry does not move. Publishing sets the expiry.
    """
    if before.ended or not after.ended:
        return after
    if must_publish:
        return replace(after, due_at=after.due_at or now + PUBLISH_GRACE, expires_at=None)
    return replace(after, due_at=None, expires_at=expiry_time(now, retention))


def awaits_publishing(job: Job) -> bool:
    """Whether an ended job may have follow-ups or an event to send."""
    return job.ended and job.due_at is not None


def mark_published(job: Job, *, retention: timedelta, now: datetime) -> Job:
    """The row after everything was published: it may expire. Adds no evidence."""
    return replace(
        job, version=job.version + 1, due_at=None, expires_at=expiry_time(now, retention)
    )


def publishable_without_follow_ups(job: Job, now: datetime) -> bool:
    """Whether an ended job of an unknown contract may expire without its follow-ups.

    An operator resolved it, or the version that knows them was not redeployed for a day.
    """
    moves = [entry.event for entry in job.evidence if entry.from_status != entry.to_status]
    return moves[-1:] in ([Event.RESOLVE_FINISHED], [Event.RESOLVE_FAILED]) or (
        now - job.updated_at >= ROLLBACK_GRACE
    )


def expiry_time(now: datetime, retention: timedelta) -> datetime:
    """When a row that ends now expires."""
    # Whole seconds, as the row stores them: a lost response must still match the row.
    return (now + retention).replace(microsecond=0)
