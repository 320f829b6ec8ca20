"""Second operator: above an amount, one operator requests an effect and another confirms it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from oncely.contracts.job import AnyJob
from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidMoneyError
from oncely.core.job_row import Decision, JobRow
from oncely.core.job_type import AlreadyResolved, PrecheckResult, Proceed
from oncely.core.money import Money
from oncely.core.new_row import requested_job
from oncely.core.repairs import Repair, request_repair
from oncely.core.text import format_minute, format_time, parse_time

if TYPE_CHECKING:
    from oncely.app import App

# The other operator may be on the next shift.
REQUEST_VALIDITY: Final = timedelta(hours=24)
# These do not decide the outcome.
_HARMLESS: Final = frozenset({Repair.LOOK_UP, Repair.RESEND})


_EXPECTED_FORM: Final = (
    "second_operator_above lists amounts in minor units by currency, such as eur:50000,usd:60000"
)


def parse_amounts(text: str) -> dict[str, int]:
    """Parse `eur:50000,usd:60000`. Raises ValueError.

    Above an amount, an operator needs a second operator. A currency that is not listed has no
    amount to stay below, so it always needs one. Without any amounts, the rule is off.
    """
    above: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        currency, _, amount = part.partition(":")
        if not amount.isascii() or not amount.isdecimal():
            raise ValueError(_EXPECTED_FORM)
        try:
            # An amount of money is above 0, but 0 is a limit.
            above[Money.parse(int(amount) or 1, currency.strip()).currency] = int(amount)
        except InvalidMoneyError:
            raise ValueError(_EXPECTED_FORM) from None
    return above


def check_amounts(text: str) -> str:
    """Return the text of a setting if it can be parsed. Raises ValueError."""
    parse_amounts(text)
    return text


@dataclass(frozen=True, kw_only=True)
class PendingRepair:
    """A repair that one operator requested, as the row holds it."""

    repair: Repair
    reference: str | None  # or the new run time
    operator: str  # the name that the evidence shows
    identity: str  # who signed in; an operator can choose the name, but not this
    until: datetime

    def to_row(self, job: JobRow) -> dict[str, Json]:
        """The request as the row holds it, bound to what it is about."""
        return {
            "repair": self.repair,
            "reference": self.reference,
            "operator": self.operator,
            "identity": self.identity,
            "until": format_time(self.until),
            "about": _subject_of_request(job),
        }

    @classmethod
    def from_row(cls, job: JobRow, now: datetime) -> Self | None:
        """The request that is still valid. Returns None if there is none.

        An event or a note leaves it valid: the operator who confirms it names the newest version.
        """
        held = job.pending_repair
        try:
            found = held and cls(
                repair=Repair(str(held["repair"])),
                reference=None if held["reference"] is None else str(held["reference"]),
                operator=str(held["operator"]),
                identity=str(held["identity"]),
                until=parse_time(held["until"]),
            )
            is_same = held and held["about"] == _subject_of_request(job)
        except (KeyError, ValueError):
            return None  # edited by hand
        return found if found and is_same and now < found.until else None

    def objection_to(
        self, repair: Repair, reference: str | None, identity: str, *, same_message: bool = True
    ) -> str | None:
        """Why this operator's repair does not confirm the request. Returns None if it does."""
        if (repair, reference) != (self.repair, self.reference) or not same_message:
            return f"{self}. Confirm exactly that, or look the job up: this voids the request"
        if identity.casefold() == self.identity.casefold():
            return f"you requested it yourself: another operator confirms it, until {self._end}"
        return None

    @property
    def _end(self) -> str:
        return format_minute(self.until)

    def __str__(self) -> str:
        word = "to" if self.repair is Repair.RESCHEDULE else "with reference"
        named = f" {word} {self.reference}" if self.reference else ""
        return f"{self.operator} requested {self.repair}{named}, valid until {self._end}"


def _subject_of_request(job: JobRow) -> list[Json]:
    """What a request is about. If this changes, the job may need another decision."""
    return [job.status, job.owner, job.provider_ref]


def request_second_operator(job: JobRow, requested: PendingRepair, *, reason: str) -> Decision:
    """Record the request. It changes nothing else about the job."""
    return request_repair(requested.repair, requested.to_row(job), reason=reason)


def hold_new_job(job: JobRow, requested: PendingRepair, *, actor: str, reason: str) -> JobRow:
    """The row of a job that an operator asked to send: in review, until another one reopens it."""
    asked = (
        f"{requested.operator} asked to send it, and a second operator must confirm that: "
        "return the job to ready"
    )
    until, pending = requested.until, requested.to_row
    return requested_job(job, pending, until=until, asked=asked, reason=reason, actor=actor)


def needs_second_operator(
    app: "App",
    repair: Repair,
    *,
    contract_type: type[AnyJob] | None,
    row: JobRow | None = None,
    prechecks: Callable[[], Iterable[PrecheckResult[Any]]] = tuple,
) -> bool:
    """Return whether another operator must confirm this repair. Sending a job counts as reopening.

    `contract_type` is None if it is not known what the job does. `prechecks` say what it would do
    now. The business rows are read only if the rule is on.
    """
    above = parse_amounts(app.settings.second_operator_above)
    if not above or repair in _HARMLESS:
        return False
    moves_money = contract_type is None or contract_type.takes_money or contract_type.returns_money
    if row is None and not moves_money:
        return False
    # The amount of the row may be forged, or there is none.
    amounts = (*_claimed_amounts(row), *_amounts_now(prechecks()))
    if not amounts:
        return moves_money  # an unknown amount may be above
    return any(money.amount > above.get(money.currency, 0) for money in amounts)


def _claimed_amounts(row: JobRow | None) -> Iterator[Money]:
    if row is not None and row.amount is not None and row.currency:
        yield Money(row.amount, row.currency)


def _amounts_now(prechecks: Iterable[PrecheckResult[Any]]) -> Iterator[Money]:
    for found in prechecks:
        if isinstance(found, Proceed | AlreadyResolved) and found.money is not None:
            yield found.money
