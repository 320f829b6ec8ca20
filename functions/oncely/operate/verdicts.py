"""The verdict on an order or a customer: how often it was charged, and how certain that is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from oncely.core.effect_outcomes import Json
from oncely.core.lifecycle import IN_REVIEW, Event
from oncely.core.text import format_minute, format_time
from oncely.operate.charges import ChargeSummary
from oncely.operate.job_view import JobView
from oncely.operate.timeline import later_reports

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
