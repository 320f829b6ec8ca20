"""Resolves one job that is due: asks the provider, and never acts."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, assert_never

from oncely.contract import AnyContract, Call, Mismatch
from oncely.domain.answers import Answer, Odd, OwnerGone, Unreachable
from oncely.domain.decide import Step, decide, due_step, send_again
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event
from oncely.ports import Alerts, Clock, JobStore, Outbox, Tools
from oncely.registry import Registry
from oncely.services.settle import Settlement, Settler

ACTOR: Final = "reconciler"


@dataclass(frozen=True, kw_only=True)
class Reconciler:
    """Brings an unresolved job one step further."""

    registry: Registry
    tools: Tools
    store: JobStore
    alerts: Alerts
    clock: Clock
    spread: Callable[[], float]
    outbox: Callable[[str], Outbox]

    def resolve(self, key: JobKey) -> Settlement | None:
        """One transition, or None when there is nothing to do."""
        row = self.store.get(key)
        if row is None:
            return None
        now = self.clock.now()
        kind, message = self.registry.read(row.message)
        contract = kind(self.tools)
        match due_step(row, now):
            case Step.NOTHING:
                return None
            case Step.BURY:
                return self._apply(contract, row, OwnerGone())
            case Step.SEND:
                return self._send(contract, row, now)
            case Step.ASK:
                standing = contract.check(message)
                if isinstance(standing, Mismatch):
                    return self._apply(contract, row, Odd(standing.reason))
                if standing.facts is None:
                    answer: Answer = Odd("our own rows do not tell any more what was asked for")
                    return self._apply(contract, row, answer)
                return self._ask(contract, row, standing.facts)
            case unreachable:
                assert_never(unreachable)

    def _ask(self, contract: AnyContract, row: Job, facts: Any) -> Settlement:  # noqa: ANN401  # the contract's own type
        try:
            answer = contract.ask(Call(job=row, facts=facts))
        except Exception as error:  # noqa: BLE001  # asking changes nothing: it is asked again
            answer = Unreachable(f"asking ended in {type(error).__name__}: {error}")
        return self._apply(contract, row, answer, facts)

    def _apply(
        self,
        contract: AnyContract,
        row: Job,
        answer: Answer,
        facts: Any = None,  # noqa: ANN401  # the contract's own type
    ) -> Settlement:
        decision = decide(
            row,
            contract.terms,
            answer,
            now=self.clock.now(),
            scope=contract.scope(),
            spread=self.spread(),
        )
        settlement = self._settler().settle(
            row,
            decision,
            terms=contract.terms,
            answer=answer,
            local=lambda after: contract.local_writes(decision.event, facts, after, answer),
        )
        if settlement.job and decision.run_at and decision.run_at <= self.clock.now():
            self._enqueue(contract, settlement.job)
        return settlement

    def _send(self, contract: AnyContract, row: Job, now: datetime) -> Settlement:
        decision = send_again(row, contract.terms, now)
        settlement = self._settler().settle(row, decision, terms=contract.terms)
        if settlement.job and decision.event is Event.RESEND:
            self._enqueue(contract, settlement.job)
        return settlement

    def _enqueue(self, contract: AnyContract, job: Job) -> None:
        self.outbox(contract.needs.queue).send([json.dumps(dict(job.message))])

    def _settler(self) -> Settler:
        return Settler(store=self.store, alerts=self.alerts, clock=self.clock, actor=ACTOR)
