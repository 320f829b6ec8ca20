"""Finds what the reconciler should look at: due rows, and work that never became a row."""

import heapq
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from oncely.domain.due import Action
from oncely.domain.errors import BadInputError, InvalidMessageError, OncelyError
from oncely.domain.keys import MAX_KEY, JobKey, job_type_of
from oncely.domain.times import instant, time_text
from oncely.domain.writes import Json
from oncely.ports import (
    Clock,
    Due,
    DueIndex,
    JobStore,
    SweepLeases,
    TableGuard,
    TableRefused,
    Tools,
)
from oncely.registry import Registry

# A sweep by hand lists each job that it looked at, and Step Functions hands on 256 kB at most.
MAX_LIMIT: Final = 200
PAGE_SIZE: Final = 1000
# The items of a page; what is done about them needs as much again.
PAGE_BYTES: Final = 110_000
# Rows that one sweep reads to see whether work that our own rows ask for has a job.
LOOKS: Final = 200
# Rows that are read to tell the age of the oldest: those that have been due for longest.
MAX_AGES: Final = 25
# Longer than a page takes unless its provider is slow; then two sweeps ask, which does no harm.
SWEEP_LEASE: Final = timedelta(minutes=5)
_TURN: Final = timedelta(minutes=1)  # each sweep of the schedule looks at other ones
_UNRESOLVED: Final = (Action.ASK, Action.SEND)


class Sweep(BaseModel):
    """What to look for; the same input from the schedule, the page, the command and by hand."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    job_type: str | None = None
    key: Annotated[str, Field(min_length=1, max_length=MAX_KEY)] | None = None
    since: str | None = Field(default=None, alias="from")
    until: str | None = Field(default=None, alias="to")
    # Without one, a sweep goes on until nothing is due.
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] | None = None
    dry_run: bool = False

    @classmethod
    def of(cls, event: object) -> Self:
        """Check an input; what is wrong is said in one sentence."""
        try:
            sweep = cls.model_validate(event or {})
            for time in (sweep.since, sweep.until):
                if time is not None:
                    instant(time)
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors())
            raise InvalidMessageError(f"not a valid sweep: {'; '.join(faults)}") from error
        except ValueError as error:
            raise InvalidMessageError(f"not a valid sweep: {error}") from error
        return sweep

    def next_page(self, resume_at: datetime | None) -> dict[str, Json] | None:
        """The input of the sweep that goes on from there; None: this one was all."""
        if resume_at is None or self.limit is not None or self.dry_run:
            return None
        asked: dict[str, Json] = self.model_dump(exclude_defaults=True, by_alias=True)
        return {**asked, "from": time_text(resume_at)}


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing to resolve: a row by its key, or a message that has no row yet."""

    key: JobKey
    message: dict[str, Json] | None = None
    asked_for: bool = False  # by its key: it is looked at though its time has not come

    def as_json(self) -> dict[str, Json]:
        """The item as the state machine hands it on: a key alone, nearly always."""
        more: dict[str, Json] = {} if self.message is None else {"message": self.message}
        return {"key": self.key, **more, **({"asked_for": True} if self.asked_for else {})}

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Self:
        """The item of such a mapping."""
        return cls(
            key=JobKey(item["key"]),
            message=item.get("message"),
            asked_for=bool(item.get("asked_for")),
        )


@dataclass(frozen=True, kw_only=True)
class Found:
    """One page of items, and what there is to know about the rest."""

    items: tuple[Item, ...] = ()
    shards: tuple[int, ...] = ()  # those that this sweep has the lease of
    busy: int = 0  # shards that another sweep is at work on
    resume_at: datetime | None = None  # from where the next page goes on; None: there is none
    asking: int = 0  # how much work our own rows ask for, with a job or without
    trouble: str | None = None  # why work that was never sent could not be looked for
    refused: str | None = None  # why nothing of this table may be looked at


@dataclass(frozen=True, kw_only=True)
class Finder:
    """Reads the sparse indexes; never the table."""

    registry: Registry
    tools: Tools
    store: JobStore
    index: DueIndex
    leases: SweepLeases
    clock: Clock
    guard: TableGuard
    page_size: int = PAGE_SIZE

    def find(self, sweep: Sweep, *, holder: str | None = None) -> Found:
        """One page of what a sweep should resolve; with a holder, of shards whose lease it gets.

        What only a sweep resolves gets half of a full page, and the others share the rest: however
        many ended jobs a dead stream leaves behind, they hide no charge that is unknown.
        """
        table = self.guard.check()
        if isinstance(table, TableRefused):
            return Found(refused=table.reason)
        if sweep.key is not None:
            return Found(items=(Item(key=JobKey(sweep.key), asked_for=True),))
        now = self.clock.now()
        leased = _Leased(self, sweep, now, holder)
        ask, send, publish = (leased.queue(action) for action in Action)
        lost = _Lost(self, sweep, now, knows_every_job=table.knows_every_job(now))
        turns = _take_turns((ask, send, ask, publish, ask, lost))
        page = _that_fit(islice(turns, sweep.limit or self.page_size))
        items = {item.key: item for item in page}
        left = [one.due_at for queue in (ask, send, publish) if (one := queue.peek()) is not None]
        return Found(
            items=tuple(items.values()),
            shards=tuple(leased.shards),
            busy=leased.busy,
            resume_at=min(left, default=None),
            asking=lost.asking,
            trouble=lost.trouble,
        )

    def oldest_age(self) -> timedelta:
        """How long the oldest unresolved job waits, of those that have been due for longest."""
        now = self.clock.now()
        queues = (
            self.index.due(action, shard, since=None, until=now)
            for action in _UNRESOLVED
            for shard in range(self.index.shards)
        )
        longest_due = islice(heapq.merge(*queues, key=lambda one: one.due_at), MAX_AGES)
        return now - min((self._waits_since(one, now) for one in longest_due), default=now)

    def _waits_since(self, one: Due, now: datetime) -> datetime:
        try:
            row = self.store.get(one.job_key)
        except OncelyError:
            return one.due_at  # too old is a question, too young would be a silence
        return row.age_begins if row is not None and row.unresolved else now


