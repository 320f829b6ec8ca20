"""What a person may do about a job, when, and what it changes: each repair is one move."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from oncely.domain.answers import Absent, Answer, Done
from oncely.domain.decide import ask_not_before
from oncely.domain.due import send_again
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.moves import MESSAGE_GRACE, Decision, back_to_ready, ending, too_old
from oncely.domain.profiles import Safety, Terms
from oncely.domain.text import one_line
from oncely.domain.times import minute


class Repair(StrEnum):
    """What a person can ask for. Pages and commands name these values."""

    ASK = "ask"  # ask the provider now
    RETURN = "return"  # back to ready, with proof that nothing happened
    FINISH = "finish"  # it is done outside: say so
    FAIL = "fail"  # it is not done outside and will not be: say so
    RESEND = "resend"  # send its message again, as after dead letters
    AGAIN = "again"  # a new business attempt after a plain no

    @property
    def label(self) -> str:
        """What stands on the button."""
        return _LABELS[self]


_LABELS: Final[Mapping[Repair, str]] = MappingProxyType(
    {
        Repair.ASK: "Ask the provider now",
        Repair.RETURN: "Return to ready",
        Repair.FINISH: "Mark as done",
        Repair.FAIL: "Mark as failed",
        Repair.RESEND: "Send its message again",
        Repair.AGAIN: "Try again as a new attempt",
    }
)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """Whether a repair is open now; `why` says what it will do, or why it is not."""

    repair: Repair
    allowed: bool
    why: str
    needs_reference: bool = False


def offers(
    job: Job, terms: Terms, *, now: datetime, has_another_attempt: bool = False
) -> tuple[Offer, ...]:
    """Every repair, each with a plain sentence."""
    return tuple(
        offer(job, terms, repair, now=now, has_another_attempt=has_another_attempt)
        for repair in Repair
    )


def offer(
    job: Job, terms: Terms, repair: Repair, *, now: datetime, has_another_attempt: bool = False
) -> Offer:
    """One repair, for the job as it is now."""
    match repair:
        case Repair.AGAIN:
            allowed, why = _again(job, has_another_attempt=has_another_attempt)
        case _:
            allowed, why = _RULES[repair](job, terms, now)
    needs_reference = repair is Repair.FINISH and terms.safety is not Safety.NATURAL
    return Offer(repair=repair, allowed=allowed, why=why, needs_reference=needs_reference)


def unread_offers(job: Job, terms: Terms | None) -> tuple[Offer, ...]:
    """Every repair of a job whose message this deployment cannot read; None: nor knows its type."""
    return tuple(unread_offer(job, terms, repair) for repair in Repair)


def unread_offer(job: Job, terms: Terms | None, repair: Repair) -> Offer:
    """Such a job can be closed by a person, so that it ends; nothing else is known to be safe."""
    allowed, why = _unread(job, terms, repair)
    needs_reference = repair is Repair.FINISH and bool(terms and terms.safety is not Safety.NATURAL)
    return Offer(repair=repair, allowed=allowed, why=why, needs_reference=needs_reference)


def reopen(
    job: Job, terms: Terms, *, reason: str, heard: Answer | None, asked_at: datetime
) -> Decision | str:
    """The move back to ready, or why there is no proof that nothing happened.

    `heard`: what the provider said to the question; None: the row itself is the proof.
    """
    match heard:
        case None:
            return _reopened(reason, asked_at)
        case Absent(proved=proved) if proved or asked_at >= ask_not_before(job, terms):
            # The key moves on, since the provider may remember the old one with its error.
            told = f"{reason}; {heard.reason}"
            return _reopened(
                told,
                asked_at,
                key_number=job.key_number + 1,
                first_sent_at=None,
                key_scope=None,
            )
        case Absent():
            wait = minute(ask_not_before(job, terms))
            return f"{heard.reason}, but a request may still be under way: try again after {wait}"
        case _:
            return f"this is no proof that nothing happened: {heard.reason}"


def is_its_own_proof(job: Job, terms: Terms) -> bool:
    """Whether the row alone shows that running it again does no harm."""
    return terms.safety is Safety.NATURAL or not job.has_started


def rule(job: Job, repair: Repair, *, reason: str, reference: str | None) -> Decision:
    """A person's word about what is true outside."""
    finished = repair is Repair.FINISH
    told = reason if reference is None else f"{reason} (reference {reference})"
    result = {**(job.result or {}), **({"reference": reference} if reference else {})}
    return Decision(
        event=Event.RULE_FINISHED if finished else Event.RULE_FAILED,
        reason=told,
        changes={
            **ending(),
            "result": result if finished else {"code": _RULED, **result},
            # What proves a failure, such as a refund, is nothing to ask about or to cancel later.
            "provider_ref": job.provider_ref or (reference if finished else None),
            "last_error": None if finished else one_line(told),
        },
    )


