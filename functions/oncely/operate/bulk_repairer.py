"""Bulk repairs: one repair of many selected jobs, each once, however often the run is continued."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self, assert_never

from oncely.aws.objects import JSON, S3Objects
from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidInputError, InvalidRequestError, OncelyError, UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair
from oncely.core.text import MAX_REASON_LENGTH, format_time, parse_time, support_text
from oncely.operate.job_lists import JobFilter
from oncely.operate.job_view import JobView
from oncely.operate.repair_request import (
    BusinessRowConflict,
    Contradicted,
    JobNotFound,
    NotAllowed,
    ProviderUnavailable,
    Repaired,
    RepairOutcome,
    RepairRequest,
    RepairRequested,
    StaleVersion,
)
from oncely.operate.second_operator import PendingRepair

if TYPE_CHECKING:
    from oncely.app import App

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


EXAMPLES: Final = 5
# Operators select these by hand, on a few pages of a list. For more, they use filters.
MAX_CHOSEN_JOBS: Final = 500
_CHANGED_SINCE_REQUEST: Final = "it changed since it was requested: select it again to confirm it"
_CHANGED_SINCE: Final = "it changed since you saw it: reload the list"


class BulkOutcome(StrEnum):
    """The outcome of one job of a run."""

    DONE = "done"
    REQUESTED = "requested"  # another operator must confirm it
    DONE_BEFORE = "done before"  # by this run, before it was interrupted
    CHANGED = "changed"  # it was changed since it was selected
    REFUSED = "refused"
    UNREACHABLE = "unreachable"  # AWS or the provider: continue the run later


@dataclass(frozen=True, kw_only=True)
class BulkSelection:
    """The jobs that match and allow the repair, and why others do not allow it."""

    repair: Repair
    jobs: tuple[JobView, ...] = ()
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    is_complete: bool = True  # the scan reached the end of the list

    @property
    def examples(self) -> tuple[JobView, ...]:
        return self.jobs[:EXAMPLES]


@dataclass(frozen=True)
class BulkResult:
    """One job of a run."""

    key: JobKey
    outcome: BulkOutcome
    detail: str = ""

    def to_json(self) -> dict[str, Json]:
        return {
            "job_key": self.key,
            "outcome": self.outcome,
            "detail": support_text(self.detail),
        }


@dataclass(frozen=True)
class BulkRepairer:
    """Selects jobs, saves the selection, and repairs each job in the selected version."""

    app: "App"

    def select(self, repair: Repair, wanted: JobFilter) -> BulkSelection:
        """Select the jobs that the repair is allowed for now."""
        status = wanted.status or DEFAULT_STATUSES[check_bulk_repair(repair)].value
        pages = self.app.job_queries.iter_pages(replace(wanted, status=status))
        jobs: list[JobView] = []
        refused: Counter[str] = Counter()
        is_complete = True
        for page in pages:
            _sort_into(jobs, refused, page.jobs, repair)
            if len(jobs) > MAX_BULK_JOBS:
                raise InvalidRequestError(
                    f"more than {MAX_BULK_JOBS} jobs match: narrow the filters"
                )
            is_complete = page.cursor is None
        return BulkSelection(
            repair=repair, jobs=tuple(jobs), refused=refused, is_complete=is_complete
        )

    def select_jobs(self, repair: Repair, chosen: Sequence[SelectedJob]) -> BulkSelection:
        """Select these jobs, if they are still as the operator saw them."""
        check_bulk_repair(repair)
        if len(chosen) > MAX_CHOSEN_JOBS:
            raise InvalidRequestError(
                f"at most {MAX_CHOSEN_JOBS} jobs can be chosen one by one: use filters"
            )
        versions = {one.key: one.version for one in chosen}
        found = self.app.job_queries.by_keys("", dict.fromkeys(versions, "selection")).jobs
        same = [view for view in found if view.job.version == versions[view.job.job_key]]
        jobs: list[JobView] = []
        refused: Counter[str] = Counter()
        if changed := len(versions) - len(same):
            refused[_CHANGED_SINCE] = changed
        _sort_into(jobs, refused, same, repair)
        return BulkSelection(repair=repair, jobs=tuple(jobs), refused=refused)

    def preview(self, selection: BulkSelection, *, reason: str, actor: str) -> list[BulkResult]:
        """Preview the repair of the first few jobs. Changes nothing."""
        return [
            self._result(one.key, self._repair_once(one))
            for view in selection.examples
            for one in [_preview_request(view, selection.repair, reason=reason, actor=actor)]
        ]

    def start(self, selection: BulkSelection, *, reason: str, actor: str) -> BulkRun:
        """Save the selection. Nothing is repaired yet."""
        run = BulkRun(
            run_id=self.app.ports.new_identity(),
            repair=selection.repair,
            reason=reason,
            actor=actor,
            created_at=self.app.ports.clock.now(),
            jobs=tuple(SelectedJob(view.job.job_key, view.job.version) for view in selection.jobs),
        )
        self.app.ports.bulk_runs.save(run)
        return run

    def load(self, run_id: str) -> BulkRun:
        """Read a saved run. Raises InvalidRequestError if there is none."""
        if (run := self.app.ports.bulk_runs.get(run_id)) is None:
            raise InvalidRequestError(f"no bulk run {run_id[:40]!r}: check the id")
        return run

    def perform(
        self,
        run: BulkRun,
        *,
        actor: str,
        identity: str | None = None,
        start: int = 0,
        limit: int | None = None,
    ) -> Iterator[BulkResult]:
        """Repair the jobs of a run, one after the other. Jobs that it has repaired are skipped."""
        for job in islice(run.jobs, start, None if limit is None else start + limit):
            request = RepairRequest(
                key=job.key,
                repair=run.repair,
                version=job.version,
                reason=run.evidence_reason,
                actor=actor,
                signed_in_as=identity,
            )
            yield self._perform_one(run, request)

    def _perform_one(self, run: BulkRun, request: RepairRequest) -> BulkResult:
        outcome = self._repair_once(request)
        if not isinstance(outcome, StaleVersion):
            return self._result(request.key, outcome)
        row = outcome.current
        if not run.changed(row):
            return BulkResult(request.key, BulkOutcome.CHANGED, f"it is {row.status} now")
        if not self._is_half_done(row, run.repair):
            return BulkResult(request.key, BulkOutcome.DONE_BEFORE)
        # Who continues a run has read the run, and not what was added to its request since.
        if row.pending_repair is not None and row.version != request.version + 1:
            return BulkResult(request.key, BulkOutcome.CHANGED, _CHANGED_SINCE_REQUEST)
        return self._result(request.key, self._repair_once(replace(request, version=row.version)))

    def _is_half_done(self, row: JobRow, repair: Repair) -> bool:
        """Whether it waits for a second operator, or the run ended before its new job was written.

        Every other repair is one write. If its message was not sent, the row is due and sends it.
        """
        pending = PendingRepair.from_row(row, self.app.ports.clock.now())
        if pending is not None and pending.repair is repair:
            return True
        if repair is not Repair.RESUBMIT:
            return False
        try:
            contract = self.app.registry.parse_row(row)
        except InvalidInputError:
            return False
        another = contract.resubmission()
        return another is not None and self.app.ports.job_store().get(another.job_key()) is None

    def _repair_once(self, request: RepairRequest) -> "RepairOutcome | OncelyError":
        try:
            return self.app.repairer.repair(request)
        except OncelyError as error:
            return error

    @staticmethod
    def _result(key: JobKey, outcome: "RepairOutcome | OncelyError") -> BulkResult:
        match outcome:
            case RepairRequested(details=details):
                return BulkResult(key, BulkOutcome.REQUESTED, str(details))
            case Repaired(details=details):
                return BulkResult(key, BulkOutcome.DONE, str(details))
            case StaleVersion(current=now):
                return BulkResult(key, BulkOutcome.CHANGED, f"it is {now.status} now")
            case JobNotFound():
                return BulkResult(key, BulkOutcome.CHANGED, "its row has expired")
            case NotAllowed() | Contradicted() | BusinessRowConflict():
                return BulkResult(key, BulkOutcome.REFUSED, outcome.reason)
            case ProviderUnavailable(reason=why):
                return BulkResult(key, BulkOutcome.UNREACHABLE, why)
            case OncelyError():
                return BulkResult(key, BulkOutcome.UNREACHABLE, str(outcome))
            case unreachable:
                assert_never(unreachable)


def _sort_into(
    jobs: list[JobView], refused: Counter[str], views: Iterable[JobView], repair: Repair
) -> None:
    for view in views:
        option = next(one for one in view.repairs if one.repair is repair)
        if option.allowed:
            jobs.append(view)
        else:
            refused[option.reason] += 1


def _preview_request(view: JobView, repair: Repair, *, reason: str, actor: str) -> RepairRequest:
    return RepairRequest(
        key=view.job.job_key,
        repair=repair,
        version=view.job.version,
        reason=reason,
        actor=actor,
        dry_run=True,
    )
