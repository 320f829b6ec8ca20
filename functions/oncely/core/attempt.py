"""One attempt at a job: executes its effect once, and writes each decision to the row."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar, assert_never

from oncely.core.decide import (
    on_business_conflict,
    on_late_outcome,
    outcome_before_sending,
    restore_reference,
    save_progress,
    save_reference,
)
from oncely.core.due import reserve_alert
from oncely.core.effect_outcomes import (
    Ambiguous,
    BusinessWrite,
    Declined,
    EffectOutcome,
    Json,
    LookupOutcome,
    NotFound,
    NotSent,
    Prepared,
    Reserved,
    StillOpen,
    Succeeded,
)
from oncely.core.ended_jobs import MONEY_RETENTION, finalize_if_ended
from oncely.core.errors import (
    GateClosedError,
    InvariantError,
    NotConfiguredError,
    UnavailableError,
)
from oncely.core.job_row import NO_PROVIDER, UNCONFIRMED, Decision, JobRow
from oncely.core.job_type import AnyJobType, Call
from oncely.core.lifecycle import ENDING, Event
from oncely.core.profiles import COMMIT_BUDGET, RetrySafety
from oncely.core.schedule import Clock
from oncely.core.store import BusinessWriteConflict, JobStore, Swapped, SwapResult, VersionConflict
from oncely.core.surroundings import Alerter, GatedContract, JobGate

_Outcome = TypeVar("_Outcome")
# No hold of a job this young matters to any limit, so an ordinary run need not read its gate again.
_YOUNG: Final = timedelta(minutes=1)
_OTHER_OWNER: Final = "the job has another owner"
# Each retry lost a race with a writer that added to the row. Such races are rare, so a few retries
# are enough.
_MAX_TRIES: Final = 5


# What to do about a row, or None if nothing is left to do. Whoever loses a swap decides again.
Decide: TypeAlias = Callable[[JobRow], Decision | None]
# The business writes of an event, for the row after it.
Writes: TypeAlias = Callable[[Event, JobRow], Sequence[BusinessWrite]]
# Reads a business row by the short name of its table and its key.
ReadBusinessRow: TypeAlias = Callable[[str, Mapping[str, str]], Mapping[str, object] | None]


@dataclass(frozen=True)
class DecisionResult:
    """What was decided, and the row after the write. `job` is None if others decided first."""

    decision: Decision | None  # None if nothing was left to do
    job: JobRow | None
    orphaned_outcome: str | None = None  # a definite outcome whose row is gone


def only_for(row: JobRow, decision: Decision) -> Decide:
    """A decision about exactly this row. Once it has changed, the next sweep decides."""
    return lambda newer: decision if newer == row else None


def exclude_holds(job: JobRow, contract: GatedContract, gate: JobGate, now: datetime) -> JobRow:
    """The job, to decide about: the time in which its gate held it is not in its age.

    It may have waited in its queue, or as unknown. What its row waits is not counted again.
    """
    until = now if job.ages else job.updated_at
    since = job.age_starts_at(until)
    if until - since < _YOUNG:
        return job
    held = gate.held_time(contract, since=since, until=until)
    return replace(job, age_from=since + held) if held else job


def no_business_writes(_event: Event, _after: JobRow) -> Sequence[BusinessWrite]:
    """Change no business row."""
    return ()


@dataclass(frozen=True, kw_only=True)
class DecisionWriter:
    """Writes decisions to rows.

    Without an alerter a review stays due, and the caller of the next step alerts operators.
    """

    store: JobStore
    clock: Clock
    actor: str
    alerter: Alerter | None = None
    row_retention: timedelta | None = None  # of the stage, for natural effects
    gate: JobGate | None = None  # of a run or a lookup
    # Of a dry run: nothing is written, and business writes are compared with these rows.
    dry_run_reader: ReadBusinessRow | None = None

    def write(
        self,
        job: JobRow,
        decide: Decide,
        *,
        contract: AnyJobType | None = None,
        outcome: EffectOutcome | LookupOutcome | None = None,
        business_writes: Writes = no_business_writes,
    ) -> DecisionResult:
        """Write what `decide` says about the row, also if others have added to it since.

        If another owner has the row, or its status changed, keep a definite outcome as evidence.
        """
        row = job
        for _ in self.tries(job, ends=isinstance(outcome, Succeeded | Declined)):
            if (decision := decide(row)) is None:
                return DecisionResult(None, None)
            decision, swapped = self._swap_or_escalate(row, decision, contract, business_writes)
            if isinstance(swapped, Swapped):
                self._deliver_alert(decision, swapped.job)
                return DecisionResult(decision, swapped.job)
            if swapped.row is None or not job.same_owner_and_status_as(swapped.row):
                may_fail_later = contract is not None and contract.policy.may_fail_later
                frees = business_writes if may_fail_later else no_business_writes
                lost = self._save_as_evidence(swapped.row, job, outcome, frees=frees)
                return DecisionResult(decision, None, lost)
            row = swapped.row
        raise _too_many_conflicts(job)

    def tries(self, job: JobRow, *, ends: bool) -> Iterator[int]:
        """A few tries, and for an owner that ends its job as many as its commit budget allows."""
        until = self.clock.now() + COMMIT_BUDGET
        is_owner = job.allows(Event.RELEASE)
        for number in count():
            if number >= _MAX_TRIES and not (ends and is_owner and self.clock.now() < until):
                return
            yield number

    def _swap_or_escalate(
        self,
        job: JobRow,
        decision: Decision,
        contract: AnyJobType | None,
        business_writes: Writes,
    ) -> tuple[Decision, Swapped | VersionConflict]:
        """Write a decision; if a business row refuses it, write what that means for the job."""
        after = self.row_after(decision, job, contract)
        swapped = self._swap(job, after, business_writes(decision.event, after))
        if not isinstance(swapped, BusinessWriteConflict):
            return decision, swapped
        now = self.clock.now()
        aged = exclude_holds(job, contract, self.gate, now) if self.gate and contract else job
        decision = on_business_conflict(
            aged,
            None if contract is None else contract.policy,
            decision,
            reason=swapped.reason,
            now=now,
            is_permanent=swapped.is_permanent,
        )
        swapped = self._swap(job, self.row_after(decision, job, contract), ())
        if isinstance(swapped, BusinessWriteConflict):
            raise InvariantError(f"{job.job_key} has no business writes here: {swapped.reason}")
        return decision, swapped

    def _swap(self, job: JobRow, after: JobRow, writes: Sequence[BusinessWrite]) -> SwapResult:
        if self.dry_run_reader is not None:
            return would_swap(after, writes, self.dry_run_reader)
        return self.store.swap(job, after, business_writes=writes)

    def row_after(
        self, decision: Decision, job: JobRow, contract: AnyJobType | None = None
    ) -> JobRow:
        """The row after a decision. The same write reserves the alert, if we send it."""
        now = self.clock.now()
        after = row_after(
            decision, job, contract, now=now, actor=self.actor, row_retention=self.row_retention
        )
        return reserve_alert(after, now) if decision.alert and self.alerter else after

    def _deliver_alert(self, decision: Decision, written: JobRow) -> None:
        if decision.alert and self.alerter:
            self.alerter.deliver(written)

    def _save_as_evidence(
        self,
        row: JobRow | None,
        job: JobRow,
        outcome: EffectOutcome | LookupOutcome | None,
        *,
        frees: Writes,
    ) -> str | None:
        """Add a definite outcome to the row as evidence. Returns the outcome if there is no row.

        `frees` are the writes of an effect that failed after it had succeeded.
        """
        if not isinstance(outcome, Succeeded | Declined):
            return None
        for _ in range(_MAX_TRIES):
            if row is None:
                # Never create a row here: one without its history would block the key forever.
                return f"its row is gone, and now: {outcome.reason}"
            decision = on_late_outcome(row, outcome, fence=job.fence)
            after = self.row_after(decision, row)
            failed_later = decision.event is Event.CONTRADICT and isinstance(outcome, Declined)
            writes = frees(Event.DECLINE, after) if failed_later else ()
            match self.store.swap(row, after, business_writes=writes):
                case VersionConflict(row=newer):
                    row = newer
                case BusinessWriteConflict() if writes:
                    frees = no_business_writes
                case Swapped(job=written):
                    self._deliver_alert(decision, written)
                    return None
                case BusinessWriteConflict(reason=why):
                    raise InvariantError(f"{job.job_key} has no business writes here: {why}")
                case unreachable:
                    assert_never(unreachable)
        raise _too_many_conflicts(job)


def would_swap(after: JobRow, writes: Iterable[BusinessWrite], read: ReadBusinessRow) -> SwapResult:
    """What a swap of the row that was just read would return. Writes nothing."""
    refused = [str(one) for one in writes if not one.applies_to(read(one.table, one.key))]
    return BusinessWriteConflict(", ".join(refused)) if refused else Swapped(after)


def _too_many_conflicts(job: JobRow) -> UnavailableError:
    return UnavailableError(f"the row of {job.job_key} kept changing; it is retried later")


def row_after(
    decision: Decision,
    row: JobRow,
    contract: AnyJobType | None,
    *,
    now: datetime,
    actor: str,
    row_retention: timedelta | None,
) -> JobRow:
    """The row after a decision, with an expiry or something to publish if it ends the job.

    A job of an unknown contract has nothing to publish that we know of, and stays the longest.
    """
    after = decision.apply_to(row, now=now, actor=actor)
    if decision.event not in ENDING:
        return after
    retention = MONEY_RETENTION if contract is None else contract.effective_retention(row_retention)
    owes = contract is not None and _has_follow_ups(contract, after)
    if contract is not None and contract.publishes_events:
        # Later writes must not give the event a second identity.
        after = replace(after, ended_version=after.version)
    return finalize_if_ended(row, after, retention=retention, must_publish=owes, now=now)


def _has_follow_ups(contract: AnyJobType, job: JobRow) -> bool:
    try:
        return contract.publishes_events or bool(contract.follow_ups(job))
    except Exception:  # noqa: BLE001  # the effect happened: its end is written in any case
        return True  # the publisher reports the same error until it is fixed


@dataclass(frozen=True)
class OwnershipYielded:
    """Another owner claimed the job: nothing more was sent."""

    reason: str


@dataclass(kw_only=True)
class EffectExecutor:
    """One attempt of an effect by the owner of the row; `job` is the row as last saved."""

    job: JobRow
    facts: Any  # the contract's own type
    contract: AnyJobType
    writer: DecisionWriter
    deadline: datetime
    gate: JobGate
    tag_key: str = field(default="", repr=False)

    def execute(self) -> EffectOutcome | OwnershipYielded:
        """Save the reference first, if the effect has one; then perform it, once."""
        verified = False
        if self.job.provider_ref is None:
            match self._guarded_call(self.contract.prepare, self._call()):
                case None:
                    pass
                case Reserved() as reserved:
                    if (refusal := self._reserve(reserved)) is not None:
                        return refusal
                case Prepared(ref=ref, replayed=replayed):
                    if not self._save(save_reference(ref)):
                        return OwnershipYielded(f"{ref} was prepared, but {_OTHER_OWNER}")
                    verified = not replayed
                case outcome:
                    return outcome
        call = self._call(verified=verified)
        outcome = self._guarded_call(self.contract.execute, call)
        return self._close_declined(outcome) if isinstance(outcome, StillOpen) else outcome

    def lookup_first(self) -> EffectOutcome | NotFound | OwnershipYielded:
        """Look up what an earlier run did, if a restore lost it. `NotFound` permits the effect."""
        if self.job.provider_ref is None:
            match self._guarded_lookup(self.contract.find_prepared):
                case None:
                    pass
                case Prepared(ref=ref):
                    if not self._save(restore_reference(ref)):
                        return OwnershipYielded(f"{ref} was found, but {_OTHER_OWNER}")
                case outcome:
                    return outcome_before_sending(outcome)
        return outcome_before_sending(self._guarded_lookup(self.contract.lookup))

    def confirm(self, claimed: Succeeded) -> EffectOutcome:
        """Ask about what the business rows call done. Money by their word alone has a code."""
        answer = outcome_before_sending(
            self._guarded_lookup(
                lambda call: self.contract.confirm(call, claimed),
                duration=self.contract.policy.profile.request_timeout,
            )
        )
        if isinstance(answer, NotFound):
            return Ambiguous(answer.reason)
        if answer != claimed or not self.contract.moves_money():
            return answer
        reason = f"{claimed.reason}; {NO_PROVIDER}"
        return replace(claimed, reason=reason, result={**claimed.result, "code": UNCONFIRMED})

    def close(self) -> EffectOutcome:
        """Close what an earlier run prepared, and do nothing else."""
        return self._guarded_call(self.contract.close, self._call())

    def _close_declined(self, declined: StillOpen) -> EffectOutcome:
        """Close the declined effect now: only then has the job failed."""
        calls = self.contract.policy.profile.max_closing_calls
        call = self._call(verified=True)  # a decline has a reference that was verified
        match self._guarded_call(self.contract.close, call, calls=calls):
            case Declined(result=result):
                return Declined(declined.reason, declined.code, {**declined.result, **result})
            case NotSent() as unsent:
                return replace(declined, close_failure=unsent)
            case outcome:
                return outcome

    def _call(self, *, verified: bool = False) -> Call[Any]:
        return self.contract.new_call(
            self.job,
            self.facts,
            verified=verified,
            tag_key=self.tag_key,
            has_time_for=self._has_time,
            save_progress=self._save_progress,
        )

    def _save(self, decision: Decision) -> bool:
        """Save progress. Returns False if another owner claimed the job."""
        saved = self.writer.write(self.job, lambda _: decision, contract=self.contract).job
        self.job = saved or self.job
        return saved is not None

    def _reserve(self, reserved: Reserved) -> EffectOutcome | OwnershipYielded | None:
        """Make the writes, as the owner. Returns None if they were made."""
        decision = Decision(event=Event.CHECKPOINT, reason=reserved.reason)
        for _ in self.writer.tries(self.job, ends=True):
            after = self.writer.row_after(decision, self.job, self.contract)
            match self.writer.store.swap(self.job, after, business_writes=reserved.writes):
                case Swapped(job=job):
                    self.job = job
                    return None
                case BusinessWriteConflict(reason=why):
                    # Others wrote it first. The next run decides on what it reads.
                    return NotSent(f"{why} changed before the effect", retry_after=timedelta())
                case VersionConflict(row=JobRow() as row) if self.job.same_owner_and_status_as(row):
                    self.job = row
                case VersionConflict():
                    reason = f"{reserved.reason} was not written: {_OTHER_OWNER}"
                    return OwnershipYielded(reason)
                case unreachable:
                    assert_never(unreachable)
        return NotSent(f"{reserved.reason} was not written: the row kept changing")

    def _save_progress(self, progress: Mapping[str, Json]) -> None:
        if not self._save(save_progress(progress)):
            raise UnavailableError(
                f"{self.job.job_key} has another owner: its progress was not saved"
            )

    def _has_time(self, duration: timedelta) -> bool:
        return self.writer.clock.now() + duration + COMMIT_BUDGET <= self.deadline

    def _guarded_lookup(
        self,
        lookup: Callable[[Call[Any]], _Outcome],
        *,
        duration: timedelta | None = None,  # by default, the effect may follow
    ) -> _Outcome | NotSent:
        """Look up, unless not enough time is left. A failed lookup leaves nothing open."""
        if not self._has_time(duration or self.contract.policy.profile.max_run_time):
            return NotSent("not enough time was left to look it up", retry_after=timedelta())
        try:
            return lookup(self._call())
        except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
            return NotSent(f"the lookup failed with {type(error).__name__}: {error}")

    def _guarded_call(
        self, step: Callable[[Call[Any]], _Outcome], call: Call[Any], *, calls: int = 1
    ) -> _Outcome | EffectOutcome:
        """Call the provider, unless not enough time is left. Exceptions become outcomes."""
        terms = self.contract.policy
        # A frozen process may thaw here after its lease expired, when another may execute.
        if not self._has_time(terms.profile.request_timeout * calls):
            return NotSent("not enough time was left to call the provider", retry_after=timedelta())
        if (hold := self.gate.hold(self.contract)) is not None:
            return NotSent(hold.reason, held_until=hold.until)
        try:
            return step(call)
        except (GateClosedError, NotConfiguredError, UnavailableError) as error:
            rejected = isinstance(error, NotConfiguredError)
            # Preparing has no effect, and a natural effect may be repeated.
            unsent = rejected or isinstance(error, GateClosedError)
            natural = unsent and terms.safety is RetrySafety.NATURAL
            if step == self.contract.prepare or natural:
                return NotSent(str(error), credentials_rejected=rejected)
            return Ambiguous(str(error))
        except Exception as error:  # noqa: BLE001  # whatever it is, the effect may have happened
            return Ambiguous(f"the call ended in {type(error).__name__}: {error}")