class _Leased:
    """The shards that one sweep has to itself, and their due rows."""

    def __init__(self, finder: Finder, sweep: Sweep, now: datetime, holder: str | None) -> None:
        self.shards: list[int] = []
        self.busy = 0
        self._rows: dict[Action, list[Iterator[Due]]] = {action: [] for action in Action}
        since = None if sweep.since is None else instant(sweep.since)
        until = now if sweep.until is None else min(now, instant(sweep.until))
        for shard in range(finder.index.shards):
            due = {
                action: _begun(
                    one
                    for one in finder.index.due(action, shard, since=since, until=until)
                    if sweep.job_type in (None, job_type_of(one.job_key))
                )
                for action in Action
            }
            if not any(due.values()):
                continue  # an idle shard costs no write
            if holder is not None:
                if not finder.leases.take(shard, holder=holder, now=now, until=now + SWEEP_LEASE):
                    self.busy += 1
                    continue
                self.shards.append(shard)
            for action, rows in due.items():
                if rows is not None:
                    self._rows[action].append(rows)

    def queue(self, action: Action) -> "_Queue":
        return _Queue(heapq.merge(*self._rows[action], key=lambda one: one.due_at))


class _Queue(Iterator[Item]):
    """Due rows, longest due first; the first that was not taken can be looked at."""

    def __init__(self, rows: Iterator[Due]) -> None:
        self._rows = rows

    def __next__(self) -> Item:
        return Item(key=next(self._rows).job_key)

    def peek(self) -> Due | None:
        first = next(self._rows, None)
        if first is not None:
            self._rows = chain((first,), self._rows)
        return first


class _Lost(Iterator[Item]):
    """Work that our own rows ask for and that has no job; read when the first is wanted."""

    def __init__(
        self, finder: Finder, sweep: Sweep, now: datetime, *, knows_every_job: bool
    ) -> None:
        self.asking = 0
        self.trouble: str | None = None
        # After a restore an order without a job may have been paid by one whose row is lost.
        self._found = self._find(finder, sweep, now) if knows_every_job else iter(())

    def __next__(self) -> Item:
        return next(self._found)

    def _find(self, finder: Finder, sweep: Sweep, now: datetime) -> Iterator[Item]:
        try:
            requested = list(_requested(finder, sweep, now))
            self.asking = len(requested)
            for item in _turn(requested, now):
                if finder.store.get(item.key) is None:
                    yield item
        except OncelyError as error:
            self.trouble = str(error)  # what is due must be resolved all the same


def _requested(finder: Finder, sweep: Sweep, now: datetime) -> Iterator[Item]:
    """What our own rows ask for; each may have a job, and most do."""
    for kind in finder.registry:
        if sweep.job_type not in (None, kind.job_type):
            continue
        for message in kind(finder.tools).unserved(now=now):
            with suppress(BadInputError):  # never a job: its message is rejected, with the reason
                yield Item(key=kind.key(message), message=message.as_json())


def _begun(rows: Iterator[Due]) -> Iterator[Due] | None:
    """The same rows, or None if there are none."""
    first = next(rows, None)
    return None if first is None else chain((first,), rows)


def _take_turns(sources: Iterable[Iterator[Item]]) -> Iterator[Item]:
    """One of each in turn; one that has no more is left out."""
    waiting = deque(sources)
    while waiting:
        source = waiting.popleft()
        for item in islice(source, 1):
            yield item
            waiting.append(source)


def _that_fit(items: Iterable[Item]) -> Iterator[Item]:
    """As many as one page can carry with their messages; the others are found again."""
    size = 0
    for item in items:
        size += len(json.dumps(item.as_json()))
        if size > PAGE_BYTES:
            return
        yield item


def _turn(asked_for: Sequence[Item], now: datetime) -> Sequence[Item]:
    """Some of them, and each minute other ones.

    Many that wait for a person then hide none that is lost, and no sweep reads a row for each.
    """
    if len(asked_for) <= LOOKS:
        return asked_for
    first = int(now.timestamp() / _TURN.total_seconds()) * LOOKS % len(asked_for)
    return (*asked_for[first:], *asked_for[:first])[:LOOKS]
