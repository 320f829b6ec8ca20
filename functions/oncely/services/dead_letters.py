"""Brings a message that its worker gave up on to a known state; the row carries the job on."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from oncely.domain.due import dead_letter, stranded
from oncely.domain.errors import BadInputError, OncelyError, UnavailableError
from oncely.domain.jobs import enqueued
from oncely.domain.keys import JobKey, findable
from oncely.domain.text import one_line
from oncely.ports import Alert, Alerts, Clock, Created, Inbox, JobStore
from oncely.registry import Registry
from oncely.services.settle import Settler

ACTOR: Final = "dead letters"
_ROUNDS: Final = 5


class Fate(StrEnum):
    """What became of a dead letter."""

    KEPT = "kept"  # a ready row carries it, and falls due later
    CARRIED = "carried"  # its row is held, asked about, with a person, or ended
    REVIEW = "needs_review"  # it was here before, and no worker ever took it
    REJECTED = "rejected"  # it never was a job
    LEFT = "left"  # our own side failed: it stays in the queue


@dataclass(frozen=True, kw_only=True)
class Received:
    """One dead letter, and what became of it."""

    message_id: str
    fate: Fate
    reason: str
    job_key: JobKey | None = None


@dataclass(frozen=True, kw_only=True)
class DeadLetters:
    """The consumer of the dead letter queue."""

    registry: Registry
    store: JobStore
    alerts: Alerts
    inbox: Inbox
    clock: Clock

    def receive_all(self, bodies: Mapping[str, str]) -> list[Received]:
        """Receive each by its message id, and tell a person once for all of them."""
        received = [self._receive(message_id, body) for message_id, body in bodies.items()]
        lines = (
            f"{letter.job_key or letter.message_id}: {one_line(letter.reason)}"
            for letter in received
        )
        self.alerts.tell(
            Alert(
                subject=f"Oncely: {len(received)} dead letters",
                text="Workers gave up on these messages; their rows carry the jobs on.\n"
                + "\n".join(lines)
                + "\nNext: look for errors in the worker's log; the rows are sent again.",
            )
        )
        return received

    def _receive(self, message_id: str, body: str) -> Received:
        try:
            fate, reason, key = self._settle(body)
        except BadInputError as error:
            return self._reject(message_id, body, str(error))
        except OncelyError as error:
            return Received(message_id=message_id, fate=Fate.LEFT, reason=str(error))
        return Received(message_id=message_id, fate=fate, reason=reason, job_key=key)

    def _reject(self, message_id: str, body: str, reason: str) -> Received:
        try:
            self.inbox.reject(body, reason=reason, message_id=message_id)
        except Exception as error:  # noqa: BLE001  # it stays in the queue; its neighbours go on
            return Received(message_id=message_id, fate=Fate.LEFT, reason=f"{reason}; {error}")
        return Received(message_id=message_id, fate=Fate.REJECTED, reason=reason)

    def _settle(self, body: str) -> tuple[Fate, str, JobKey]:
        """Make sure that a row carries the job."""
        kind, message = self.registry.parse(body)
        key = kind.key(message)
        for _ in range(_ROUNDS):
            row = self.store.get(key)
            now = self.clock.now()
            if row is None:
                reason = "its message came to the dead letters before any worker took it"
                job = enqueued(
                    key,
                    kind.job_type,
                    message.as_json(),
                    now=now,
                    due_at=now,
                    actor=ACTOR,
                    reason=reason,
                    subject=findable(kind.subject(message)),
                )
                if isinstance(self.store.create(stranded(job, now)), Created):
                    return Fate.KEPT, reason, key
                continue
            decision = dead_letter(row, now)
            if decision is None:
                return Fate.CARRIED, f"it is {row.status}", key
            settler = Settler(store=self.store, alerts=self.alerts, clock=self.clock, actor=ACTOR)
            if settler.settle(row, decision).job is not None:
                return (Fate.REVIEW if decision.alert else Fate.KEPT), decision.reason, key
        raise UnavailableError(f"the row of {key} kept changing; it is looked at again")
