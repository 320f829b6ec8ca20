"""Acts, once: a reference is saved before it is used, and what a call raises is an answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from oncely.contract import AnyContract, EffectCall
from oncely.domain.decisions import restore_reference, save_progress, save_reference
from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    Json,
    LookupFailed,
    LookupUnsupported,
    NotSent,
    Prepared,
    StillOpen,
)
from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.jobs import Decision, Job
from oncely.domain.profiles import COMMIT_BUDGET, RetrySafety
from oncely.run.write_decision import DecisionWriter

_Outcome = TypeVar("_Outcome")
_OTHER_OWNER: Final = "the job has another owner"


@dataclass(frozen=True)
class OwnershipYielded:
    """Another owner took the job: nothing more was sent."""

    reason: str


@dataclass(kw_only=True)
class EffectExecutor:
    """One attempt of an effect by the owner of the row; `job` is the row as last saved."""

    job: Job
    facts: Any  # the contract's own type
    contract: AnyContract
    writer: DecisionWriter
    deadline: datetime

    def execute(self) -> EffectOutcome | OwnershipYielded:
        """Save the reference first, if the effect has one; then perform it, once."""
        verified = False
        if self.job.provider_ref is None:
            match self._guarded_call(self.contract.prepare, self._call()):
                case None:
                    pass
                case Prepared(ref=ref, replayed=replayed):
                    if not self._save(save_reference(ref)):
                        return OwnershipYielded(f"{ref} was prepared, but {_OTHER_OWNER}")
                    verified = not replayed
                case outcome:
                    return outcome
        call = self._call(verified=verified)
        outcome = self._guarded_call(self.contract.execute, call)
        return self._close_declined(outcome) if isinstance(outcome, StillOpen) else outcome

    def lookup_first(self) -> EffectOutcome | OwnershipYielded:
        """Look up what an earlier run did, if a restore lost it; `NotFound` allows to execute."""
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

    def close(self) -> EffectOutcome:
        """Close what an earlier run prepared, and do nothing else."""
        return self._guarded_call(self.contract.close, self._call())

    def _close_declined(self, declined: StillOpen) -> EffectOutcome:
        """Close at once what was declined: only then has the job failed."""
        calls = self.contract.policy.profile.max_closing_calls
        call = self._call(verified=True)  # a decline names an intent that was seen to be ours
        match self._guarded_call(self.contract.close, call, calls=calls):
            case Declined(result=result):
                return Declined(declined.reason, declined.code, {**declined.result, **result})
            case NotSent() as unsent:
                return replace(declined, close_failure=unsent)
            case outcome:
                return outcome

    def _call(self, *, verified: bool = False) -> EffectCall[Any]:
        return EffectCall(
            job=self.job,
            facts=self.facts,
            max_key_length=self.contract.policy.profile.max_key_length,
            verified=verified,
            has_time_for=self._has_time,
            save_progress=self._save_progress,
        )

    def _save(self, decision: Decision) -> bool:
        """Save on the way. Returns False if another owner took the job."""
        saved = self.writer.write(self.job, decision, contract=self.contract).job
        self.job = saved or self.job
        return saved is not None

    def _save_progress(self, progress: Mapping[str, Json]) -> None:
        if not self._save(save_progress(progress)):
            raise UnavailableError(
                f"{self.job.job_key} has another owner: its progress was not saved"
            )

    def _has_time(self, duration: timedelta) -> bool:
        return self.writer.clock.now() + duration + COMMIT_BUDGET <= self.deadline

    def _guarded_lookup(
        self, lookup: Callable[[EffectCall[Any]], _Outcome]
    ) -> _Outcome | EffectOutcome:
        """Look up, unless it is too late; nothing is sent, so no answer leaves nothing open."""
        if not self._has_time(self.contract.policy.profile.max_run_time):
            return NotSent("too little time was left to ask the provider", retry_after=timedelta())
        try:
            return lookup(self._call())
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
    if isinstance(outcome, LookupFailed):
        return NotSent(outcome.reason, retry_after=outcome.retry_after)
    if isinstance(outcome, LookupUnsupported):
        return Anomalous(
            f"the job table was restored, so it may have happened before; {outcome.reason}"
        )
    return outcome
