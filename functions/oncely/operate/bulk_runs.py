"""A bulk run: one repair of many jobs, saved as keys and versions before it begins."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from oncely.aws.objects import JSON, S3Objects
from oncely.core.errors import InvalidRequestError, UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair
from oncely.core.text import MAX_REASON_LENGTH, format_time, parse_time

# More than an hour's outage leaves behind. The selection is one object.
MAX_BULK_JOBS: Final = 10_000
_RUN_ID: Final = re.compile(r"[a-z0-9-]{1,40}")
# The status that each repair selects, unless the operator passes another one.
DEFAULT_STATUSES: Final[Mapping[Repair, Status]] = {
    Repair.RESUBMIT: Status.FAILED,
    Repair.RESEND: Status.READY,
    Repair.CANCEL: Status.READY,
    Repair.MARK_FAILED: Status.NEEDS_REVIEW,
}


def check_bulk_repair(repair: Repair) -> Repair:
    """Return the repair if it can be done in bulk. Others must be done job by job."""
    if repair not in DEFAULT_STATUSES:
        known = ", ".join(DEFAULT_STATUSES)
        raise InvalidRequestError(f"{repair} must be done job by job; bulk repairs are {known}")
    return repair


@dataclass(frozen=True)
class SelectedJob:
    """A job as the operator selected it. Any later write of its row changes the version."""

    key: JobKey
    version: int


@dataclass(frozen=True, kw_only=True)
class BulkRun:
    """The saved selection. Progress is in the rows, so that nothing is done twice."""

    run_id: str
    repair: Repair
    reason: str
    actor: str  # who selected; another operator may continue
    created_at: datetime
    jobs: tuple[SelectedJob, ...]

    def __post_init__(self) -> None:
        check_bulk_repair(self.repair)
        if not self.jobs or len(self.jobs) > MAX_BULK_JOBS:
            count = len(self.jobs)
            raise InvalidRequestError(
                f"a bulk run has 1 to {MAX_BULK_JOBS} jobs, not {count}: change the filters"
            )
        if len(self.evidence_reason) > MAX_REASON_LENGTH:
            raise InvalidRequestError("the reason is too long: it is stored with each job")

    @property
    def evidence_reason(self) -> str:
        """The reason in the evidence of each job, with the run id."""
        return f"{self._mark}{self.reason}"

    @property
    def _mark(self) -> str:
        return f"bulk run {self.run_id}: "

    def changed(self, row: JobRow) -> bool:
        """Whether the row shows that this run has repaired it."""
        return any(self._mark in entry.reason for entry in row.evidence)

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON."""
        return {
            "run_id": self.run_id,
            "repair": str(self.repair),
            "reason": self.reason,
            "actor": self.actor,
            "created_at": format_time(self.created_at),
            "jobs": [[job.key, job.version] for job in self.jobs],
        }

    @classmethod
    def from_dict(cls, held: Mapping[str, Any]) -> Self:
        """Parse a saved run."""
        return cls(
            run_id=str(held["run_id"]),
            repair=Repair(held["repair"]),
            reason=str(held["reason"]),
            actor=str(held["actor"]),
            created_at=parse_time(held["created_at"]),
            jobs=tuple(SelectedJob(JobKey(str(key)), int(v)) for key, v in held["jobs"]),
        )


@dataclass(frozen=True)
class BulkRuns:
    """The saved selections in the archive, one object each. A lifecycle rule removes them."""

    objects: S3Objects

    def save(self, run: BulkRun) -> None:
        """Save a new run."""
        if not self.objects.create(_key(run.run_id), json.dumps(run.to_dict()).encode(), JSON):
            raise UnavailableError("there is a bulk run with this id: select the jobs again")

    def get(self, run_id: str) -> BulkRun | None:
        """Read a run. Returns None if there is none."""
        if not _RUN_ID.fullmatch(run_id):
            return None  # entered by hand
        found = self.objects.find(_key(run_id))
        return None if found is None else BulkRun.from_dict(json.loads(found.body))


def _key(run_id: str) -> str:
    return f"bulk/{run_id}.json"
