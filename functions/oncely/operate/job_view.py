"""One job as the admin page and the CLI show it: headline, facts, timeline and repairs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from oncely.alerts.headlines import next_step, plain_reason, sentence
from oncely.contracts.description import JobDescription
from oncely.contracts.job import AnyJob
from oncely.contracts.registry import JobRegistry
from oncely.core.effect_outcomes import Json
from oncely.core.ended_jobs import holds_only_proof
from oncely.core.errors import InvalidInputError, OncelyError
from oncely.core.job_row import (
    CLAIMS,
    NO_PROVIDER,
    EventMark,
    EventRecord,
    EvidenceEntry,
    JobRow,
    insert_claim,
    is_operator,
    operator_name,
)
from oncely.core.lifecycle import Event, Status
from oncely.core.money import Money
from oncely.core.profiles import RetrySafety
from oncely.core.repairs import Repair, RepairOption, repair_options, unreadable_job_options
from oncely.core.text import format_minute, format_time, support_text
from oncely.operate.console_links import NO_SETTINGS, ConsoleLink, ConsoleLinks
from oncely.operate.masking import mask_json
from oncely.operate.rejects import RejectedMessages, RejectView
from oncely.operate.second_operator import PendingRepair


def timeline(job: JobRow) -> tuple[EvidenceEntry, ...]:
    """The job's history, oldest first, with its last claim."""
    claim = job.unrecorded_claim
    entries = job.evidence if claim is None else insert_claim(job.evidence, claim)
    # The sort is stable, so entries of the same time keep their order.
    return tuple(sorted(entries, key=lambda entry: entry.at))


class TimelineKind(StrEnum):
    """The cause of an entry. The page marks each kind."""

    RUN = "run"  # a worker began a run
    OPERATOR = "operator"
    REJECT = "reject"  # a message of this job was rejected
    PROVIDER = "provider"  # the provider reported an event
    EVENT = "event"


def entry_kind(entry: EvidenceEntry) -> TimelineKind:
    """The kind of an entry."""
    if is_operator(entry.actor):
        return TimelineKind.OPERATOR
    return TimelineKind.RUN if entry.event in CLAIMS else TimelineKind.EVENT


def describe_entry(entry: EvidenceEntry, *, done_verb: str) -> str:
    """What happened: "marked as sent by ada"."""
    match entry.event:
        case Event.CONFIRM if entry.reason.endswith(NO_PROVIDER):
            return "finished by the word of its business rows"
        case Event.RESOLVE_FINISHED:
            return f"marked as {done_verb} by {operator_name(entry.actor)}"
        case Event.RESOLVE_FAILED:
            return f"marked as failed by {operator_name(entry.actor)}"
        case event:
            return describe_event(event)


def describe_record(record: EventRecord) -> str:
    """A provider event, and what it means: "event Send (proof)"."""
    match record.mark:
        case EventMark.HINT:
            return f"event {record.name} brought the lookup forward (hint)"
        case EventMark.PROOF:
            return f"event {record.name}: it was done (proof)"
        case EventMark.REPORT:
            code = f" {record.code}" if record.code else ""
            return f"event {record.name}{code} (reported later)"
        case unreachable:
            assert_never(unreachable)


def later_reports(job: JobRow) -> str:
    """What the provider reported after the effect: "Bounce Permanent, Complaint"."""
    reports = (one for one in job.provider_events if one.mark is EventMark.REPORT)
    return ", ".join(" ".join(filter(None, (one.name, one.code))) for one in reports)


def describe_event(event: str) -> str:
    """What an event means. An event of a newer version is shown by its name."""
    return _DESCRIPTIONS.get(event, event)


_DESCRIPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Event.ENQUEUE: "enqueued",
        Event.REQUEST: "an operator asked to send it; a second operator must confirm",
        Event.RESEND: "message resent",
        Event.PARK: "parked; nothing is sent until it can run",
        Event.RESCHEDULE: "its run time was changed",
        Event.REFUSE: "a message was refused; nothing was changed",
        Event.CLAIM: "claimed by a worker",
        Event.CLAIM_REVIEW: "claimed by a worker; nothing had been sent",
        Event.CHECKPOINT: "progress saved",
        Event.CONFIRM: "confirmed by the provider",
        Event.DECLINE: "declined by the provider",
        Event.RELEASE: "nothing was done; waiting for a retry",
        Event.MARK_UNKNOWN: "outcome unknown",
        Event.RECHECK: "checked; outcome still unknown",
        Event.REQUEUE: "certainly not done; ready for a retry",
        Event.ESCALATE: "needs review: the outcome could not be determined automatically",
        Event.ALERT: "operators alerted",
        Event.CONTRADICT: "new evidence contradicts the recorded result; needs review",
        Event.RESTORE: "job table restored; the outcome is unknown",
        Event.NOTE: "note added",
        Event.ERASE: "personal data erased, or to be erased when the job ends",
        Event.RESOLVE_FINISHED: "marked as done by an operator",
        Event.RESOLVE_FAILED: "marked as failed by an operator",
        Event.REOPEN: "returned to ready by an operator",
        Event.CLOSE_AND_FAIL: "marked as failed by an operator; a worker closes what is open first",
        Event.CANCEL: "cancelled by an operator",
        Event.CLOSE_AND_CANCEL: "cancelled by an operator; a worker closes what is open first",
        Event.CLOSE: "closed at the provider, and cancelled",
    }
)


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job with everything that is derived from its row and its contract."""

    job: JobRow
    headline: str
    subject: str | None
    repairs: tuple[RepairOption, ...]
    contract: JobDescription | None  # None if the job type is no longer deployed
    run_at: datetime | None = None  # if it is honored
    done_verb: str = "done"
    next_step: str = ""  # empty if there is nothing to do
    takes_money: bool = False
    links: tuple[ConsoleLink, ...] = ()  # the effect in the provider's console
    matched_by: str | None = None
    rejects: tuple[RejectView, ...] = ()  # rejected messages of this job
    rejects_error: str | None = None  # why they could not be read

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

    def with_rejects(self, messages: RejectedMessages) -> "JobView":
        """Add the rejected messages. A job is shown even if the archive cannot be read."""
        try:
            return replace(self, rejects=tuple(messages.of_job(self.job.job_key)))
        except OncelyError as error:
            reason = f"rejected messages of this job, if any, cannot be read: {error}"
            return replace(self, rejects_error=reason)

    def to_summary_json(self) -> dict[str, Json]:
        job = self.job
        matched = {} if self.matched_by is None else {"matched_by": self.matched_by}
        return {
            "job_key": job.job_key,
            "job_type": job.job_type,
            "status": job.status,
            "status_label": job.status.label,
            "headline": self.headline,
            "next_step": self.next_step,
            "subject": self.subject,
            "customer_id": job.customer_id,
            "amount": job.amount,
            "currency": job.currency,
            "amount_label": self.amount_label,
            "provider_ref": job.provider_ref,
            "provider_url": next((link.url for link in self.links), None),
            "request_id": _text((job.result or {}).get("request_id")),
            "runs": job.fence,
            "attempts": job.attempts,
            "last_error": None if job.last_error is None else support_text(job.last_error),
            "claimed_at": _format_time(job.claimed_at),
            "next_check_at": _format_time(self.next_check_at),
            "run_at": _format_time(self.run_at),
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
            "result": None if job.result is None else mask_json(dict(job.result)),
            "message": mask_json(dict(job.message)),
            "timeline": self._timeline_json(),
            "timeline_error": None
            if self.rejects_error is None
            else support_text(self.rejects_error),
            "links": [link._asdict() for link in self.links],
            "repairs": [_option_json(option) for option in self.repairs],
            "contract": None if self.contract is None else self.contract.to_json(),
        }

    def _timeline_json(self) -> list[Json]:
        """Our own steps, together with the provider's events and the rejected messages."""
        entries = [_entry_json(entry, self.done_verb) for entry in self.timeline]
        events = map(_event_json, self.job.provider_events)
        rejects = map(_reject_json, self.rejects)
        # Times as text sort as times do.
        return [*sorted([*entries, *events, *rejects], key=lambda one: str(one["at"]))]


