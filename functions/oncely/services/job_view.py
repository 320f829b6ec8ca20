"""One job as people see it: plain words, its amount, its history, and what may be done now."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, assert_never

from oncely.contract import AnyContract
from oncely.domain.errors import BadInputError
from oncely.domain.jobs import Evidence, Job
from oncely.domain.lifecycle import Status
from oncely.domain.money import Money
from oncely.domain.repairs import Offer, Repair, offers, unread_offers
from oncely.domain.story import story, words_of
from oncely.domain.text import masked
from oncely.domain.times import minute, time_text
from oncely.domain.writes import Json
from oncely.registry import Registry

_LEFT_OUT_OF_LISTS: Final = ("contract", "message", "repairs", "result", "timeline")


@dataclass(frozen=True, kw_only=True)
class JobView:
    """What the page and the command show of one job."""

    job: Job
    headline: str
    subject: str | None  # the business id that people ask by
    repairs: tuple[Offer, ...]
    contract: str | None  # in plain language; None: of a type that is not deployed any more
    found_by: str | None = None

    @property
    def timeline(self) -> tuple[Evidence, ...]:
        """Its history, the oldest first."""
        return story(self.job)

    @property
    def amount_words(self) -> str | None:
        """What it moves, such as `12.50 EUR`."""
        job = self.job
        if job.amount is None or job.currency is None:
            return None
        return str(Money(job.amount, job.currency))

    @property
    def next_look(self) -> datetime | None:
        """When the machine looks at it next by itself."""
        return None if self.job.ended else self.job.due_at

    def found(self, way: str) -> "JobView":
        """The same, with the way it was found."""
        return replace(self, found_by=way)

    def as_short_json(self) -> dict[str, Json]:
        """For lists."""
        whole = self.as_json()
        short = {name: value for name, value in whole.items() if name not in _LEFT_OUT_OF_LISTS}
        return short if self.found_by is None else {**short, "found_by": self.found_by}

    def as_json(self) -> dict[str, Json]:
        """The whole view; addresses in it are masked, and it holds no card and no secret."""
        job = self.job
        result = dict(job.result or {})
        return {
            "job_key": job.job_key,
            "job_type": job.job_type,
            "status": job.status,
            "status_words": job.status.in_words,
            "headline": self.headline,
            "subject": self.subject,
            "customer_id": job.customer_id,
            "amount": job.amount,
            "currency": job.currency,
            "amount_words": self.amount_words,
            "provider_ref": job.provider_ref,
            "request_id": _text(result.get("request_id")),
            "result": None if job.result is None else _masked(result),
            "message": _masked(dict(job.message)),
            "attempts": job.attempts,
            "last_error": None if job.last_error is None else masked(job.last_error),
            "last_try": _time(job.claimed_at),
            "next_look": _time(self.next_look),
            "since": _time(job.status_since),
            "created_at": _time(job.created_at),
            "updated_at": _time(job.updated_at),
            "version": job.version,
            "expires_at": _time(job.expires_at),
            "timeline": [_line(line) for line in self.timeline],
            "repairs": [_offer(one) for one in self.repairs],
            "contract": self.contract,
        }


def view_of(job: Job, registry: Registry, *, now: datetime) -> JobView:
    """The view of a job as it is now."""
    kind = kind_of(job, registry)
    return JobView(
        job=job,
        headline=masked(_headline(job, kind, now)),
        subject=job.subject or _subject(job, registry),
        repairs=_repairs(job, kind, registry, now),
        contract=None if kind is None else kind.describe(),
    )


def kind_of(job: Job, registry: Registry) -> type[AnyContract] | None:
    """Its contract; None: of a type that is not deployed any more."""
    try:
        return registry.contract(job.job_type)
    except BadInputError:
        return None


def _subject(job: Job, registry: Registry) -> str | None:
    """What its message is about, where the row does not say it."""
    try:
        kind, message = registry.read(job.message)
    except BadInputError:
        return None
    return kind.subject(message)


def _repairs(
    job: Job, kind: type[AnyContract] | None, registry: Registry, now: datetime
) -> tuple[Offer, ...]:
    try:
        kind, message = registry.read(job.message)
    except BadInputError:
        return unread_offers(job, None if kind is None else kind.terms)
    another = kind.another_attempt(message) is not None
    return offers(job, kind.terms, now=now, has_another_attempt=another)


def _headline(job: Job, kind: type[AnyContract] | None, now: datetime) -> str:
    """The one sentence that answers the person who asks."""
    why = job.last_error or "no reason was recorded"
    deed = "done" if kind is None else kind.words.deed
    match job.status:
        case Status.FINISHED:
            done = "Done." if kind is None else kind.done_words(job)
            return f"{done} It took {job.attempts} tries." if job.attempts > 1 else done
        case Status.FAILED:
            return f"Not {deed}: {why}"
        case Status.NEEDS_REVIEW:
            return f"A person must decide: {why}"
        case Status.UNKNOWN:
            return f"Not known yet whether it was {deed}: the provider is asked."
        case Status.STARTED if job.lease_over(now):
            return "Its worker is gone; the provider is asked what became of it."
        case Status.STARTED:
            return f"A worker has it until {minute(job.lease_until or now)}."
        case Status.READY if job.last_error:
            return f"Not {deed} yet: it is tried again by itself."
        case Status.READY:
            return f"Not {deed} yet: it waits for a worker."
        case unreachable:
            assert_never(unreachable)


def _none(why: str) -> tuple[Offer, ...]:
    return tuple(Offer(repair=repair, allowed=False, why=why) for repair in Repair)


def _line(line: Evidence) -> Json:
    return {
        "at": _time(line.at),
        "last_at": _time(line.last_at),
        "count": line.count,
        "who": line.who,
        "event": line.event,
        "words": words_of(line.event),
        "old": line.old,
        "new": line.new,
        "reason": masked(line.reason),
    }


def _offer(one: Offer) -> Json:
    return {
        "repair": one.repair,
        "label": one.repair.label,
        "allowed": one.allowed,
        "why": one.why,
        "needs_reference": one.needs_reference,
    }


def _masked(value: Json) -> Json:
    match value:
        case str():
            return masked(value)
        case list():
            return [_masked(inner) for inner in value]
        case dict():
            return {masked(name): _masked(inner) for name, inner in value.items()}
        case _:
            return value


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _time(at: datetime | None) -> str | None:
    return None if at is None else time_text(at)
