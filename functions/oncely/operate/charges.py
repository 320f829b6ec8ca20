"""Answers "was I charged twice?" from the jobs that take money."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from oncely.core.job_row import NO_PROVIDER, JobRow
from oncely.core.money import Money


@dataclass(frozen=True, kw_only=True)
class ChargeSummary:
    """The charges of one subject: succeeded, declined and unresolved."""

    succeeded: Mapping[str, str] = field(default_factory=dict)  # amounts and days by charge id
    claimed: tuple[str, ...] = ()  # amounts that only the order's row says were paid
    marked: tuple[str, ...] = ()  # marked by operators, not confirmed by a provider
    declined: int = 0
    cancelled: int = 0
    unresolved: int = 0  # may or may not have been charged

    @classmethod
    def from_jobs(cls, jobs: Iterable[JobRow]) -> Self:
        """Count them. Two jobs with the same charge id are one charge."""
        succeeded: dict[str, str] = {}
        found_paid: dict[str, str] = {}
        claimed: list[str] = []
        marked: list[str] = []
        declined = cancelled = unresolved = 0
        for job in jobs:
            if job.marked_by:
                done = f"{_amount(job)} marked as charged" if job.status.is_finished else ""
                marked.append(f"{done or 'marked as failed'} by {job.marked_by}")
            elif job.is_unconfirmed:
                claimed.append(_amount(job))
            elif job.status.is_finished:
                charge = _charge_id(job)
                dated = f"{_amount(job)} on {_format_day(job.status_since)}"
                (found_paid if charge is None else succeeded)[charge or ""] = dated
            elif job.status.is_failed:
                declined += 1
            elif job.status.is_cancelled:
                cancelled += 1
            else:
                unresolved += 1
        # A job that found its order paid without a charge id is not an additional charge.
        charged = succeeded or found_paid
        return cls(
            succeeded=charged,
            claimed=() if charged else tuple(claimed),
            marked=tuple(marked),
            declined=declined,
            cancelled=cancelled,
            unresolved=unresolved,
        )

    @property
    def is_duplicate(self) -> bool:
        """Whether the customer was charged more than once."""
        return len(self.succeeded) > 1

    @property
    def summary(self) -> str | None:
        """The answer for the customer. Returns None if there was nothing to charge."""
        amounts = ", ".join(self.succeeded.values())
        marked = ", ".join(self.marked)
        match len(self.succeeded):
            case 0 if self.claimed:
                paid = ", ".join(self.claimed)
                text = f"the order's row says it was paid ({paid}); {NO_PROVIDER}"
            case 0 if marked:
                text = f"{marked}; the provider did not confirm it"
            case 0 if self.unresolved:
                return "no charge is confirmed yet"
            case 0 if self.declined:
                return "not charged: the provider declined"
            case 0 if self.cancelled:
                return "not charged: cancelled"
            case 0:
                return None
            case 1:
                text = f"charged once, {amounts}"
            case times:
                text = f"charged {times} times: {amounts}"
        if marked and (self.succeeded or self.claimed):
            text = f"{text}; {marked}"
        return f"{text}; another charge is unresolved" if self.unresolved else text


def _charge_id(job: JobRow) -> str | None:
    """The provider's charge id. Returns None if the order was found paid without one."""
    named = (job.result or {}).get("charge_id") or job.provider_ref
    return None if named is None else str(named)


def _amount(job: JobRow) -> str:
    if job.amount is None or job.currency is None:
        return "amount not recorded"
    return str(Money(job.amount, job.currency))


def _format_day(at: datetime) -> str:
    """Format a day for a sentence: 16 Nov 2026, in UTC."""
    utc = at.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y}"
