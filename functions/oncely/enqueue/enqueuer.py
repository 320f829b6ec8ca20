"""Enqueues jobs: writes the row, then sends the message, so that a crash loses nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from oncely.contract import AnyContract, Message, encode_message
from oncely.domain.decisions import MESSAGE_GRACE
from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.jobs import Job, new_job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.text import single_line
from oncely.ports import (
    AlreadyExists,
    Clock,
    Created,
    JobStore,
    MessageSender,
    UniqueWindow,
    UniqueWindows,
    WindowTaken,
)
from oncely.registry import ContractRegistry

_ACTOR: Final = "producer"
_WRITE_CONCURRENCY: Final = 8
# A window rarely changes its holder between the read and the next attempt.
_MAX_CAS_RETRIES: Final = 3
_STILL_WRITTEN_NOTE: Final = (
    "the row of the job exists, and the reconciler sends its message when due"
)

_ParsedMessage: TypeAlias = tuple[type[AnyContract], Message]
_Senders: TypeAlias = Mapping[str, MessageSender]


@dataclass(frozen=True, kw_only=True)
class EnqueueResult:
    """The job of a message: a new one, or the one that existed."""

    job_key: JobKey
    status: Status
    created: bool
    sent: bool = False  # if False for a new job, its row resends the message when due
    conflict: str | None = None  # how the message differs from the existing job


@dataclass(frozen=True)
class _PendingEnqueue:
    """A message with its contract and its row."""

    contract: type[AnyContract]
    message: Message
    row: Job
    created: bool

    @property
    def conflict(self) -> str | None:
        """The first field in which this message differs from the first one of the job."""
        if self.row.job_key != self.contract.key(self.message):
            return None  # another job holds the window
        first, second = self.row.message, self.message.to_dict()
        for name in sorted(first.keys() & second.keys()):
            if first[name] != second[name]:
                return f"{name} was {first[name]!r} in the first message, is {second[name]!r} now"
        return None

    @property
    def needs_sending(self) -> bool:
        """Whether a worker must check it: a new job, or more fields than the first message."""
        if self.row.job_key != self.contract.key(self.message):
            return False
        more = self.message.to_dict().keys() - self.row.message.keys()
        return self.created or (bool(more) and self.conflict is None)


@dataclass(frozen=True, kw_only=True)
class Enqueuer:
    """Enqueues messages for producers."""

    registry: ContractRegistry
    store: JobStore
    windows: UniqueWindows
    sender_for_queue: Callable[[str], MessageSender]  # by the short name of the queue
    clock: Clock
    new_token: Callable[[], str]

    def enqueue(
        self,
        message: Mapping[str, object],
        *,
        unique_for: timedelta | None = None,
        actor: str = _ACTOR,
        reason: str = "enqueued",
    ) -> EnqueueResult:
        """Enqueue one job. For a duplicate, returns the existing job's key and status."""
        parsed, senders = self._parse([message])
        pending = [self._write(one, unique_for, actor, reason) for one in parsed]
        return self._send(pending, senders)[0]

    def enqueue_many(
        self, messages: Iterable[Mapping[str, object]], *, unique_for: timedelta | None = None
    ) -> list[EnqueueResult]:
        """Enqueue many jobs, with results in the same order.

        An invalid message raises before anything is written.
        """
        parsed, senders = self._parse(messages)
        with ThreadPoolExecutor(max_workers=_WRITE_CONCURRENCY) as pool:
            pending = list(pool.map(lambda one: self._write(one, unique_for), parsed))
        return self._send(pending, senders)

    def _parse(
        self, messages: Iterable[Mapping[str, object]]
    ) -> tuple[list[_ParsedMessage], _Senders]:
        """Parse all messages and find their queues before anything is written."""
        parsed = [self.registry.parse_mapping(message) for message in messages]
        for contract, message in parsed:
            contract.key(message)
        queues = dict.fromkeys(contract.resources.queue for contract, _ in parsed)
        return parsed, {queue: self.sender_for_queue(queue) for queue in queues}

    def _write(
        self,
        parsed: _ParsedMessage,
        unique_for: timedelta | None,
        actor: str = _ACTOR,
        reason: str = "enqueued",
    ) -> _PendingEnqueue:
        contract, message = parsed
        now = self.clock.now()
        job = row_from_message(
            contract,
            message,
            now=now,
            due_at=now + MESSAGE_GRACE,
            actor=actor,
            reason=single_line(reason),
            owner=self.new_token(),
        )
        if unique_for is None:
            result = self.store.create(job)
        else:
            window = UniqueWindow(
                name=contract.uniqueness_key(message), now=now, until=now + unique_for
            )
            result = self._create_in_window(window, job)
        match result:
            case Created(job=row):
                return _PendingEnqueue(contract, message, row, created=True)
            case AlreadyExists(row=row):
                return _PendingEnqueue(contract, message, row, created=False)

    def _create_in_window(self, window: UniqueWindow, job: Job) -> Created | AlreadyExists:
        previous_holder: JobKey | None = None
        for _ in range(_MAX_CAS_RETRIES):
            match self.windows.create(job, window, replacing=previous_holder):
                case WindowTaken(holder=holder):
                    row = self.store.get(holder)
                    if row is not None and not row.was_claimed:
                        return AlreadyExists(row)
                    previous_holder = holder
                case found:
                    return found
        raise UnavailableError(f"the window {window.name} changed its holder repeatedly; try again")

    def _send(self, pending: Sequence[_PendingEnqueue], senders: _Senders) -> list[EnqueueResult]:
        results = [
            EnqueueResult(
                job_key=order.row.job_key,
                status=order.row.status,
                created=order.created,
                conflict=order.conflict,
            )
            for order in pending
        ]
        by_queue: dict[str, list[int]] = {}
        for index, order in enumerate(pending):
            if order.needs_sending:
                by_queue.setdefault(order.contract.resources.queue, []).append(index)
        for queue, indexes in by_queue.items():
            bodies = [encode_message(pending[index].message.to_dict()) for index in indexes]
            try:
                accepted = senders[queue].send(bodies)
            except NotConfiguredError as error:
                # The rows exist, so the caller must not take this for a refusal.
                raise NotConfiguredError(f"{error}; {_STILL_WRITTEN_NOTE}") from error
            for index, sent in zip(indexes, accepted, strict=True):
                results[index] = replace(results[index], sent=sent)
        return results


def row_from_message(
    contract_type: type[AnyContract],
    message: Message,
    *,
    now: datetime,
    due_at: datetime,
    actor: str,
    reason: str,
    owner: str | None = None,
) -> Job:
    """The row of a job that no worker has claimed yet."""
    return new_job(
        contract_type.key(message),
        contract_type.job_type,
        message.to_dict(),
        now=now,
        due_at=due_at,
        actor=actor,
        reason=reason,
        owner=owner,
        subject=contract_type.indexed_subject(message),
    )