def needs_closing(job: Job, terms: Terms) -> bool:
    """Whether something may still be open at the provider, so that the job must not fail yet."""
    return terms.leaves_open and job.provider_ref is not None


def close_first(job: Job, *, reason: str, reference: str | None, now: datetime) -> Decision:
    """A worker closes what is open; then, and only then, the job has failed as the person said."""
    told = reason if reference is None else f"{reason} (reference {reference})"
    result = {**(job.result or {}), **({"reference": reference} if reference else {})}
    closing = {"reason": one_line(told), "code": _RULED, "result": result}
    return _reopened(told, now, event=Event.RULE_CLOSE, closing=closing)


def done_by_another(job: Job, found: Answer) -> bool:
    """Whether our rows were settled by something else than this job, such as a payment by hand."""
    own = job.result or {}
    return isinstance(found, Done) and any(
        own.get(name) != value for name, value in found.result.items()
    )


def resend(job: Job, terms: Terms, *, reason: str, now: datetime) -> Decision:
    """Another message for a ready row, because a person wants it."""
    again = send_again(job, terms, now)
    return Decision(event=again.event, reason=reason, changes=again.changes, alert=again.alert)


def note(reason: str) -> Decision:
    """What a person did or heard, which moves nothing."""
    return Decision(event=Event.NOTE, reason=reason)


def tried_again(job: Job, terms: Terms, *, as_key: JobKey, reason: str, now: datetime) -> Decision:
    """A new attempt runs only while this row says "failed", so the row must not expire before."""
    # Whole seconds, as a row keeps them.
    until = (now + terms.stop.age + MESSAGE_GRACE).replace(microsecond=0)
    kept = {} if job.expires_at is None else {"expires_at": max(job.expires_at, until)}
    return Decision(event=Event.NOTE, reason=f"tried again as {as_key}: {reason}", changes=kept)


def came_to(job: Job) -> str:
    """What asking about a job came to, in a word or two."""
    return _CAME_TO[job.status]


def _reopened(
    reason: str, now: datetime, *, event: Event = Event.RULE_READY, **changes: object
) -> Decision:
    """All counts and the age begin anew: a person has looked."""
    return back_to_ready(
        event,
        reason,
        run_at=now,
        attempts=0,
        timeouts=0,
        unreachable=0,
        paused_seconds=0,
        stranded_fence=None,
        stranded_since=None,
        reopened_at=now,
        **{"closing": None, **changes},
    )


def _ask(job: Job, terms: Terms, now: datetime) -> tuple[bool, str]:
    provider = terms.profile.name
    match job.status:
        case Status.UNKNOWN:
            return True, f"{provider} is asked now, and what it says is recorded"
        case Status.STARTED if job.lease_over(now):
            return True, f"its worker is gone: {provider} is asked what became of it"
        case Status.STARTED:
            return False, f"a worker has it until {minute(job.lease_until or now)}"
        case Status.NEEDS_REVIEW if _can_ask(terms):
            return True, f"{provider} is asked, and its answer is noted; you decide what follows"
        case Status.NEEDS_REVIEW:
            return False, f"{provider} cannot be asked what became of it"
        case _:
            return False, _STANDS[job.status]


def _return(job: Job, terms: Terms, now: datetime) -> tuple[bool, str]:
    del now
    provider = terms.profile.name
    match job.status:
        case Status.NEEDS_REVIEW if not job.has_started:
            return True, "no worker ever took it, so nothing was done: it is run"
        case Status.NEEDS_REVIEW if terms.safety is Safety.NATURAL:
            return True, "running it again does no harm: it is run again"
        case Status.NEEDS_REVIEW if _can_ask(terms):
            return True, f"{provider} is asked first: it is run again only if nothing was done"
        case Status.NEEDS_REVIEW:
            return False, f"{provider} cannot be asked whether it was done: mark it instead"
        case Status.UNKNOWN:
            return False, "ask the provider: if nothing was done, it is ready again by itself"
        case Status.READY:
            return False, "it is ready already"
        case _:
            return False, _STANDS[job.status]


