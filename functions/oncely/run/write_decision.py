"""Writes a decision to the row, and sees through what can happen to that write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, assert_never

from oncely.contract import AnyContract
from oncely.domain.decisions import on_business_conflict, on_late_outcome
from oncely.domain.due import reserve_alert
from oncely.domain.effect_outcomes import BusinessWrite, Declined, EffectOutcome, Succeeded
from oncely.domain.errors import InvariantError, UnavailableError
from oncely.domain.jobs import MONEY_RETENTION, Decision, Job, finalize_if_ended
from oncely.ports import BusinessWriteConflict, Clock, JobStore, Swapped, VersionConflict
from oncely.run.review_alerts import ReviewAlerter

# Each round was lost to someone who added evidence in that very moment; that does not go on.
_MAX_CAS_RETRIES: Final = 5


@dataclass(frozen=True)
class DecisionResult:
    """What stands in the row now; None for `job` when it is not ours to say."""

    decision: Decision
    job: Job | None
    orphaned_outcome: str | None = None  # a definite answer that no row could take: its row is gone


@dataclass(frozen=True, kw_only=True)
class DecisionWriter:
    """The one way a decision reaches a row.

    Without a teller a review is left due: whoever runs the next step tells a person.
    """

    store: JobStore
    clock: Clock
    actor: str
    alerter: ReviewAlerter | None = None
    row_retention: timedelta | None = None  # the stage's, for natural effects

    def write(
        self,
        job: Job,
        decision: Decision,
        *,
        contract: AnyContract | None = None,
        outcome: EffectOutcome | None = None,
        business_writes: Callable[[Job], Sequence[BusinessWrite]] = lambda _: (),
    ) -> DecisionResult:
        """Write `decision`; if the row was lost meanwhile, keep a definite answer as evidence."""
        for _ in range(_MAX_CAS_RETRIES):
            after = self._row_after(decision, job, contract)
            match self.store.compare_and_swap(job, after, business_writes=business_writes(after)):
                case Swapped(job=written):
                    self._deliver_alert(decision, written)
                    return DecisionResult(decision, written)
                case BusinessWriteConflict(reason=why):
                    terms = None if contract is None else contract.policy
                    decision = on_business_conflict(
                        job, terms, decision, reason=why, now=self.clock.now()
                    )
                    business_writes = _no_business_writes
                case VersionConflict(row=row) if row is not None and job.same_owner_and_status_as(
                    row
                ):
                    job = row  # someone left evidence on it: decide the same over that
                case VersionConflict(row=row):
                    return DecisionResult(decision, None, self._save_as_evidence(row, job, outcome))
                case unreachable:
                    assert_never(unreachable)
        raise _too_many_conflicts(job)

    def _row_after(self, decision: Decision, job: Job, contract: AnyContract | None = None) -> Job:
        """The row after a decision; if we tell of it, the same write takes the right to."""
        now = self.clock.now()
        after = apply_retention(
            job,
            decision.apply_to(job, now=now, actor=self.actor),
            contract,
            row_retention=self.row_retention,
            now=now,
        )
        return reserve_alert(after, now) if decision.alert and self.alerter else after

    def _deliver_alert(self, decision: Decision, written: Job) -> None:
        if decision.alert and self.alerter:
            self.alerter.deliver(written)

    def _save_as_evidence(
        self, row: Job | None, job: Job, outcome: EffectOutcome | None
    ) -> str | None:
        """Add a definite answer to whatever stands in the row; gives it back if there is none."""
        if not isinstance(outcome, Succeeded | Declined):
            return None
        for _ in range(_MAX_CAS_RETRIES):
            if row is None:
                # Never make a row here: one without its history would block the key for good.
                return f"its row is gone, and now: {outcome.reason}"
            decision = on_late_outcome(row, outcome, fence=job.fence)
            after = self._row_after(decision, row)
            match self.store.compare_and_swap(row, after):
                case VersionConflict(row=newer):
                    row = newer
                case Swapped(job=written):
                    self._deliver_alert(decision, written)
                    return None
                case BusinessWriteConflict(reason=why):
                    raise InvariantError(f"{job.job_key} has no business writes here: {why}")
                case unreachable:
                    assert_never(unreachable)
        raise _too_many_conflicts(job)


def _too_many_conflicts(job: Job) -> UnavailableError:
    return UnavailableError(
        f"the row of {job.job_key} changed {_MAX_CAS_RETRIES} times while it was being written"
    )


def _no_business_writes(_: Job) -> Sequence[BusinessWrite]:
    return ()


def apply_retention(
    before: Job,
    after: Job,
    contract: AnyContract | None,
    *,
    row_retention: timedelta | None,
    now: datetime,
) -> Job:
    """The row that a decision leads to; every path that can end a job writes this one.

    A job of a contract that is not known here owes nothing that we know, and stays the longest.
    """
    if not after.ended:
        return after
    retention = MONEY_RETENTION if contract is None else contract.effective_retention(row_retention)
    owes = contract is not None and _has_follow_ups(contract, after)
    return finalize_if_ended(before, after, retention=retention, must_publish=owes, now=now)


def _has_follow_ups(contract: AnyContract, job: Job) -> bool:
    try:
        return contract.publishes_events or bool(contract.follow_ups(job))
    except Exception:  # noqa: BLE001  # the effect is done: its end is written, whatever follows it
        return True  # the publisher meets the same error, and says so until it is fixed