def build_view(
    job: JobRow, registry: JobRegistry, *, now: datetime, links: ConsoleLinks = NO_SETTINGS
) -> JobView:
    """Derive the view of a job at `now`."""
    contract_type = contract_for(job, registry)
    repairs = _with_request(_repairs(job, contract_type, registry, now), job, now)
    done_verb = _done_verb(contract_type)
    allowed = {option.repair for option in repairs if option.allowed}
    return JobView(
        job=job,
        headline=_headline(job, contract_type, now),
        subject=job.subject or _subject(job, registry),
        repairs=repairs,
        contract=None if contract_type is None else contract_type.describe_fields(),
        run_at=None if _ignores_run_at(job, contract_type, now) else job.run_at,
        done_verb=done_verb,
        next_step=_next_step(job, contract_type, allowed, now),
        takes_money=contract_type is not None and contract_type.takes_money,
        links=() if contract_type is None else links.of_job(job, contract_type),
    )


def _ignores_run_at(job: JobRow, contract_type: type[AnyJob] | None, now: datetime) -> bool:
    if contract_type is None:
        return False
    return job.ignores_run_at(now, contract_type.effective_schedule_limit())


def _next_step(
    job: JobRow, contract_type: type[AnyJob] | None, allowed: Collection[Repair], now: datetime
) -> str:
    if Repair.RESEND in allowed and _ignores_run_at(job, contract_type, now):
        return "Resend its message."  # it may be due as late as its run time
    return next_step(job, allowed, done_verb=_done_verb(contract_type), now=now)


def contract_for(job: JobRow, registry: JobRegistry) -> type[AnyJob] | None:
    """Its contract. Returns None if the job type is no longer deployed."""
    try:
        return registry.contract(job.job_type)
    except InvalidInputError:
        return None


def _subject(job: JobRow, registry: JobRegistry) -> str | None:
    try:
        return registry.parse_mapping(job.message).subject_id()
    except InvalidInputError:
        return None


def _repairs(
    job: JobRow, contract_type: type[AnyJob] | None, registry: JobRegistry, now: datetime
) -> tuple[RepairOption, ...]:
    try:
        contract = registry.parse_row(job)
    except InvalidInputError:
        return unreadable_job_options(
            job, None if contract_type is None else contract_type.policy_of(job)
        )
    another = contract.resubmission() is not None
    return repair_options(
        job,
        contract.policy_of(job),
        schedule_limit=contract.effective_schedule_limit(),
        now=now,
        can_resubmit=another,
    )


def _with_request(
    options: tuple[RepairOption, ...], job: JobRow, now: datetime
) -> tuple[RepairOption, ...]:
    """The options, with a request that another operator can confirm."""
    if (pending := PendingRepair.from_row(job, now)) is None:
        return options
    return tuple(
        replace(
            one,
            reason=f"{pending}; another operator confirms it: {one.reason}",
            needs_reference=pending.reference is not None and not one.needs_time,
        )
        if one.repair is pending.repair
        else one
        for one in options
    )


def _headline(job: JobRow, contract_type: type[AnyJob] | None, now: datetime) -> str:
    if (operator := job.marked_by) is None and job.ended and holds_only_proof(job):
        verb = _done_verb(contract_type)
        ended = f"{verb.capitalize() if job.status.is_finished else f'Not {verb}'}."
        return f"{_success_summary(job, contract_type) if job.is_unconfirmed else ended} {_ERASED}"
    if operator is None:
        return support_text(_status_headline(job, contract_type, now))
    mark = _done_verb(contract_type) if job.status.is_finished else job.status.label
    return f"Marked as {mark} by {operator}. The provider did not confirm it."


_ERASED: Final = "Its personal data was erased."


def _done_verb(contract_type: type[AnyJob] | None) -> str:
    return "done" if contract_type is None else contract_type.done_verb


def _status_headline(job: JobRow, contract_type: type[AnyJob] | None, now: datetime) -> str:
    reason, reports = plain_reason(job.last_error or "no reason was recorded"), later_reports(job)
    done_verb = _done_verb(contract_type)
    match job.status:
        case Status.FINISHED:
            done = _success_summary(job, contract_type)
            tries = f" It took {job.attempts} attempts." if job.attempts > 1 else ""
            later = f" The provider reported later: {reports}." if reports else ""
            return f"{done}{tries}{later}"
        case Status.FAILED:
            return f"Not {done_verb}: {reason}."
        case Status.CANCELLED:
            return f"Cancelled, not {done_verb}: {reason}."
        case Status.NEEDS_REVIEW:
            return sentence(reason)
        case Status.UNKNOWN:
            lookup = _lookup_sentence(contract_type, "Oncely is looking it up at the provider.")
            return f"Unknown whether it was {done_verb}. {lookup}"
        case Status.STARTED if job.lease_expired(now):
            asking = "Oncely is looking up the outcome at the provider."
            return f"The worker's lease expired. {_lookup_sentence(contract_type, asking)}"
        case Status.STARTED:
            return f"Running. The worker's lease ends at {format_minute(job.lease_until or now)}."
        case Status.READY:
            return f"Not {done_verb} yet{_ready_reason(job, contract_type, now)}"
        case unreachable:
            assert_never(unreachable)


