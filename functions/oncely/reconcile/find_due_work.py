"""Finds the work of a sweep: due rows, and messages that were never sent."""

import heapq
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from oncely.core.due import DueAction
from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidInputError, InvalidMessageError, OncelyError
from oncely.core.keys import MAX_KEY_LENGTH, JobKey, job_type_of
from oncely.core.new_row import own_row
from oncely.core.table_guard import TableBlocked, TableOpen
from oncely.core.text import format_time, parse_time
from oncely.reconcile.due_index import DueEntry

if TYPE_CHECKING:
    from oncely.app import App

# A manual sweep lists every job, and Step Functions passes at most 256 kB between states.
MAX_SWEEP_LIMIT: Final = 200
# For the items of a page; their results need as much again.
MAX_PAGE_BYTES: Final = 110_000
# Rows that one sweep reads to find business rows without a job.
MAX_LOOKUPS: Final = 200
# Rows that are read to find the oldest age: those due for longest.
MAX_AGE_READS: Final = 25
# Longer than a page usually takes. If a provider is slow, two sweeps look up, which is harmless.
SWEEP_LEASE: Final = timedelta(minutes=5)
_ROTATION_INTERVAL: Final = timedelta(minutes=1)  # each scheduled sweep checks a different part
_UNRESOLVED_ACTIONS: Final = (DueAction.LOOK_UP, DueAction.RESEND)