def _finish(job: Job, terms: Terms, now: datetime) -> tuple[bool, str]:
    del now
    if job.status is Status.NEEDS_REVIEW:
        return True, f"you have seen at {terms.profile.name} that it is done: our rows follow"
    return False, _STANDS[job.status]


def _fail(job: Job, terms: Terms, now: datetime) -> tuple[bool, str]:
    del now
    if job.status is Status.NEEDS_REVIEW and needs_closing(job, terms):
        return True, (
            f"{terms.profile.name} is asked first: what is still open there is closed by a worker, "
            "and then the job has failed"
        )
    if job.status is Status.NEEDS_REVIEW:
        return True, f"you have seen at {terms.profile.name} that it is not done: our rows follow"
    return False, _STANDS[job.status]


def _resend(job: Job, terms: Terms, now: datetime) -> tuple[bool, str]:
    if job.status is not Status.READY:
        return False, "only a job that is ready is sent: " + _STANDS[job.status]
    if old := too_old(job, terms, now):
        return False, f"{old}: the next sweep brings it to review, where it can be returned"
    return True, "its message is sent once more; a second one does no harm"


def _again(job: Job, *, has_another_attempt: bool) -> tuple[bool, str]:
    if job.status is not Status.FAILED:
        return False, "only a job that has failed can be tried anew: " + _STANDS[job.status]
    if not has_another_attempt:
        return False, "this kind of job has no second attempt: send a new one"
    return True, "a new job is sent; it runs only while this one stays failed"


def _unread(job: Job, terms: Terms | None, repair: Repair) -> tuple[bool, str]:
    cannot = "this deployment cannot read its message"
    # Of a type that nobody here knows, it may be open as well.
    may_be_open = job.provider_ref is not None and (terms is None or terms.leaves_open)
    match job.status:
        case Status.NEEDS_REVIEW if repair is Repair.FAIL and may_be_open:
            return False, (
                f"{job.provider_ref} may still be open at the provider, and {cannot}, so nobody "
                "can close it: deploy one that can"
            )
        case Status.NEEDS_REVIEW if repair in _SEEN:
            return True, (
                f"you have seen outside that it is {_SEEN[repair]}: the job is closed, and our own "
                f"rows are not changed, because {cannot}"
            )
        case Status.NEEDS_REVIEW:
            return False, f"{cannot}: deploy one that can, or mark it as done or as failed"
        case _ if job.ended:
            return False, _STANDS[job.status]
        case _:
            return False, f"{cannot}: the reconciler brings it to review when it falls due"


def _can_ask(terms: Terms) -> bool:
    asks = terms.safety in {Safety.KEYED, Safety.LOOKUP}
    return asks and terms.profile.lookup_lag is not None


_RULES: Final[Mapping[Repair, Callable[[Job, Terms, datetime], tuple[bool, str]]]] = (
    MappingProxyType(
        {
            Repair.ASK: _ask,
            Repair.RETURN: _return,
            Repair.FINISH: _finish,
            Repair.FAIL: _fail,
            Repair.RESEND: _resend,
        }
    )
)

_RULED: Final = "ruled_by_a_person"

# What a person says that is true outside.
_SEEN: Final[Mapping[Repair, str]] = MappingProxyType(
    {Repair.FINISH: "done", Repair.FAIL: "not done"}
)

_CAME_TO: Final[Mapping[Status, str]] = MappingProxyType(
    {
        Status.READY: "nothing was done",
        Status.STARTED: "still under way",
        Status.UNKNOWN: "not known yet",
        Status.FINISHED: "succeeded",
        Status.FAILED: "refused",
        Status.NEEDS_REVIEW: "not as asked for",
    }
)

# Why nothing is done about a job that stands like this.
_STANDS: Final[Mapping[Status, str]] = MappingProxyType(
    {
        Status.READY: "it waits for a worker, and nothing is open outside",
        Status.STARTED: "a worker has it, or had it: ask the provider when its time is over",
        Status.UNKNOWN: "its outcome is not known yet: ask the provider",
        Status.FINISHED: "it is done already",
        Status.FAILED: "it has failed already, and that is recorded",
        Status.NEEDS_REVIEW: "a person must look at it first",
    }
)