def _ready_reason(job: JobRow, contract_type: type[AnyJob] | None, now: datetime) -> str:
    run_at = format_minute(job.run_at or now)
    if _ignores_run_at(job, contract_type, now):
        return f". Its run time, {run_at}, is not honored: the next message runs it."
    if job.run_at is not None and now < job.run_at:
        return f". It runs at {run_at}."
    if job.last_error and not job.was_claimed:
        return f": {plain_reason(job.last_error)}."
    return (
        ". It will be retried automatically." if job.last_error else ". It is waiting for a worker."
    )


def _lookup_sentence(contract_type: type[AnyJob] | None, asking: str) -> str:
    if contract_type is None or contract_type.policy.safety is not RetrySafety.AT_MOST_ONCE:
        return asking
    return (
        "The provider cannot be asked. Unless its event proves the outcome, an operator decides. "
        "It is not sent again."
    )


def _success_summary(job: JobRow, contract_type: type[AnyJob] | None) -> str:
    try:
        return "Done." if contract_type is None else contract_type.success_summary(job)
    except Exception:  # noqa: BLE001  # a contract that cannot describe one row must not hide a list
        return "Done."


def _reject_json(view: RejectView) -> dict[str, Json]:
    one = view.reject
    return {
        "at": format_time(one.at),
        "last_at": None,
        "count": 1,
        "kind": TimelineKind.REJECT,
        "actor": "worker",
        "event": "reject",
        "event_label": "a message was rejected; nothing was changed",
        "mark": None,
        "from_status": None,
        "to_status": None,
        "reason": support_text(one.reason),
        "reject": one.name,
    }


def _entry_json(entry: EvidenceEntry, done_verb: str) -> dict[str, Json]:
    label, reason = describe_entry(entry, done_verb=done_verb), support_text(entry.reason)
    # Some reasons begin as their label does, because alerts show them alone.
    reason = reason.removeprefix(f"{label.partition(';')[0]}: ")
    return {
        "at": _format_time(entry.at),
        "last_at": _format_time(entry.last_at),
        "count": entry.count,
        "kind": entry_kind(entry),
        "actor": entry.actor_name,
        "event": entry.event,
        "event_label": label,
        "mark": None,  # what a provider event means
        "from_status": entry.from_status,
        "to_status": entry.to_status,
        "reason": "" if reason == label else reason,
    }


def _event_json(record: EventRecord) -> dict[str, Json]:
    reference = "" if record.ref is None else f"reference {record.ref}"
    claim = "" if record.fence is None else f"claim {record.fence}"
    return {
        "at": _format_time(record.at),
        "last_at": None,
        "count": 1,
        "kind": TimelineKind.PROVIDER,
        "actor": record.provider or "provider",
        "event": record.name,
        "event_label": describe_record(record),
        "mark": record.mark,
        "from_status": None,
        "to_status": "",
        "reason": ", ".join(filter(None, (reference, claim))),
    }


def _option_json(option: RepairOption) -> Json:
    return {
        "repair": option.repair,
        "label": option.repair.label,
        "allowed": option.allowed,
        "reason": option.reason,
        "needs_reference": option.needs_reference,
        "needs_time": option.needs_time,
    }


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _format_time(at: datetime | None) -> str | None:
    return None if at is None else format_time(at)


def lookup_summary(job: JobRow) -> str:
    """The outcome of a lookup in a few words."""
    match job.status:
        case Status.READY:
            return "not done"
        case Status.STARTED:
            return "in progress"
        case Status.UNKNOWN:
            return "still unknown"
        case Status.FINISHED:
            return "succeeded"
        case Status.FAILED:
            return "declined"
        case Status.CANCELLED:
            return "closed, not done"
        case Status.NEEDS_REVIEW:
            return "does not match the job"
        case unreachable:
            assert_never(unreachable)
