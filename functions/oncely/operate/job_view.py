"""One job as people see it: plain words, its amount, its history, and what may be done now."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, assert_never

from oncely.contract import AnyContract
from oncely.domain.effect_outcomes import Json
from oncely.domain.errors import InvalidInputError
from oncely.domain.jobs import EvidenceEntry, Job
from oncely.domain.lifecycle import Status
from oncely.domain.money import Money
from oncely.domain.repairs import Repair, RepairOption, repair_options, unreadable_job_options
from oncely.domain.text import format_minute, format_time, mask_emails
from oncely.domain.timeline import describe_event, timeline
from oncely.registry import ContractRegistry

_SUMMARY_OMITS: Final = ("contract", "message", "repairs", "result", "timeline")


@dataclass(frozen=True, kw_only=True)
class JobView:
    """What the page and the command show of one job."""

    job: Job
    headline: str
    subject: str | None  # the business id that people ask by
    repairs: tuple[RepairOption, ...]
    contract: str | None  # in plain language; None: of a type that is not deployed any more
    matched_by: str | None = None

    @property
    def timeline(self) -> tuple[EvidenceEntry, ...]:
        """Its history, the oldest first."""
        return timeline(self.job)

    @property
    def amount_label(self) -> str | None:
        """What it moves, such as `12.50 EUR`."""
        job = self.job
        if job.amount is None or job.currency is None:
            return None
        return str(Money(job.amount, job.currency))

    @property
    def next_check_at(self) -> datetime | None:
        """When the machine looks at it next by itself."""
        return None if self.job.ended else self.job.due_at

    def with_match(self, match: str) -> "JobView":
        """The same, with the way it was found."""
        return replace(self, matched_by=match)

    def to_summary_json(self) -> dict[str, Json]:
        """For lists."""
        whole = self.to_json()
        short = {name: value for name, value in whole.items() if name not in _SUMMARY_OMITS}
        return short if self.matched_by is None else {**short, "found_by": self.matched_by}

    def to_json(self) -> dict[str, Json]:
        """The whole view; addresses in it are masked, and it holds no card and no secret."""
        job = self.job
        result = dict(job.result or {})
        return {
            "job_key": job.job_key,
            "job_type": job.job_type,
            "status": job.status,
            "status_words": job.status.label,
            "headline": self.headline,
            "subject": self.subject,
            "customer_id": job.customer_id,
            "amount": job.amount,
            "currency": job.currency,
            "amount_label": self.amount_label,
            "provider_ref": job.provider_ref,
            "request_id": _text(result.get("request_id")),
            "result": None if job.result is None else _mask_json(result),
            "message": _mask_json(dict(job.message)),
            "attempts": job.attempts,
            "last_error": None if job.last_error is None else mask_emails(job.last_error),
            "last_try": _format_time(job.claimed_at),
            "next_check_at": _format_time(self.next_check_at),
            "since": _format_time(job.status_since),
            "created_at": _format_time(job.created_at),
            "updated_at": _format_time(job.updated_at),
            "version": job.version,
            "expires_at": _format_time(job.expires_at),
            "timeline": [_evidence_json(line) for line in self.timeline],
            "repairs": [_option_json(one) for one in self.repairs],
            "contract": self.contract,
        }


def build_view(job: Job, registry: ContractRegistry, *, now: datetime) -> JobView:
    """The view of a job as it is now."""
    contract_type = contract_for(job, registry)
    return JobView(
        job=job,
        headline=mask_emails(_headline(job, contract_type, now)),
        subject=job.subject or _subject(job, registry),
        repairs=_repairs(job, contract_type, registry, now),
        contract=None if contract_type is None else contract_type.describe(),
    )


def contract_for(job: Job, registry: ContractRegistry) -> type[AnyContract] | None:
    """Its contract; None: of a type that is not deployed any more."""
    try:
        return registry.contract(job.job_type)
    except InvalidInputError:
        return None


def _subject(job: Job, registry: ContractRegistry) -> str | None:
    """What its message is about, where the row does not say it."""
    try:
        contract_type, message = registry.parse_mapping(job.message)
    except InvalidInputError:
        return None
    return contract_type.subject(message)


def _repairs(
    job: Job, contract_type: type[AnyContract] | None, registry: ContractRegistry, now: datetime
) -> tuple[RepairOption, ...]:
    try:
        contract_type, message = registry.parse_mapping(job.message)
    except InvalidInputError:
        return unreadable_job_options(job, None if contract_type is None else contract_type.policy)
    another = contract_type.resubmission(message) is not None
    return repair_options(job, contract_type.policy, now=now, can_resubmit=another)


def _headline(job: Job, contract_type: type[AnyContract] | None, now: datetime) -> str:
    """The one sentence that answers the person who asks."""
    why = job.last_error or "no reason was recorded"
    done_verb = "done" if contract_type is None else contract_type.description.done_verb
    match job.status:
        case Status.FINISHED:
            done = "Done." if contract_type is None else contract_type.success_summary(job)
            return f"{done} It took {job.attempts} tries." if job.attempts > 1 else done
        case Status.FAILED:
            return f"Not {done_verb}: {why}"
        case Status.NEEDS_REVIEW:
            return f"A person must decide: {why}"
        case Status.UNKNOWN:
            return f"Not known yet whether it was {done_verb}: the provider is asked."
        case Status.STARTED if job.lease_expired(now):
            return "Its worker is gone; the provider is asked what became of it."
        case Status.STARTED:
            return f"A worker has it until {format_minute(job.lease_until or now)}."
        case Status.READY if job.last_error:
            return f"Not {done_verb} yet: it is tried again by itself."
        case Status.READY:
            return f"Not {done_verb} yet: it waits for a worker."
        case unreachable:
            assert_never(unreachable)


def _disallowed_options(reason: str) -> tuple[RepairOption, ...]:
    return tuple(RepairOption(repair=repair, allowed=False, reason=reason) for repair in Repair)


def _evidence_json(entry: EvidenceEntry) -> Json:
    return {
        "at": _format_time(entry.at),
        "last_at": _format_time(entry.last_at),
        "count": entry.count,
        "who": entry.actor_name,
        "event": entry.event,
        "words": describe_event(entry.event),
        "old": entry.from_status,
        "new": entry.to_status,
        "reason": mask_emails(entry.reason),
    }


def _option_json(option: RepairOption) -> Json:
    return {
        "repair": option.repair,
        "label": option.repair.label,
        "allowed": option.allowed,
        "why": option.reason,
        "needs_reference": option.needs_reference,
    }


def _mask_json(value: Json) -> Json:
    match value:
        case str():
            return mask_emails(value)
        case list():
            return [_mask_json(inner) for inner in value]
        case dict():
            return {mask_emails(name): _mask_json(inner) for name, inner in value.items()}
        case _:
            return value


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _format_time(at: datetime | None) -> str | None:
    return None if at is None else format_time(at)
