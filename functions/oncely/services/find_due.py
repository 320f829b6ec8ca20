"""Finds what the reconciler should look at: due rows, and work that never became a row."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from oncely.domain.due import ONLY_BY_A_SWEEP
from oncely.domain.errors import BadInputError, InvalidMessageError, OncelyError
from oncely.domain.keys import MAX_KEY, JobKey
from oncely.domain.lifecycle import UNRESOLVED, Status
from oncely.domain.times import instant
from oncely.domain.writes import Json
from oncely.ports import Clock, Due, DueIndex, JobStore, TableGuard, TableRefused, Tools
from oncely.registry import Registry

MOST: Final = 200
# Rows that one sweep reads to see whether work that our own rows ask for has a job.
LOOKS: Final = 200
# Step Functions hands on 256 kB at most, and the keys need their part of it.
MESSAGE_BYTES: Final = 150_000
# Rows that one sweep reads to tell the age of the oldest: one, unless people have returned some.
_AGES: Final = 20
_STATUSES: Final = frozenset(Status)
_TURN: Final = timedelta(minutes=1)  # each sweep of the schedule looks at other ones


class Sweep(BaseModel):
    """What to look for; the same input from the schedule, the page, the command and by hand."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    job_type: str | None = None
    key: Annotated[str, Field(min_length=1, max_length=MAX_KEY)] | None = None
    since: str | None = Field(default=None, alias="from")
    until: str | None = Field(default=None, alias="to")
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST
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


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing to resolve: a row by its key, or a message that has no row yet."""

    key: JobKey
    message: dict[str, Json] | None = None
    asked_for: bool = False  # by its key: it is looked at though its time has not come


@dataclass(frozen=True, kw_only=True)
class Found:
    """The items, and how long the oldest unresolved job has been waiting."""

    items: tuple[Item, ...]
    oldest_age: timedelta
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
    clock: Clock
    guard: TableGuard

    def find(self, sweep: Sweep) -> Found:
        """What a sweep should resolve, the longest due first."""
        table = self.guard.check()
        if isinstance(table, TableRefused):
            return Found(items=(), oldest_age=timedelta(0), refused=table.reason)
        if sweep.key is not None:
            asked_for = Item(key=JobKey(sweep.key), asked_for=True)
            return Found(items=(asked_for,), oldest_age=timedelta(0))
        now = self.clock.now()
        due = list(islice(self._due(sweep, now), sweep.limit))
        if len(due) == sweep.limit:
            due = self._shared_out(due, sweep, now)
        items = [Item(key=one.job_key) for one in due]
        asking, trouble = 0, None
        room = sweep.limit - len(items)
        # After a restore an order without a job may have been paid by one whose row is lost.
        if room and table.knows_every_job(now):
            try:
                asked_for_work = list(self._asked_for(sweep, now))
                asking = len(asked_for_work)
                items += _as_fit(islice(self._unserved(_turn(asked_for_work, now)), room))
            except OncelyError as error:
                trouble = str(error)  # what is due must be resolved all the same
        return Found(
            items=tuple(items),
            oldest_age=now - self._oldest(due, now),
            asking=asking,
            trouble=trouble,
        )

    def _shared_out(self, due: list[Due], sweep: Sweep, now: datetime) -> list[Due]:
        """Half of a full sweep is for what nobody else brings on, a tenth for work without a row.

        After an import many thousand ended jobs may be due at once, and the stream is at work on
        them; a charge that is unknown must not wait, nor be hidden from its alarm, behind those.
        """
        half, tenth = max(1, sweep.limit // 2), sweep.limit // 10
        first = list(islice(self._due(sweep, now, ONLY_BY_A_SWEEP), half))
        return [*first, *(one for one in due if one not in first)][: sweep.limit - tenth]

    def _due(
        self, sweep: Sweep, now: datetime, statuses: frozenset[Status] = frozenset(Status)
    ) -> Iterator[Due]:
        rows = self.index.due(
            since=None if sweep.since is None else instant(sweep.since),
            until=now if sweep.until is None else min(now, instant(sweep.until)),
            statuses=statuses,
        )
        return _known_first(one for one in rows if sweep.job_type in (None, one.job_type))

    def _oldest(self, due: Sequence[Due], now: datetime) -> datetime:
        """Since when the oldest unresolved job waits; only its row tells of a person's return."""
        waiting = sorted(
            (one for one in due if one.status in UNRESOLVED), key=lambda one: one.created_at
        )
        oldest = now
        for place, one in enumerate(waiting):
            if one.created_at >= oldest:
                break
            oldest = min(oldest, self._age_begins(one) if place < _AGES else one.created_at)
        return oldest

    def _age_begins(self, one: Due) -> datetime:
        try:
            row = self.store.get(one.job_key)
        except OncelyError:
            return one.created_at  # too old is a question, too young would be a silence
        return one.created_at if row is None else row.age_begins

    def _asked_for(self, sweep: Sweep, now: datetime) -> Iterator[Item]:
        """What our own rows ask for; each may have a job, and most do."""
        for kind in self.registry:
            if sweep.job_type not in (None, kind.job_type):
                continue
            for message in kind(self.tools).unserved(now=now):
                try:
                    key = kind.key(message)
                except BadInputError:
                    continue  # never a job: its own message is rejected, with the reason
                yield Item(key=key, message=message.as_json())

    def _unserved(self, asked_for: Iterable[Item]) -> Iterator[Item]:
        return (item for item in asked_for if self.store.get(item.key) is None)


def _known_first(rows: Iterable[Due]) -> Iterator[Due]:
    """A newer version's rows last: nobody here can bring them on, and they must hide no others."""
    unknown: list[Due] = []
    for one in rows:
        if one.status in _STATUSES:
            yield one
        elif len(unknown) < MOST:
            unknown.append(one)
    yield from unknown


def _as_fit(items: Iterable[Item]) -> Iterator[Item]:
    """As many as one sweep can carry with their messages; the others are found again."""
    size = 0
    for item in items:
        size += len(json.dumps(item.message))
        if size > MESSAGE_BYTES:
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
