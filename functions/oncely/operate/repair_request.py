"""A repair that an operator requests, and its possible outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidRequestError
from oncely.core.job_row import JobRow
from oncely.core.keys import MAX_ID_LENGTH, MAX_KEY_LENGTH, JobKey
from oncely.core.repairs import Repair
from oncely.core.text import MAX_REASON_LENGTH, format_time


@dataclass(frozen=True, kw_only=True)
class RepairRequest:
    """The repair, the version of the job that the operator saw, and the reason."""

    key: JobKey
    repair: Repair
    version: int
    reason: str
    actor: str
    signed_in_as: str | None = None  # the actor, unless the operator chose another name
    reference: str | None = None
    message: Mapping[str, Json] | None = None  # replaces that of a job that no worker has claimed
    run_at: datetime | None = None  # the new time of a job that is rescheduled
    dry_run: bool = False

    @property
    def identity(self) -> str:
        """Who signed in. An operator can choose the actor's name, but not this."""
        return self.signed_in_as or self.actor

    @property
    def target(self) -> str | None:
        """What a second operator must repeat: the reference, or the new time."""
        return self.reference if self.run_at is None else format_time(self.run_at)

    def __post_init__(self) -> None:
        if not 0 < len(self.key) <= MAX_KEY_LENGTH:
            raise InvalidRequestError(f"a job key must have 1 to {MAX_KEY_LENGTH} characters")
        if not self.reason.strip():
            raise InvalidRequestError("a reason is required: it is stored with the job")
        if len(self.reason) > MAX_REASON_LENGTH:
            raise InvalidRequestError(f"a reason must have at most {MAX_REASON_LENGTH} characters")
        if not self.actor.strip():
            raise InvalidRequestError("the operator's name is required")
        if self.run_at is not None and self.repair is not Repair.RESCHEDULE:
            raise InvalidRequestError(f"only {Repair.RESCHEDULE} takes a time")
        if (ref := self.reference) is None:
            return
        if not (ref.strip() and ref.isprintable() and len(ref) <= MAX_ID_LENGTH):
            raise InvalidRequestError(
                f"a reference must be printable and have at most {MAX_ID_LENGTH} characters"
            )


@dataclass(frozen=True)
class LookupAnswer:
    """What a provider answered when a repair looked up the effect."""

    provider: str
    outcome: str
    detail: str

    def __str__(self) -> str:
        return f"{self.provider} lookup: {self.outcome}, {self.detail}"


@dataclass(frozen=True, kw_only=True)
class RepairDetails:
    """What a repair did, and what the provider answered if it was looked up."""

    lookup: LookupAnswer | None = None
    note: str = ""
    needs_second_operator: bool = False  # only the request is recorded

    def __str__(self) -> str:
        return "; ".join(str(part) for part in (self.lookup, self.note) if part)

    def to_json(self) -> dict[str, Json]:
        lookup: Json = None if self.lookup is None else {**vars(self.lookup)}
        return {
            "summary": str(self),
            "lookup": lookup,
            "note": self.note,
            "needs_second_operator": self.needs_second_operator,
        }


NO_DETAILS: Final = RepairDetails()
NO_VERSION: Final = 0  # of a job that has no row


@dataclass(frozen=True)
class Repaired:
    """The repair was applied. After a dry run, the job as the repair would leave it."""

    before: JobRow | None  # None if there was no row
    after: JobRow
    details: RepairDetails = NO_DETAILS


class RepairRequested(Repaired):
    """Only a request was recorded: another operator must confirm it."""


@dataclass(frozen=True)
class NotAllowed:
    """The life cycle or the lookup does not allow it. Nothing was changed."""

    reason: str


@dataclass(frozen=True)
class Contradicted:
    """The provider contradicts the operator. Nothing was changed."""

    claim: str  # what the operator says
    lookup: LookupAnswer
    fix: str

    @property
    def reason(self) -> str:
        """Both sides, and what to do."""
        return f"you say {self.claim}; {self.lookup}. Next: {self.fix}"


@dataclass(frozen=True)
class StaleVersion:
    """The job changed since the operator saw it. Nothing was changed."""

    current: JobRow


@dataclass(frozen=True)
class JobNotFound:
    """No row has this key."""


@dataclass(frozen=True)
class BusinessRowConflict:
    """The business rows reject it. Nothing was changed."""

    reason: str


@dataclass(frozen=True)
class ProviderUnavailable:
    """The lookup failed."""

    reason: str


RepairOutcome: TypeAlias = (
    Repaired
    | NotAllowed
    | Contradicted
    | StaleVersion
    | JobNotFound
    | BusinessRowConflict
    | ProviderUnavailable
)
