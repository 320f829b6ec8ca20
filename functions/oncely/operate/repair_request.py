"""A repair that an operator requests, and its possible outcomes."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from oncely.domain.effect_outcomes import Json
from oncely.domain.errors import InvalidRequestError
from oncely.domain.jobs import Job
from oncely.domain.keys import MAX_ID_LENGTH, MAX_KEY_LENGTH, JobKey
from oncely.domain.repairs import Repair
from oncely.domain.text import MAX_REASON_LENGTH


@dataclass(frozen=True, kw_only=True)
class RepairRequest:
    """The repair, the version of the job that the operator saw, and the reason."""

    key: JobKey
    repair: Repair
    version: int
    reason: str
    actor: str
    reference: str | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not 0 < len(self.key) <= MAX_KEY_LENGTH:
            raise InvalidRequestError(f"a job key must have 1 to {MAX_KEY_LENGTH} characters")
        # A dry run writes nothing, so it needs no reason.
        if not self.reason.strip() and not self.dry_run:
            raise InvalidRequestError("a reason is required: it is stored with the job")
        if len(self.reason) > MAX_REASON_LENGTH:
            raise InvalidRequestError(f"a reason must have at most {MAX_REASON_LENGTH} characters")
        if not self.actor.strip():
            raise InvalidRequestError("the operator's name is required")
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

    def __str__(self) -> str:
        return "; ".join(str(part) for part in (self.lookup, self.note) if part)

    def to_json(self) -> dict[str, Json]:
        lookup: Json = None if self.lookup is None else {**vars(self.lookup)}
        return {"summary": str(self), "lookup": lookup, "note": self.note}


NO_DETAILS: Final = RepairDetails()


@dataclass(frozen=True)
class Repaired:
    """The repair was applied."""

    before: Job
    after: Job
    details: RepairDetails = NO_DETAILS


@dataclass(frozen=True)
class WouldRepair:
    """A dry run: the job as the repair would leave it."""

    after: Job
    details: RepairDetails = NO_DETAILS


@dataclass(frozen=True)
class NotAllowed:
    """The life cycle or the lookup does not allow it. Nothing was changed."""

    reason: str


@dataclass(frozen=True)
class StaleVersion:
    """The job changed since the operator saw it. Nothing was changed."""

    current: Job


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
    | WouldRepair
    | NotAllowed
    | StaleVersion
    | JobNotFound
    | BusinessRowConflict
    | ProviderUnavailable
)
