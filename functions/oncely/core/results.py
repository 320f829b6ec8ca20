"""What a write to a job row can return. Losing a race is a value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from oncely.core.effect_outcomes import Json
from oncely.core.job_row import JobRow

JobResult: TypeAlias = Mapping[str, Json]


@dataclass(frozen=True)
class _WithJob:
    job: JobRow


@dataclass(frozen=True)
class _WithRow:
    row: JobRow


class Claimed(_WithJob):
    """A successful claim: this worker is the owner."""


class ClaimFailed(_WithRow):
    """A claim that lost to another row, which the same call returned."""


@dataclass(frozen=True)
class PrerequisiteNotMet:
    """A claim whose prerequisite job has not failed."""

    other: JobRow | None


class Swapped(_WithJob):
    """A row that was written."""


@dataclass(frozen=True)
class VersionConflict:
    """A row that changed since it was read."""

    row: JobRow | None  # None if the row was removed


@dataclass(frozen=True)
class BusinessWriteConflict:
    """A business row that failed its precondition. Nothing was written, not even the job row."""

    reason: str
    is_permanent: bool = False  # no table can hold the values, whatever its rows say


class Created(_WithJob):
    """A new row."""


class AlreadyExists(_WithRow):
    """A row that existed before."""


@dataclass(frozen=True)
class ForgedRow:
    """A row that none of our functions wrote. Nothing of it counts, and `create` may replace it.

    See `JobRow.is_forged`. A row that cannot be read counts the same.
    """

    status: str  # as it was inserted, or "unreadable"
    seen: Mapping[str, Any] = field(compare=False)  # what `create` compares, in the store's form


ClaimResult: TypeAlias = Claimed | ClaimFailed | PrerequisiteNotMet | ForgedRow
SwapResult: TypeAlias = Swapped | VersionConflict | BusinessWriteConflict
CreateResult: TypeAlias = Created | AlreadyExists | ForgedRow
