"""Acts, once: a reference is saved before it is used, and what a call raises is an answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NoReturn, TypeAlias, TypeVar

from oncely.contract import COMMIT_BUDGET, AnyContract, EffectCall
from oncely.domain.decide import restore_reference, save_progress, save_reference
from oncely.domain.decisions import Decision
from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    LookupFailed,
    LookupUnsupported,
    NotSent,
    Prepared,
    StillOpen,
)
from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.profiles import RetrySafety
from oncely.domain.writes import Json
from oncely.run.deadline import Deadline

_Outcome = TypeVar("_Outcome")
# Writes what a run saves on the way; None: the job has another owner.
SaveCheckpoint: TypeAlias = Callable[[Job, Decision], Job | None]


@dataclass(frozen=True)
class EffectResult:
    """What the provider said, to preparing or to the act; `job` holds what was saved until then."""

    job: Job
    outcome: EffectOutcome


@dataclass(frozen=True)
class OwnershipYielded:
    """The job has another owner: nothing more was sent."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class EffectExecutor:
    """One try of an effect, by the owner of its row."""

    contract: AnyContract
    deadline: Deadline
    save_checkpoint: SaveCheckpoint

    def execute(self, job: Job, facts: Any) -> EffectResult | OwnershipYielded:  # noqa: ANN401  # the contract's own type
        """Save the reference first, if the effect has one; then perform it, once."""
        verified = False
        if job.provider_ref is None:
            match self._guarded_call(self.contract.prepare, self._call(job, facts)):
                case None:
                    pass
                case Prepared(ref=ref, replayed=replayed):
                    saved = self.save_checkpoint(job, save_reference(ref))
                    if saved is None:
                        return OwnershipYielded(
                            f"{ref} was prepared, but the job has another owner"
                        )
                    job, verified = saved, not replayed
                case answer:
                    return EffectResult(job, answer)
        call = self._call(job, facts, verified=verified)
        answer = self._guarded_call(self.contract.execute, call)
        if isinstance(answer, StillOpen):
            answer = self._close_declined(call, answer)
        return EffectResult(call.job, answer)

    def lookup_first(self, job: Job, facts: Any) -> EffectResult | OwnershipYielded:  # noqa: ANN401  # the contract's own type
        """Ask what an earlier run did, if a restore lost it; `NotFound` allows to execute now."""
        if job.provider_ref is None:
            match self._guarded_lookup(self.contract.find_prepared, self._call(job, facts)):
                case None:
                    pass
                case Prepared(ref=ref):
                    if (saved := self.save_checkpoint(job, restore_reference(ref))) is None:
                        return OwnershipYielded(f"{ref} was found, but the job has another owner")
                    job = saved
                case answer:
                    return EffectResult(job, outcome_before_sending(answer))
        answer = self._guarded_lookup(self.contract.lookup, self._call(job, facts))
        return EffectResult(job, outcome_before_sending(answer))

    def close(self, job: Job, facts: Any) -> EffectResult:  # noqa: ANN401  # the contract's own type
        """Close what an earlier run prepared, and do nothing else."""
        return EffectResult(job, self._guarded_call(self.contract.close, self._call(job, facts)))

    def _close_declined(self, call: EffectCall[Any], declined: StillOpen) -> EffectOutcome:
        """Close at once what was declined: only then has the job failed."""
        calls = self.contract.policy.profile.max_closing_calls
        call.verified = True  # a decline names an intent that was seen to be ours
        match self._guarded_call(self.contract.close, call, calls=calls):
            case Declined(result=result):
                return Declined(declined.reason, declined.code, {**declined.result, **result})
            case NotSent() as unsent:
                return replace(declined, close_failure=unsent)
            case answer:
                return answer

    def _call(
        self,
        job: Job,
        facts: Any,  # noqa: ANN401  # the contract's own type
        *,
        verified: bool = False,
    ) -> EffectCall[Any]:
        def save(progress: Mapping[str, Json]) -> None:
            call.job = self.save_checkpoint(
                call.job, save_progress(progress)
            ) or _raise_ownership_lost(call.job)

        call = EffectCall(
            job=job,
            facts=facts,
            max_key_length=self.contract.policy.profile.max_key_length,
            verified=verified,
            has_time_for=self._has_time,
            save_progress=save,
        )
        return call

    def _has_time(self, time: timedelta) -> bool:
        return self.deadline.has_time_for(time + COMMIT_BUDGET)

    def _guarded_lookup(
        self, lookup: Callable[[EffectCall[Any]], _Outcome], call: EffectCall[Any]
    ) -> _Outcome | EffectOutcome:
        """Ask, unless it is too late; nothing is sent, so no answer leaves nothing open."""
        if not self._has_time(self.contract.policy.profile.max_run_time):
            return NotSent("too little time was left to ask the provider", retry_after=timedelta())
        try:
            return lookup(call)
        except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
            return NotSent(f"asking ended in {type(error).__name__}: {error}")

    def _guarded_call(
        self, step: Callable[[EffectCall[Any]], _Outcome], call: EffectCall[Any], *, calls: int = 1
    ) -> _Outcome | EffectOutcome:
        """Call the provider, unless it is too late; whatever it raises is an answer."""
        terms = self.contract.policy
        # A process that was frozen thaws here: its lease may be over, and another may act.
        if not self._has_time(terms.profile.request_timeout * calls):
            return NotSent("too little time was left to call the provider", retry_after=timedelta())
        try:
            return step(call)
        except NotConfiguredError as error:
            # Preparing moves nothing and a natural effect may be repeated; an act may have acted.
            harmless = step == self.contract.prepare or terms.safety is RetrySafety.NATURAL
            return (
                NotSent(str(error), credentials_rejected=True)
                if harmless
                else Ambiguous(str(error))
            )
        except Exception as error:  # noqa: BLE001  # whatever it is, the provider may have acted
            return Ambiguous(f"the call ended in {type(error).__name__}: {error}")


def outcome_before_sending(outcome: EffectOutcome) -> EffectOutcome:
    """What an answer means for a job that has not sent anything in this run."""
    match outcome:
        case LookupFailed(reason=reason, retry_after=retry_after):
            return NotSent(reason, retry_after=retry_after)
        case LookupUnsupported(reason=reason):
            return Anomalous(
                f"the job table was restored, so it may have happened before; {reason}"
            )
        case _:
            return outcome


def _raise_ownership_lost(job: Job) -> NoReturn:
    raise UnavailableError(f"{job.job_key} has another owner: its progress was not saved")
