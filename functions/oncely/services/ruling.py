"""A person's word about what is true outside: it ends a job, and our own rows follow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oncely.contract import AnyContract, Message, Mismatch, Settled, Standing
from oncely.domain.answers import Done, Odd
from oncely.domain.due import no_longer_the_same
from oncely.domain.fingerprint import fingerprint
from oncely.domain.jobs import Job
from oncely.domain.moves import Decision
from oncely.domain.repairs import Repair, done_by_another, rule
from oncely.domain.writes import LocalWrite
from oncely.services.repair_order import LocalRowsRefuse, Outcome
from oncely.services.repair_write import RepairWrite


@dataclass(frozen=True)
class Ruling:
    """One person's word about one job."""

    write: RepairWrite

    def with_our_rows(self, row: Job, contract: AnyContract, message: Message) -> Outcome:
        """The business rows that belong to it change in the same write."""
        decision = self._decision(row, self.write.order.reason)
        local = self._local_writes(row, decision, contract, message)
        if isinstance(local, str):
            return LocalRowsRefuse(local)
        return self.write.over(row, decision, "a person's word", local=local, contract=contract)

    def alone(self, row: Job) -> Outcome:
        """A job whose message cannot be read here ends by that word, and nothing else changes."""
        decision = self._decision(row, f"closed without our own rows: {self.write.order.reason}")
        said = "a person's word; our own rows are not changed, mend them by hand"
        return self.write.over(row, decision, said)

    def _decision(self, row: Job, reason: str) -> Decision:
        order = self.write.order
        return rule(row, order.repair, reason=reason, reference=order.reference)

    def _local_writes(
        self, row: Job, decision: Decision, contract: AnyContract, message: Message
    ) -> Callable[[Job], Sequence[LocalWrite]] | str:
        """The business rows that go along with a person's word, or why they cannot."""
        finishes = self.write.order.repair is Repair.FINISH
        standing = contract.check(message)
        if isinstance(standing, Settled) and isinstance(standing.answer, Done) and finishes:
            writes = standing.writes
            return lambda _: writes  # our rows say so already
        if isinstance(standing, Settled) and done_by_another(row, standing.answer):
            return lambda _: ()  # what another did stays done
        moved_on = changed_since(row, standing)
        facts = None if isinstance(standing, Mismatch) or moved_on else standing.facts
        if facts is not None:
            answer = Done(self.write.order.reason)
            return lambda after: contract.local_writes(decision.event, facts, after, answer)
        if finishes:
            why = moved_on or "our own rows do not tell any more what was asked for"
            return f"{why}: mend them, or undo it outside and mark it as failed"
        # What is not done outside changes none of our rows, whatever they say by now.
        return lambda _: ()


def changed_since(row: Job, standing: Standing[Any]) -> str | None:
    """What our own rows say by now, if it is not what a worker claimed the job for."""
    if isinstance(standing, Mismatch):
        return standing.reason
    if isinstance(standing, Settled) and isinstance(standing.answer, Odd):
        return standing.answer.reason
    values = standing.values
    decision = no_longer_the_same(row, None if values is None else fingerprint(values))
    return None if decision is None else decision.reason


def cannot_be_claimed(row: Job, standing: Standing[Any]) -> str | None:
    """Why no worker would take this job any more; None if one would."""
    if isinstance(standing, Mismatch):
        return standing.reason
    if standing.facts is None:
        return "our own rows do not tell any more what was asked for"
    values = standing.values
    decision = no_longer_the_same(row, None if values is None else fingerprint(values))
    return None if decision is None else decision.reason
