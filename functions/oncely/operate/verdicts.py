"""The verdict on an order or a customer: how often it was charged, and how certain that is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from oncely.core.effect_outcomes import Json
from oncely.core.job_row import NO_PROVIDER, JobRow
from oncely.core.lifecycle import IN_REVIEW, Event
from oncely.core.money import Money
from oncely.core.text import format_minute, format_time
from oncely.operate.job_view import JobView, later_reports


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


_BASIS = "From our records, which the provider confirmed when each job ended."
_OPEN_BASIS = "From our records. The provider has not confirmed all of them."


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One sentence about one order, or about all orders of a customer."""

    about: str  # "Order 7120"
    text: str  # "charged once, 49.00 EUR on 16 Nov 2026; receipt sent; no refund recorded"
    certain: bool
    is_duplicate: bool
    at: datetime
    job_keys: tuple[str, ...]  # charges first
    charge_keys: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return f"{self.about}: {self.text}."

    @property
    def basis(self) -> str:
        """The source of the sentence, and its time."""
        return f"{_BASIS if self.certain else _OPEN_BASIS} Read {format_minute(self.at)}."

    def to_json(self) -> dict[str, Json]:
        return {
            "about": self.about,
            "sentence": self.sentence,
            "certain": self.certain,
            "is_duplicate": self.is_duplicate,
            "basis": self.basis,
            "at": format_time(self.at),
            "job_keys": list(self.job_keys),
            "charge_keys": list(self.charge_keys),
        }


def verdicts(views: Sequence[JobView], *, at: datetime, unreadable: int = 0) -> tuple[Verdict, ...]:
    """Return a verdict for each order with a job that takes money, and one for several together.

    `views` are all jobs of these orders. A row that cannot be read may be one of them.
    """
    subjects = dict.fromkeys(view.subject for view in views if view.takes_money)
    found = tuple(
        _verdict(
            subject,
            [view for view in views if view.subject == subject],
            at=at,
            unreadable=unreadable,
        )
        for subject in subjects
    )
    customers = {view.job.customer_id for view in views if view.job.customer_id}
    if len(found) > 1 and len(customers) == 1:
        return (_overall(customers.pop(), found, at=at), *found)
    return found


def _verdict(
    subject: str | None, views: Sequence[JobView], *, at: datetime, unreadable: int
) -> Verdict:
    charging = [view for view in views if view.takes_money]
    # In one order, whatever the search found first: refunds come before receipts.
    rest = (view for view in views if not view.takes_money)
    others = sorted(rest, key=lambda view: view.job.job_key)
    charges = ChargeSummary.from_jobs(view.job for view in charging)
    is_open = any(not view.job.ended for view in charging) or any(map(_is_unknown, others))
    certain = not (is_open or charges.claimed or charges.marked or unreadable)
    parts = [charges.summary or "nothing to charge", *(_outcome(view) for view in others)]
    if charges.succeeded and not any(view.amount_label for view in others):
        parts.append("no refund recorded")
    if unreadable:
        parts.append(f"{unreadable} {'row' if unreadable == 1 else 'rows'} cannot be read")
    text = "; ".join(parts)
    return Verdict(
        about=f"Order {subject}" if subject else "This order",
        text=text if certain else f"not certain yet: {text}",
        certain=certain,
        is_duplicate=charges.is_duplicate,
        at=at,
        job_keys=tuple(view.job.job_key for view in (*charging, *others)),
        charge_keys=tuple(view.job.job_key for view in charging),
    )


def _overall(customer: str, found: Iterable[Verdict], *, at: datetime) -> Verdict:
    found = tuple(found)
    twice = sum(one.is_duplicate for one in found)
    open_ = sum(not one.certain for one in found)
    text = f"{len(found)} orders, {twice or 'none'} charged more than once"
    return Verdict(
        about=f"Customer {customer}",
        text=f"{text}; {open_} not certain yet" if open_ else text,
        certain=not open_,
        is_duplicate=bool(twice),
        at=at,
        job_keys=(),
    )


def _outcome(view: JobView) -> str:
    """What another job of the order did: "receipt sent", "12.50 EUR refunded"."""
    what = view.amount_label or view.job.job_type.partition(".")[0]
    status = view.job.status
    if _is_unknown(view):
        named = what if view.amount_label else f"the {what}"
        return f"unknown whether {named} was {view.done_verb}"
    if status.is_finished:
        reports = later_reports(view.job)
        return f"{what} {view.done_verb}" + (f", reported later: {reports}" if reports else "")
    return f"{what} not {view.done_verb}" + ("" if view.job.ended else " yet")


def _is_unknown(view: JobView) -> bool:
    """Whether its effect may have happened, or an operator has to decide."""
    status = view.job.status
    return status in IN_REVIEW or status.allows(Event.RECHECK)


def _format_day(at: datetime) -> str:
    """Format a day for a sentence: 16 Nov 2026, in UTC."""
    utc = at.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y}"
