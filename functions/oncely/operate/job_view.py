"""One job as the admin page and the CLI show it: headline, facts, timeline and repairs."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from oncely.contract import AnyContract
from oncely.domain.contract_description import ContractDescription
from oncely.domain.effect_outcomes import Json
from oncely.domain.errors import InvalidInputError
from oncely.domain.jobs import EvidenceEntry, Job
from oncely.domain.lifecycle import Status
from oncely.domain.money import Money
from oncely.domain.repairs import RepairOption, repair_options, unreadable_job_options
from oncely.domain.text import format_minute, format_time, mask_emails
from oncely.domain.timeline import describe_event, timeline
from oncely.registry import ContractRegistry


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job with everything that is derived from its row and its contract."""

    job: Job
    headline: str
    subject: str | None
    repairs: tuple[RepairOption, ...]
    contract: ContractDescription | None  # None if the job type is no longer deployed
    provider_url: str | None = None  # the effect in the provider's console
    matched_by: str | None = None

    @property
    def timeline(self) -> tuple[EvidenceEntry, ...]:
        return timeline(self.job)

    @property
    def amount_label(self) -> str | None:
        job = self.job
        if job.amount is None or job.currency is None:
            return None
        return str(Money(job.amount, job.currency))

    @property
    def next_check_at(self) -> datetime | None:
        return None if self.job.ended else self.job.due_at

    def with_match(self, match: str) -> "JobView":
        return replace(self, matched_by=match)

    def to_summary_json(self) -> dict[str, Json]:
        job = self.job
        matched = {} if self.matched_by is None else {"matched_by": self.matched_by}
        return {
            "job_key": job.job_key,
            "job_type": job.job_type,
            "status": job.status,
            "status_label": job.status.label,
            "headline": self.headline,
            "subject": self.subject,
            "customer_id": job.customer_id,
            "amount": job.amount,
            "currency": job.currency,
            "amount_label": self.amount_label,
            "provider_ref": job.provider_ref,
            "provider_url": self.provider_url,
            "request_id": _text((job.result or {}).get("request_id")),
            "attempts": job.attempts,
            "last_error": None if job.last_error is None else mask_emails(job.last_error),
            "claimed_at": _format_time(job.claimed_at),
            "next_check_at": _format_time(self.next_check_at),
            "since": _format_time(job.status_since),
            "created_at": _format_time(job.created_at),
            "updated_at": _format_time(job.updated_at),
            "version": job.version,
            "expires_at": _format_time(job.expires_at),
            **matched,
        }

    def to_json(self) -> dict[str, Json]:
        """All fields, with email addresses masked. It holds no card data and no secret."""
        job = self.job
        return {
            **self.to_summary_json(),
            "result": None if job.result is None else _mask_json(dict(job.result)),
            "message": _mask_json(dict(job.message)),
            "timeline": [_entry_json(entry) for entry in self.timeline],
            "repairs": [_option_json(option) for option in self.repairs],
            "contract": None if self.contract is None else self.contract.to_json(),
        }


def build_view(job: Job, registry: ContractRegistry, *, now: datetime) -> JobView:
    """Derive the view of a job at `now`."""
    contract_type = contract_for(job, registry)
    return JobView(
        job=job,
        headline=mask_emails(_headline(job, contract_type, now)),
        subject=job.subject or _subject(job, registry),
        repairs=_repairs(job, contract_type, registry, now),
        contract=None if contract_type is None else contract_type.describe_fields(),
        provider_url=None if contract_type is None else _provider_url(job, contract_type),
    )


def _provider_url(job: Job, contract_type: type[AnyContract]) -> str | None:
    if job.provider_ref is None:
        return None
    urls = (
        plugin.console_url(job.provider_ref, key_scope=job.key_scope or "")
        for plugin in contract_type.resources.providers
    )
    return next((url for url in urls if url), None)


def contract_for(job: Job, registry: ContractRegistry) -> type[AnyContract] | None:
    """Its contract. Returns None if the job type is no longer deployed."""
    try:
        return registry.contract(job.job_type)
    except InvalidInputError:
        return None


def _subject(job: Job, registry: ContractRegistry) -> str | None:
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
    reason = job.last_error or "no reason was recorded"
    done_verb = "done" if contract_type is None else contract_type.description.done_verb
    match job.status:
        case Status.FINISHED:
            done = _success_summary(job, contract_type)
            return f"{done} It took {job.attempts} attempts." if job.attempts > 1 else done
        case Status.FAILED:
            return f"Not {done_verb}: {reason}"
        case Status.NEEDS_REVIEW:
            return f"Needs review: {reason}"
        case Status.UNKNOWN:
            return f"Unknown whether it was {done_verb}. Oncely is looking it up at the provider."
        case Status.STARTED if job.lease_expired(now):
            return "The worker's lease expired. Oncely is looking up the outcome at the provider."
        case Status.STARTED:
            return f"Running. The worker's lease ends at {format_minute(job.lease_until or now)}."
        case Status.READY if job.last_error:
            return f"Not {done_verb} yet. It will be retried automatically."
        case Status.READY:
            return f"Not {done_verb} yet. It is waiting for a worker."
        case unreachable:
            assert_never(unreachable)


def _success_summary(job: Job, contract_type: type[AnyContract] | None) -> str:
    try:
        return "Done." if contract_type is None else contract_type.success_summary(job)
    except Exception:  # noqa: BLE001  # a contract that cannot describe one row must not hide a list
        return "Done."


def _entry_json(entry: EvidenceEntry) -> Json:
    return {
        "at": _format_time(entry.at),
        "last_at": _format_time(entry.last_at),
        "count": entry.count,
        "actor": entry.actor_name,
        "event": entry.event,
        "event_label": describe_event(entry.event),
        "from_status": entry.from_status,
        "to_status": entry.to_status,
        "reason": mask_emails(entry.reason),
    }


def _option_json(option: RepairOption) -> Json:
    return {
        "repair": option.repair,
        "label": option.repair.label,
        "allowed": option.allowed,
        "reason": option.reason,
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
