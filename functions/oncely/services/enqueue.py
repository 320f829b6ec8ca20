"""Unique enqueue: the row first, then the message, so that a crash in between loses nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypeAlias

from oncely.contract import AnyContract, Message, body_of
from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.moves import MESSAGE_GRACE
from oncely.domain.text import one_line
from oncely.ports import (
    Clock,
    Created,
    Exists,
    JobStore,
    Outbox,
    UniqueWindows,
    Window,
    WindowHeld,
)
from oncely.registry import Registry
from oncely.services.new_row import new_row

_ACTOR: Final = "producer"
_ROWS_AT_ONCE: Final = 8
# A window changes hands at most once between a look at its holder and the next try.
_ROUNDS: Final = 3
_WRITTEN: Final = "the job is written all the same, and is sent by the reconciler when it falls due"

_Asked: TypeAlias = tuple[type[AnyContract], Message]
_Outboxes: TypeAlias = Mapping[str, Outbox]


@dataclass(frozen=True, kw_only=True)
class Enqueued:
    """The job that stands for a message: a new one, or the one that was there."""

    job_key: JobKey
    status: Status
    created: bool
    sent: bool = False  # False for a new job: its row is there, and is sent when it falls due
    conflict: str | None = None  # the message says something else than the job that was there


@dataclass(frozen=True)
class _Order:
    """A message on its way: its contract, and the row that stands for it."""

    contract: type[AnyContract]
    message: Message
    row: Job
    created: bool

    @property
    def conflict(self) -> str | None:
        """What this message and the first one of the same job both say, differently."""
        if self.row.job_key != self.contract.key(self.message):
            return None  # another job, which holds the window
        first, second = self.row.message, self.message.as_json()
        for name in sorted(first.keys() & second.keys()):
            if first[name] != second[name]:
                return f"{name} was {first[name]!r} in the first message, is {second[name]!r} now"
        return None

    @property
    def wants_sending(self) -> bool:
        """A new job, or a message that says more than the first: the worker must check it."""
        if self.row.job_key != self.contract.key(self.message):
            return False
        more = self.message.as_json().keys() - self.row.message.keys()
        return self.created or (bool(more) and self.conflict is None)


@dataclass(frozen=True, kw_only=True)
class Enqueuer:
    """The producer's helper."""

    registry: Registry
    store: JobStore
    windows: UniqueWindows
    outbox: Callable[[str], Outbox]  # the queue by its short name
    clock: Clock
    new_token: Callable[[], str]

    def enqueue(
        self,
        message: Mapping[str, object],
        *,
        unique_for: timedelta | None = None,
        actor: str = _ACTOR,
        reason: str = "enqueued",
    ) -> Enqueued:
        """Enqueue one job; a second time, the first job's key and status come back."""
        asked, outboxes = self._read([message])
        orders = [self._write(one, unique_for, actor, reason) for one in asked]
        return self._send(orders, outboxes)[0]

    def enqueue_many(
        self, messages: Iterable[Mapping[str, object]], *, unique_for: timedelta | None = None
    ) -> list[Enqueued]:
        """Enqueue many; answers in the same order. A bad message raises before anything is sent."""
        asked, outboxes = self._read(messages)
        with ThreadPoolExecutor(max_workers=_ROWS_AT_ONCE) as pool:
            orders = list(pool.map(lambda one: self._write(one, unique_for), asked))
        return self._send(orders, outboxes)

    def _read(self, messages: Iterable[Mapping[str, object]]) -> tuple[list[_Asked], _Outboxes]:
        """What is asked for, and where to send it: what is wrong is said before a row is there."""
        asked = [self.registry.read(message) for message in messages]
        for contract, message in asked:
            contract.key(message)
        queues = dict.fromkeys(contract.needs.queue for contract, _ in asked)
        return asked, {queue: self.outbox(queue) for queue in queues}

    def _write(
        self,
        asked: _Asked,
        unique_for: timedelta | None,
        actor: str = _ACTOR,
        reason: str = "enqueued",
    ) -> _Order:
        contract, message = asked
        now = self.clock.now()
        job = new_row(
            contract,
            message,
            now=now,
            due_at=now + MESSAGE_GRACE,
            actor=actor,
            reason=one_line(reason),
            owner=self.new_token(),
        )
        if unique_for is None:
            found = self.store.create(job)
        else:
            window = Window(name=contract.window_name(message), now=now, until=now + unique_for)
            found = self._create_in(window, job)
        match found:
            case Created(job=row):
                return _Order(contract, message, row, created=True)
            case Exists(row=row):
                return _Order(contract, message, row, created=False)

    def _create_in(self, window: Window, job: Job) -> Created | Exists:
        former: JobKey | None = None
        for _ in range(_ROUNDS):
            match self.windows.create(job, window, instead_of=former):
                case WindowHeld(by=holder):
                    row = self.store.get(holder)
                    if row is not None and not row.has_started:
                        return Exists(row)
                    former = holder
                case found:
                    return found
        raise UnavailableError(f"the window {window.name} kept changing hands; try again")

    def _send(self, orders: Sequence[_Order], outboxes: _Outboxes) -> list[Enqueued]:
        answers = [
            Enqueued(
                job_key=order.row.job_key,
                status=order.row.status,
                created=order.created,
                conflict=order.conflict,
            )
            for order in orders
        ]
        by_queue: dict[str, list[int]] = {}
        for index, order in enumerate(orders):
            if order.wants_sending:
                by_queue.setdefault(order.contract.needs.queue, []).append(index)
        for queue, indexes in by_queue.items():
            bodies = [body_of(orders[index].message.as_json()) for index in indexes]
            try:
                taken = outboxes[queue].send(bodies)
            except NotConfiguredError as error:
                # Whoever asked must not take it for a no: the rows are there.
                raise NotConfiguredError(f"{error}; {_WRITTEN}") from error
            for index, sent in zip(indexes, taken, strict=True):
                answers[index] = replace(answers[index], sent=sent)
        return answers
