"""Sends messages for an operator. What needs a second operator waits for one in its row."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from oncely.core.job_row import JobRow, operator_actor
from oncely.core.lifecycle import Event
from oncely.core.repairs import Repair
from oncely.enqueue.enqueuer import EnqueueResult
from oncely.operate.repair_request import (
    JobNotFound,
    Repaired,
    RepairRequest,
    RepairRequested,
    StaleVersion,
)
from oncely.operate.second_operator import (
    REQUEST_VALIDITY,
    PendingRepair,
    hold_new_job,
    needs_second_operator,
)

if TYPE_CHECKING:
    from oncely.app import App

# Each reads the business rows of one message.
_READ_CONCURRENCY: Final = 8
_CONFIRM: Final = "Another operator confirms it: return the job to ready, or send the same message"
_CHANGED: Final = "the job changed just now: send the message again"


@dataclass(frozen=True, kw_only=True)
class SendResult(EnqueueResult):
    """The job of an operator's message."""

    waits: str | None = None  # for a second operator, who must confirm it: nothing was sent


@dataclass(frozen=True, kw_only=True)
class OperatorSend:
    """Who sends, and why."""

    actor: str
    reason: str = ""
    signed_in_as: str | None = None  # the actor, unless the operator chose another name
    unique_for: timedelta | None = None

    @property
    def identity(self) -> str:
        """Who signed in. An operator can choose the actor's name, but not this."""
        return self.signed_in_as or self.actor


@dataclass(frozen=True)
class OperatorSender:
    """Sends as a producer does, unless what a message causes needs a second operator."""

    app: "App"

    def send(self, messages: Sequence[Mapping[str, object]], by: OperatorSend) -> list[SendResult]:
        """Send messages, with results in the same order. An invalid one raises before any write."""
        self.app.enqueuer.check(messages)
        with ThreadPoolExecutor(max_workers=_READ_CONCURRENCY) as pool:
            waits = list(pool.map(self._needs_second_operator, messages))
        free = [message for message, wait in zip(messages, waits, strict=True) if not wait]
        sent = iter(
            self.app.enqueuer.enqueue_many(
                free,
                unique_for=by.unique_for,
                actor=operator_actor(by.actor),
                reason=by.reason,
            )
        )
        return [
            self._hold(message, by) if wait else SendResult(**vars(next(sent)))
            for message, wait in zip(messages, waits, strict=True)
        ]

    def _needs_second_operator(self, message: Mapping[str, object]) -> bool:
        """Whether another operator must confirm what this message causes, if it causes anything."""
        contract = self.app.registry.parse_mapping(message).with_tools(self.app.ports)
        return needs_second_operator(
            self.app,
            Repair.REOPEN,
            contract_type=type(contract),
            prechecks=lambda: [contract.precheck()],
        )

    def _hold(self, message: Mapping[str, object], by: OperatorSend) -> SendResult:
        """Write the row with a request, or add one to a review that the message would run.

        Any other row has all that it needs to run, so the message is only compared with it.
        """
        contract = self.app.registry.parse_mapping(message)
        requested = PendingRepair(
            repair=Repair.REOPEN,
            reference=None,
            operator=by.actor,
            identity=by.identity,
            until=self.app.ports.clock.now() + REQUEST_VALIDITY,
        )
        actor = operator_actor(by.actor)
        make_row = partial(hold_new_job, requested=requested, actor=actor, reason=by.reason)
        found, row = self.app.enqueuer.hold(message, make_row, unique_for=by.unique_for)
        result = SendResult(**vars(found))
        if result.created:
            return replace(result, waits=f"recorded as a request: {requested}. {_CONFIRM}")
        is_other = row.job_key != contract.job_key()
        if result.conflict or is_other or not row.takes_other_message:
            return result
        other_message = None if row.message == (sent := contract.to_dict()) else sent
        if row.allows(Event.REOPEN):
            request = RepairRequest(
                key=row.job_key,
                repair=Repair.REOPEN,
                version=row.version,
                reason=by.reason,
                actor=by.actor,
                signed_in_as=by.signed_in_as,
                message=other_message,
            )
            return self._reopen(row, request, result)
        if other_message is None:
            return result
        return replace(
            result,
            conflict="its row holds another message, which no worker has claimed. A message that "
            "needs a second operator cannot replace it: cancel the job, or wait for its review",
        )

    def _reopen(self, row: JobRow, request: RepairRequest, result: SendResult) -> SendResult:
        """Request to reopen the review, or confirm another operator's request."""
        match self.app.repairer.repair(request):
            case RepairRequested(details=details):
                return replace(result, waits=str(details))
            case Repaired(after=after):
                return replace(result, status=after.status, sent=True)
            case StaleVersion() | JobNotFound():
                return replace(result, conflict=_CHANGED)
            case refusal if PendingRepair.from_row(row, self.app.ports.clock.now()):
                return replace(result, waits=refusal.reason)
            case refusal:
                return replace(result, conflict=refusal.reason)