class SweepRequest(BaseModel):
    """The input of a sweep, from the schedule, the admin page, the CLI or StartExecution."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    job_type: str | None = None
    key: Annotated[str, Field(min_length=1, max_length=MAX_KEY_LENGTH)] | None = None
    since: str | None = Field(default=None, alias="from")
    until: str | None = Field(default=None, alias="to")
    # With None, the sweep continues until nothing is due.
    limit: Annotated[int, Field(ge=1, le=MAX_SWEEP_LIMIT)] | None = None
    dry_run: bool = False

    @classmethod
    def parse(cls, event: object) -> Self:
        """Parse an input. Raises InvalidMessageError with every fault."""
        try:
            sweep = cls.model_validate(event or {})
            for time in (sweep.since, sweep.until):
                if time is not None:
                    parse_time(time)
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors())
            raise InvalidMessageError(f"not a valid sweep: {'; '.join(faults)}") from error
        except ValueError as error:
            raise InvalidMessageError(f"not a valid sweep: {error}") from error
        return sweep

    def next_page(self, resume_at: datetime | None) -> dict[str, Json] | None:
        """The input of the next page. Returns None if this was the last."""
        if resume_at is None or self.limit is not None or self.dry_run:
            return None
        request: dict[str, Json] = self.model_dump(exclude_defaults=True, by_alias=True)
        return {**request, "from": format_time(resume_at)}


@dataclass(frozen=True, kw_only=True)
class SweepItem:
    """One job to resolve: a row by its key, or a message without a row."""

    key: JobKey
    message: dict[str, Json] | None = None
    on_demand: bool = False  # requested by key, so it need not be due
    is_alert: bool = False  # a job in review whose alert is due

    def to_json(self) -> dict[str, Json]:
        """The item as JSON: usually only its key."""
        more: dict[str, Json] = {} if self.message is None else {"message": self.message}
        flags = {"on_demand": self.on_demand, "is_alert": self.is_alert}
        return {"key": self.key, **more, **{name: True for name, is_set in flags.items() if is_set}}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Self:
        """Parse an item."""
        return cls(
            key=JobKey(item["key"]),
            message=item.get("message"),
            on_demand=bool(item.get("on_demand")),
            is_alert=bool(item.get("is_alert")),
        )


@dataclass(frozen=True, kw_only=True)
class DueWork:
    """One page of items, and how to continue."""

    items: tuple[SweepItem, ...] = ()
    shards: tuple[int, ...] = ()  # leased by this sweep
    busy_shards: int = 0  # shards leased by another sweep
    resume_at: datetime | None = None  # where the next page starts; None if this is the last
    requested_count: int = 0  # jobs that business rows request, existing or not
    error: str | None = None  # why missing jobs could not be searched
    table_refusal: str | None = None  # why the table is blocked


@dataclass(frozen=True)
class DueWorkFinder:
    """Reads the sparse indexes, never the whole table."""

    app: "App"

    def find(self, sweep: SweepRequest, *, holder: str | None = None) -> DueWork:
        """Find one page of work. With a holder, only in shards that it can lease.

        Lookups get half of a full page and the other actions share the rest, so unpublished jobs
        never hide an unknown charge.
        """
        table = self.app.ports.table_guard.check()
        if isinstance(table, TableBlocked):
            return DueWork(table_refusal=table.reason)
        if sweep.key is not None:
            return DueWork(items=(SweepItem(key=JobKey(sweep.key), on_demand=True),))
        now = self.app.ports.clock.now()
        leased = _LeasedShards(self.app, sweep, now, holder)
        ask, send, publish, alert = (leased.queue(action) for action in DueAction)
        lost = _MissingJobs(self.app, sweep, now, knows_every_job=table.has_all_rows(now))
        trials = _lookup_trials(table, sweep)
        turns = _take_turns((ask, send, ask, publish, ask, alert, ask, lost, trials))
        page = _take_while_fitting(islice(turns, sweep.limit or self.app.settings.sweep_page_size))
        items = {item.key: item for item in page}
        queues = (ask, send, publish, alert)
        left = [one.due_at for queue in queues if (one := queue.peek()) is not None]
        return DueWork(
            items=tuple(items.values()),
            shards=tuple(leased.shards),
            busy_shards=leased.busy,
            resume_at=min(left, default=None),
            requested_count=lost.requested_count,
            error=lost.error,
        )

    def oldest_age(self) -> timedelta:
        """The age of the oldest unresolved job, among those due for longest."""
        now = self.app.ports.clock.now()
        index = self.app.ports.due_index
        queues = (
            index.due(action, shard, since=None, until=now)
            for action in _UNRESOLVED_ACTIONS
            for shard in range(index.shards)
        )
        longest_due = islice(heapq.merge(*queues, key=lambda one: one.due_at), MAX_AGE_READS)
        oldest = min((self._waiting_since(one, now) for one in longest_due), default=now)
        return max(now - oldest, timedelta(0))  # a wait that ended early makes it negative

    def _waiting_since(self, entry: DueEntry, now: datetime) -> datetime:
        try:
            row = self.app.ports.job_store().get(entry.job_key)
        except OncelyError:
            return entry.due_at  # too old raises an alarm, too young would hide one
        return row.age_starts_at(now) if row is not None and row.unresolved else now


class _LeasedShards:
    """The shards that one sweep leased, and their due rows."""

    def __init__(self, app: "App", sweep: SweepRequest, now: datetime, holder: str | None) -> None:
        self.shards: list[int] = []
        self.busy = 0
        self._rows: dict[DueAction, list[Iterator[DueEntry]]] = {action: [] for action in DueAction}
        since = None if sweep.since is None else parse_time(sweep.since)
        until = now if sweep.until is None else min(now, parse_time(sweep.until))
        # Left out here: during a long pause there may be many, and they stay due.
        ports = app.ports
        held = ports.gate.paused_job_types(app.registry)
        for shard in range(ports.due_index.shards):
            due = {
                action: _none_if_empty(
                    one
                    for one in ports.due_index.due(action, shard, since=since, until=until)
                    if sweep.job_type in (None, job_type_of(one.job_key))
                    if action is not DueAction.RESEND or job_type_of(one.job_key) not in held
                )
                for action in DueAction
            }
            if not any(due.values()):
                continue  # an idle shard costs no write
            if holder is not None:
                if not ports.sweep_leases.acquire(
                    shard, holder=holder, now=now, until=now + SWEEP_LEASE
                ):
                    self.busy += 1
                    continue
                self.shards.append(shard)
            for action, rows in due.items():
                if rows is not None:
                    self._rows[action].append(rows)

    def queue(self, action: DueAction) -> "_DueQueue":
        rows = heapq.merge(*self._rows[action], key=lambda one: one.due_at)
        return _DueQueue(rows, is_alert=action is DueAction.ALERT)


class _DueQueue(Iterator[SweepItem]):
    """Due rows, longest due first, with a look-ahead of one."""

    def __init__(self, rows: Iterator[DueEntry], *, is_alert: bool) -> None:
        self._rows, self._is_alert = rows, is_alert

    def __next__(self) -> SweepItem:
        return SweepItem(key=next(self._rows).job_key, is_alert=self._is_alert)

    def peek(self) -> DueEntry | None:
        first = next(self._rows, None)
        if first is not None:
            self._rows = chain((first,), self._rows)
        return first


class _MissingJobs(Iterator[SweepItem]):
    """Jobs that business rows request and that do not exist, read lazily."""

    def __init__(
        self, app: "App", sweep: SweepRequest, now: datetime, *, knows_every_job: bool
    ) -> None:
        self.requested_count = 0
        self.error: str | None = None
        # After a restore, an order without a job may have been paid by a job whose row is lost.
        self._found = self._find(app, sweep, now) if knows_every_job else iter(())

    def __next__(self) -> SweepItem:
        return next(self._found)

    def _find(self, app: "App", sweep: SweepRequest, now: datetime) -> Iterator[SweepItem]:
        try:
            requested = list(_requested_items(app, sweep, now))
            self.requested_count = len(requested)
            for item in _rotate(requested, now):
                if own_row(app.ports.job_store(), item.key) is None:
                    yield item
        except OncelyError as error:
            self.error = str(error)  # due rows are resolved in any case


def _requested_items(app: "App", sweep: SweepRequest, now: datetime) -> Iterator[SweepItem]:
    """The jobs that business rows request; most of them exist."""
    for contract_type in app.registry:
        if sweep.job_type not in (None, contract_type.job_type):
            continue
        for job in contract_type.missing_jobs(app.ports, now=now):
            with suppress(
                InvalidInputError
            ):  # never a job: its message is rejected, with the reason
                yield SweepItem(key=job.job_key(), message=job.to_sent_dict())


def _lookup_trials(table: TableOpen, sweep: SweepRequest) -> Iterator[SweepItem]:
    """The finished jobs whose lookup is tried: on the first page, because they are not due."""
    for job_type, known in sorted(table.lookups.items()):
        is_wanted = sweep.since is None and sweep.job_type in (None, job_type)
        if is_wanted and table.tries_lookup(JobKey(known)):
            yield SweepItem(key=JobKey(known))


def _none_if_empty(rows: Iterator[DueEntry]) -> Iterator[DueEntry] | None:
    """The same rows. Returns None if there are none."""
    first = next(rows, None)
    return None if first is None else chain((first,), rows)


def _take_turns(sources: Iterable[Iterator[SweepItem]]) -> Iterator[SweepItem]:
    """Take one of each source in turn."""
    waiting = deque(sources)
    while waiting:
        source = waiting.popleft()
        for item in islice(source, 1):
            yield item
            waiting.append(source)


def _take_while_fitting(items: Iterable[SweepItem]) -> Iterator[SweepItem]:
    """As many items as fit one page with their messages."""
    size = 0
    for item in items:
        size += len(json.dumps(item.to_json()))
        if size > MAX_PAGE_BYTES:
            return
        yield item


def _rotate(requested: Sequence[SweepItem], now: datetime) -> Sequence[SweepItem]:
    """A part of the items, a different one each minute.

    So no sweep reads a row for each, and many items in review hide no missing job.
    """
    if len(requested) <= MAX_LOOKUPS:
        return requested
    first = int(now.timestamp() / _ROTATION_INTERVAL.total_seconds()) * MAX_LOOKUPS % len(requested)
    return (*requested[first:], *requested[:first])[:MAX_LOOKUPS]
