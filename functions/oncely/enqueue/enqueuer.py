"""Enqueues jobs: writes the row, then sends the message, so that a crash loses nothing."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from oncely.aws.sqs import MessageSender
from oncely.contracts.job import AnyJob, Job
from oncely.contracts.message import encode_message
from oncely.contracts.registry import JobRegistry
from oncely.core.decide import MESSAGE_GRACE
from oncely.core.due import is_due_too_late, will_start
from oncely.core.effect_outcomes import Json
from oncely.core.ended_jobs import holds_only_proof
from oncely.core.errors import NotConfiguredError, OncelyError, UnavailableError
from oncely.core.inserter import JobInserter, UniqueWindow, WindowTaken
from oncely.core.job_row import JobRow, known_values
from oncely.core.keys import JobKey
from oncely.core.lifecycle import ENDED, UNRESOLVED, Status
from oncely.core.new_row import own_row, row_from_message, run_at_of_row
from oncely.core.schedule import Clock
from oncely.core.store import (
    AlreadyExists,
    Created,
    CreateResult,
    ForgedRow,
    JobResult,
    JobStore,
)
from oncely.core.text import single_line

_ACTOR: Final = "producer"
_REASON: Final = "enqueued"
_WRITE_CONCURRENCY: Final = 8
# The holder of a window rarely changes between the read and the next try.
_MAX_CAS_RETRIES: Final = 3
# A job takes about a second. A long wait should not read a row five times a second.
_FIRST_DELAY: Final = timedelta(seconds=0.2)
_MAX_DELAY: Final = timedelta(seconds=5)
_STILL_WRITTEN_NOTE: Final = (
    "the row of the job exists, and the reconciler sends its message when due"
)

_FORGED: Final = (
    "its row was not written by Oncely, and no request can be added to it. The producer's own "
    "message replaces the row"
)

_NEXT: Final = "Read its status later. Enqueuing it again is safe, under the same key"

# What a producer passes: a job, or its message as a mapping.
JobOrMessage: TypeAlias = AnyJob | Mapping[str, object]
_Senders: TypeAlias = Mapping[str, MessageSender]


@dataclass(frozen=True, kw_only=True)
class JobState:
    """A job as its producer sees it."""

    job_key: JobKey
    status: Status
    result: JobResult | None = None  # of the first run, if the job has ended
    run_at: datetime | None = None  # when it may run, if the row has a time that is honored

    @property
    def ended(self) -> bool:
        """Whether it is finished, failed or cancelled."""
        return self.status in ENDED

    @property
    def settled(self) -> bool:
        """Whether waiting is pointless: it has ended, or an operator decides."""
        return self.status not in UNRESOLVED


@dataclass(frozen=True, kw_only=True)
class EnqueueResult(JobState):
    """The job of a message: a new one, or the one that existed."""

    created: bool
    sent: bool = False  # if False for a new job, its row sends the message when due
    conflict: str | None = None  # how the message differs from the existing job


class JobPending(OncelyError):  # noqa: N818  # the job may run, so it is no error
    """The outcome of a job that `run` enqueued, or may have enqueued, is not known yet.

    Never treat the job as failed.
    """

    def __init__(
        self, reason: str, *, job_key: JobKey, state: JobState | None, conflict: str | None = None
    ) -> None:
        super().__init__(reason)
        self.job_key = job_key
        self.state = state  # the last known one; None if it is not known whether there is a row
        self.conflict = conflict  # how the message differs from the existing job


@dataclass(frozen=True)
class _PendingEnqueue:
    """A message and its row."""

    contract: AnyJob
    row: JobRow
    created: bool
    now: datetime
    is_forged: bool = False  # a worker replaces the row that exists by `row`

    @property
    def result(self) -> EnqueueResult:
        """What the caller is told, before anything is sent."""
        limit = self.contract.effective_schedule_limit()
        return EnqueueResult(
            job_key=self.row.job_key,
            status=self.row.status,
            created=self.created,
            conflict=self.conflict,
            run_at=None if self.row.ignores_run_at(self.now, limit) else self.row.run_at,
            result=self.row.result if self.row.ended else None,
        )

    @property
    def tenant(self) -> str | None:
        return self.contract.tenant(self.contract.to_dict())

    @property
    def body(self) -> dict[str, Json]:
        """The message to send. Only the worker that replaces a forged row needs the time."""
        return self.contract.to_sent_dict() if self.is_forged else self.contract.to_dict()

    @property
    def conflict(self) -> str | None:
        """The first field in which this message differs from the first one of the job."""
        if self.row.job_key != self.contract.job_key():
            return None  # another job holds the window
        if self.row.takes_other_message:
            return None  # a worker compares it with the business rows
        first, second = known_values(self.row), self.contract.to_dict()
        for name in sorted(first.keys() & second.keys()):
            if first[name] != second[name]:
                return f"{name} is {first[name]!r} in the existing job, {second[name]!r} here"
        return None

    @property
    def needs_sending(self) -> bool:
        """Whether a worker must check it: a new job, one that waits for it, or more fields."""
        if self.row.job_key != self.contract.job_key():
            return False
        if holds_only_proof(self.row):
            return False  # nothing to compare it with, so its status alone makes it a duplicate
        if self.is_forged:
            return True
        if self.created and self.row.run_at is not None:
            return False  # its row sends the message when it may run
        if self.created or self.row.awaits_message:
            return True
        second = self.contract.to_dict()
        if self.row.takes_other_message:
            limit = self.contract.effective_schedule_limit()
            return second != self.row.message or is_due_too_late(self.row, limit, self.now)
        return bool(second.keys() - known_values(self.row)) and self.conflict is None


@dataclass(frozen=True, kw_only=True)
class Enqueuer:
    """Enqueues messages for producers."""

    registry: JobRegistry
    store: JobStore
    inserter: JobInserter
    sender_for_queue: Callable[[str], MessageSender]  # by the short name of the queue
    clock: Clock
    new_token: Callable[[], str]
    sleep: Callable[[float], None] = time.sleep

    def status(self, job: JobOrMessage | str) -> JobState | None:
        """Return the status and the result of a job, which is given itself or by its key.

        Returns None if it has no row of ours.
        """
        row = self._read(self._key(job))
        return None if row is None else self._state(row)

    def wait(self, job: JobOrMessage | str, timeout: timedelta) -> JobState | None:
        """Wait until a job has ended or needs review. Returns its last state after the timeout.

        Reads the row with growing delays of 0.2 to 5 seconds, so it costs some reads.
        """
        state = None
        for row in self._poll(self._key(job), timeout):
            state = self._state(row)
        return state

    def run(self, job: JobOrMessage, timeout: timedelta) -> JobState:
        """Enqueue a job, wait until it has ended or needs review, and return its state.

        Raises InvalidInputError if the message is invalid: nothing was written or sent. After
        anything else the job may run, so it raises JobPending.
        """
        (parsed,) = self._parse([job])
        key = parsed.job_key()
        state: JobState | None = None
        conflict: str | None = None
        try:
            state = found = self._enqueue(parsed)
            conflict = found.conflict
            for row in self._poll(key, timeout):
                state = self._state(row)
                now = self.clock.now()
                if conflict := _PendingEnqueue(parsed, row, created=False, now=now).conflict:
                    break
        except Exception as error:
            # Whatever it is: the row may be written, and a worker may have claimed it.
            reason = f"{key} may be running: {error}. {_NEXT}"
            raise JobPending(reason, job_key=key, state=state) from error
        if conflict:
            reason = f"{key} exists with other values: {conflict}. Correct the message"
            raise JobPending(reason, job_key=key, state=state, conflict=conflict)
        if not state.settled:
            reason = f"{key} is {state.status} after {timeout.total_seconds():g} seconds. {_NEXT}"
            raise JobPending(reason, job_key=key, state=state)
        return state

    def enqueue(
        self,
        job: JobOrMessage,
        *,
        run_at: datetime | None = None,
        unique_for: timedelta | None = None,
        actor: str = _ACTOR,
        reason: str = _REASON,
    ) -> EnqueueResult:
        """Enqueue one job. For a duplicate, returns the existing job's key, status and result.

        With `run_at`, no worker runs it earlier. Its contract says how far ahead that may be
        (`schedule_limit`). An existing job keeps its time, which the result shows.
        """
        if run_at is not None:
            job = {**_message(job), "run_at": run_at.isoformat()}
        (parsed,) = self._parse([job])
        return self._enqueue(parsed, unique_for, actor, reason)

    def enqueue_many(
        self,
        jobs: Iterable[JobOrMessage],
        *,
        unique_for: timedelta | None = None,
        actor: str = _ACTOR,
        reason: str = _REASON,
    ) -> list[EnqueueResult]:
        """Enqueue many jobs, with results in the same order.

        An invalid message raises before anything is written.
        """
        parsed = self._parse(jobs)
        senders = self._senders(parsed)
        with ThreadPoolExecutor(max_workers=_WRITE_CONCURRENCY) as pool:
            pending = list(
                pool.map(lambda one: self._write(one, unique_for, actor, reason), parsed)
            )
        return self._send(pending, senders)

    def check(self, jobs: Iterable[JobOrMessage]) -> None:
        """Raise if one of these jobs cannot be enqueued. Writes nothing."""
        self._senders(self._parse(jobs))

    def hold(
        self,
        message: Mapping[str, object],
        make_row: Callable[[JobRow], JobRow],
        *,
        unique_for: timedelta | None = None,
    ) -> tuple[EnqueueResult, JobRow]:
        """Write the row that `make_row` makes of the new one, and send nothing.

        For a duplicate, returns the existing row, and the same result as `enqueue`. A forged row
        is a conflict.
        """
        (parsed,) = self._parse([message])
        self._senders([parsed])
        pending = self._write(parsed, unique_for, make_row=make_row)
        conflict = _FORGED if pending.is_forged else pending.conflict
        return replace(pending.result, conflict=conflict), pending.row

    def compare(self, job: JobOrMessage) -> EnqueueResult | None:
        """Compare a message with its job, without sending it. Returns None if there is no job."""
        contract = self.registry.parse_mapping(_message(job))
        if (row := own_row(self.store, contract.job_key())) is None:
            return None
        now = self.clock.now()
        return _PendingEnqueue(contract, row, created=False, now=now).result

    def _key(self, job: JobOrMessage | str) -> JobKey:
        if isinstance(job, str):
            return JobKey(job)
        return self.registry.parse_mapping(_message(job)).job_key()

    def _read(self, key: JobKey) -> JobRow | None:
        row = self.store.get(key)
        return None if row is None or row.is_forged else row

    def _state(self, row: JobRow) -> JobState:
        return JobState(
            job_key=row.job_key,
            status=row.status,
            result=row.result if row.ended else None,
            run_at=self._honored_run_at(row),
        )

    def _poll(self, key: JobKey, timeout: timedelta) -> Iterator[JobRow]:
        """Read the row with growing delays until the timeout, or until waiting is pointless."""
        ends, delay = self.clock.now() + timeout, _FIRST_DELAY
        while True:
            if (row := self._read(key)) is not None:
                yield row
            left = ends - self.clock.now()
            if (row is not None and self._state(row).settled) or left <= timedelta(0):
                return
            self.sleep(min(delay, left).total_seconds())
            delay = min(delay * 2, _MAX_DELAY)

    def _parse(self, jobs: Iterable[JobOrMessage]) -> list[AnyJob]:
        """Parse all jobs before anything is written."""
        parsed = [self.registry.parse_mapping(_message(job)) for job in jobs]
        for contract in parsed:
            contract.job_key()
            run_at_of_row(contract, self.clock.now())
        return parsed

    def _senders(self, parsed: Iterable[AnyJob]) -> _Senders:
        """Find the queues of all jobs before anything is written."""
        queues = dict.fromkeys(contract.queue for contract in parsed)
        return {queue: self.sender_for_queue(queue) for queue in queues}

    def _enqueue(
        self,
        parsed: AnyJob,
        unique_for: timedelta | None = None,
        actor: str = _ACTOR,
        reason: str = _REASON,
    ) -> EnqueueResult:
        senders = self._senders([parsed])
        return self._send([self._write(parsed, unique_for, actor, reason)], senders)[0]

    def _write(
        self,
        contract: AnyJob,
        unique_for: timedelta | None,
        actor: str = _ACTOR,
        reason: str = _REASON,
        make_row: Callable[[JobRow], JobRow] = lambda job: job,
    ) -> _PendingEnqueue:
        now = self.clock.now()
        job = row_from_message(
            contract,
            now=now,
            due_at=now + MESSAGE_GRACE,
            actor=actor,
            reason=single_line(reason),
            owner=self.new_token(),
            run_at=run_at_of_row(contract, now),
        )
        job = make_row(job)
        if unique_for is None:
            result = self.inserter.insert(job)
        else:
            window = UniqueWindow(name=contract.uniqueness_key(), now=now, until=now + unique_for)
            limit = contract.effective_schedule_limit()
            result = self._create_in_window(window, job, limit)
        match result:
            case Created(job=row):
                return _PendingEnqueue(contract, row, created=True, now=now)
            case AlreadyExists(row=row):
                return _PendingEnqueue(contract, row, created=False, now=now)
            case ForgedRow() if job.run_at is not None and contract.moves_money():
                raise UnavailableError(
                    f"the row of {job.job_key} was not written by Oncely, and a message cannot set "
                    "the time: enqueue it without run_at when it should run"
                )
            case ForgedRow():
                # What it says is not believed.
                return _PendingEnqueue(contract, job, created=False, now=now, is_forged=True)

    def _honored_run_at(self, row: JobRow) -> datetime | None:
        limits = (
            one.effective_schedule_limit() for one in self.registry if one.job_type == row.job_type
        )
        limit = next(limits, None)
        is_ignored = limit is not None and row.ignores_run_at(self.clock.now(), limit)
        return None if is_ignored else row.run_at

    def _create_in_window(
        self, window: UniqueWindow, job: JobRow, schedule_limit: timedelta
    ) -> CreateResult:
        previous_holder: JobKey | None = None
        for _ in range(_MAX_CAS_RETRIES):
            match self.inserter.insert_unique(job, window, replacing=previous_holder):
                case WindowTaken(holder=holder):
                    row = own_row(self.store, holder)
                    # Somebody may have inserted both, the job and the window that names it.
                    if row is not None and will_start(
                        row, until=window.until, schedule_limit=schedule_limit, now=window.now
                    ):
                        return AlreadyExists(row)
                    previous_holder = holder
                case found:
                    return found
        raise UnavailableError(f"the window {window.name} kept changing; try again")

    def _send(self, pending: Sequence[_PendingEnqueue], senders: _Senders) -> list[EnqueueResult]:
        results = [order.result for order in pending]
        by_queue: dict[str, list[int]] = {}
        for index, order in enumerate(pending):
            if order.needs_sending:
                by_queue.setdefault(order.contract.queue, []).append(index)
        for queue, indexes in by_queue.items():
            bodies = [encode_message(pending[index].body) for index in indexes]
            groups = [pending[index].tenant for index in indexes]
            try:
                accepted = senders[queue].send(bodies, groups=groups)
            except NotConfiguredError as error:
                # The rows exist, so the caller must not treat this as a refusal.
                raise NotConfiguredError(f"{error}; {_STILL_WRITTEN_NOTE}") from error
            for index, sent in zip(indexes, accepted, strict=True):
                results[index] = replace(results[index], sent=sent)
        return results


def _message(job: JobOrMessage) -> Mapping[str, object]:
    """The message that is parsed, whichever way it is given."""
    return job.to_sent_dict() if isinstance(job, Job) else job
