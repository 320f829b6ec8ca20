"""Brings a message that its worker gave up on to a known state; the row carries the job on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from oncely.domain.due import dead_letter, stranded
from oncely.domain.errors import BadInputError, UnavailableError
from oncely.domain.keys import JobKey
from oncely.ports import Alerts, Clock, Created, Inbox, JobStore, TableGuard, TableRefused
from oncely.registry import Registry
from oncely.services import alert_texts
from oncely.services.new_row import new_row
from oncely.services.settle import Settler
from oncely.services.tell import Teller

ACTOR: Final = "dead letters"
# Each round was lost to someone who took, made or wrote the row in that very moment.
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
    guard: TableGuard
    stack: str = ""  # names the deployment in alerts

    def receive_all(self, bodies: Mapping[str, str]) -> list[Received]:
        """Receive each by its message id, and tell a person once for all of them.

        If nobody could be told, all stay in the queue: coming again changes no row.
        """
        received = [self._receive(message_id, body) for message_id, body in bodies.items()]
        if not self._tell(received):
            return [replace(letter, fate=Fate.LEFT) for letter in received]
        return [
            self._reject(letter, bodies[letter.message_id])
            if letter.fate is Fate.REJECTED
            else letter
            for letter in received
        ]

    def _tell(self, received: list[Received]) -> bool:
        """Tell of all but those that come again, and of those that their own alert tells of."""
        news = [
            (letter.job_key or letter.message_id, letter.reason)
            for letter in received
            if letter.fate not in {Fate.LEFT, Fate.REVIEW}
        ]
        return not news or self.alerts.tell(alert_texts.dead_letters(news, stack=self.stack))

    def _receive(self, message_id: str, body: str) -> Received:
        try:
            fate, reason, key = self._settle(body)
        except BadInputError as error:
            return Received(message_id=message_id, fate=Fate.REJECTED, reason=str(error))
        except Exception as error:  # noqa: BLE001  # such as a newer version's row; its neighbours go on
            reason = f"{type(error).__name__}: {error}"
            return Received(message_id=message_id, fate=Fate.LEFT, reason=reason)
        return Received(message_id=message_id, fate=fate, reason=reason, job_key=key)

    def _reject(self, letter: Received, body: str) -> Received:
        try:
            self.inbox.reject(body, reason=letter.reason, message_id=letter.message_id)
        except Exception as error:  # noqa: BLE001  # it stays in the queue; its neighbours go on
            return replace(letter, fate=Fate.LEFT, reason=f"{letter.reason}; {error}")
        return letter

    def _settle(self, body: str) -> tuple[Fate, str, JobKey]:
        """Make sure that a row carries the job."""
        table = self.guard.check()
        if isinstance(table, TableRefused):
            raise UnavailableError(table.reason)
        kind, message = self.registry.parse(body)
        key = kind.key(message)
        for _ in range(_ROUNDS):
            row = self.store.get(key)
            now = self.clock.now()
            if row is None:
                reason = "its message came to the dead letters before any worker took it"
                job = new_row(kind, message, now=now, due_at=now, actor=ACTOR, reason=reason)
                if isinstance(self.store.create(stranded(job, now)), Created):
                    return Fate.KEPT, reason, key
                continue
            decision = dead_letter(row, now)
            if decision is None:
                return Fate.CARRIED, f"it is {row.status}", key
            if self._settler().settle(row, decision).job is not None:
                return (Fate.REVIEW if decision.alert else Fate.KEPT), decision.reason, key
        raise UnavailableError(f"the row of {key} kept changing; it is looked at again")

    def _settler(self) -> Settler:
        teller = Teller(
            store=self.store,
            alerts=self.alerts,
            clock=self.clock,
            actor=ACTOR,
            stack=self.stack,
        )
        return Settler(store=self.store, clock=self.clock, actor=ACTOR, teller=teller)
