"""Acts, once: a reference is saved before it is used, and what a call raises is an answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NoReturn, TypeAlias, TypeVar

from oncely.contract import COMMIT_BUDGET, AnyContract, Call
from oncely.domain.answers import (
    Answer,
    CannotAsk,
    NotSent,
    Odd,
    Prepared,
    Refused,
    StillOpen,
    Unclear,
    Unreachable,
)
from oncely.domain.decide import found_again, prepared, progressed
from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.moves import Decision
from oncely.domain.profiles import Safety
from oncely.domain.writes import Json
from oncely.services.deadline import Deadline

_Told = TypeVar("_Told")
# Writes what a run saves on the way; None: the job has another owner.
Keep: TypeAlias = Callable[[Job, Decision], Job | None]


@dataclass(frozen=True)
class Acted:
    """What the provider said, to preparing or to the act; `job` holds what was saved until then."""

    job: Job
    answer: Answer


@dataclass(frozen=True)
class GaveWay:
    """The job has another owner: nothing more was sent."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Act:
    """One try of an effect, by the owner of its row."""

    contract: AnyContract
    deadline: Deadline
    keep: Keep

    def perform(self, job: Job, facts: Any) -> Acted | GaveWay:  # noqa: ANN401  # the contract's own type
        """Save the reference first, if the effect has one; then perform it, once."""
        verified = False
        if job.provider_ref is None:
            match self._guarded(self.contract.prepare, self._call(job, facts)):
                case None:
                    pass
                case Prepared(ref=ref, replayed=replayed):
                    saved = self.keep(job, prepared(ref))
                    if saved is None:
                        return GaveWay(f"{ref} was prepared, but the job has another owner")
                    job, verified = saved, not replayed
                case answer:
                    return Acted(job, answer)
        call = self._call(job, facts, verified=verified)
        answer = self._guarded(self.contract.act, call)
        if isinstance(answer, StillOpen):
            answer = self._close_declined(call, answer)
        return Acted(call.job, answer)

    def ask_first(self, job: Job, facts: Any) -> Acted | GaveWay:  # noqa: ANN401  # the contract's own type
        """Ask what an earlier run did, if a restore lost it; `Absent` allows to perform it now."""
        if job.provider_ref is None:
            match self._asked(self.contract.find_prepared, self._call(job, facts)):
                case None:
                    pass
                case Prepared(ref=ref):
                    if (saved := self.keep(job, found_again(ref))) is None:
                        return GaveWay(f"{ref} was found, but the job has another owner")
                    job = saved
                case answer:
                    return Acted(job, before_sending(answer))
        answer = self._asked(self.contract.ask, self._call(job, facts))
        return Acted(job, before_sending(answer))

    def close(self, job: Job, facts: Any) -> Acted:  # noqa: ANN401  # the contract's own type
        """Close what an earlier run prepared, and do nothing else."""
        return Acted(job, self._guarded(self.contract.close, self._call(job, facts)))

    def _close_declined(self, call: Call[Any], declined: StillOpen) -> Answer:
        """Close at once what was declined: only then has the job failed."""
        calls = self.contract.terms.profile.closing_calls
        call.verified = True  # a decline names an intent that was seen to be ours
        match self._guarded(self.contract.close, call, calls=calls):
            case Refused(result=result):
                return Refused(declined.reason, declined.code, {**declined.result, **result})
            case NotSent() as unsent:
                return replace(declined, unsent=unsent)
            case answer:
                return answer

    def _call(
        self,
        job: Job,
        facts: Any,  # noqa: ANN401  # the contract's own type
        *,
        verified: bool = False,
    ) -> Call[Any]:
        def save(progress: Mapping[str, Json]) -> None:
            call.job = self.keep(call.job, progressed(progress)) or _give_way(call.job)

        call = Call(
            job=job,
            facts=facts,
            key_length=self.contract.terms.profile.key_length,
            verified=verified,
            has_time=self._has_time,
            save=save,
        )
        return call

    def _has_time(self, time: timedelta) -> bool:
        return self.deadline.allows(time + COMMIT_BUDGET)

    def _asked(self, question: Callable[[Call[Any]], _Told], call: Call[Any]) -> _Told | Answer:
        """Ask, unless it is too late; nothing is sent, so no answer leaves nothing open."""
        if not self._has_time(self.contract.terms.profile.longest_run):
            return NotSent("too little time was left to ask the provider", retry_after=timedelta())
        try:
            return question(call)
        except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
            return NotSent(f"asking ended in {type(error).__name__}: {error}")

    def _guarded(
        self, step: Callable[[Call[Any]], _Told], call: Call[Any], *, calls: int = 1
    ) -> _Told | Answer:
        """Call the provider, unless it is too late; whatever it raises is an answer."""
        terms = self.contract.terms
        # A process that was frozen thaws here: its lease may be over, and another may act.
        if not self._has_time(terms.profile.request_timeout * calls):
            return NotSent("too little time was left to call the provider", retry_after=timedelta())
        try:
            return step(call)
        except NotConfiguredError as error:
            # Preparing moves nothing and a natural effect may be repeated; an act may have acted.
            harmless = step == self.contract.prepare or terms.safety is Safety.NATURAL
            return NotSent(str(error), alarm=True) if harmless else Unclear(str(error))
        except Exception as error:  # noqa: BLE001  # whatever it is, the provider may have acted
            return Unclear(f"the call ended in {type(error).__name__}: {error}")


def before_sending(answer: Answer) -> Answer:
    """What an answer means for a job that has not sent anything in this run."""
    match answer:
        case Unreachable(reason=reason, retry_after=retry_after):
            return NotSent(reason, retry_after=retry_after)
        case CannotAsk(reason=reason):
            return Odd(f"the job table was restored, so it may have happened before; {reason}")
        case _:
            return answer


def _give_way(job: Job) -> NoReturn:
    raise UnavailableError(f"{job.job_key} has another owner: its progress was not saved")
