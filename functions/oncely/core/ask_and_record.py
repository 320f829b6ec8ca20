"""Asks about one job and records the answer: the same for a sweep, an event and an operator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from oncely.core.attempt import DecisionResult, DecisionWriter, only_for
from oncely.core.decide import decide_lookup, escalate_if_other_deployment
from oncely.core.effect_outcomes import BusinessWrite, Declined, LookupOutcome, Succeeded
from oncely.core.hints import ReportedState, on_late_answer
from oncely.core.job_row import Decision, JobRow
from oncely.core.job_type import AnyJobType, AnyMessage
from oncely.core.lifecycle import Event
from oncely.core.lookup_effect import LookupResult, lookup_effect, with_key_scope
from oncely.core.profiles import EndpointGroup
from oncely.core.schedule import Clock
from oncely.core.surroundings import Hold, JobGate
from oncely.core.table_identity import TableOpen


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a lookup needs besides the row, and why it is made."""

    contract: AnyJobType
    message: AnyMessage
    table: TableOpen
    deadline: datetime | None = None  # until then it may wait for its slot
    reported: ReportedState | None = None  # by the event that asks
    note: str = ""  # why an operator asks: the evidence shows it with any answer


@dataclass(frozen=True)
class Asked:
    """What was recorded, and the answer. `lookup` is None if nothing had to be asked."""

    result: DecisionResult
    lookup: LookupResult | None = None


@dataclass(frozen=True, kw_only=True)
class Inquirer:
    """Asks at the provider's pace, and writes what the answer means for the job."""

    gate: JobGate
    clock: Clock
    jitter: Callable[[], float]
    writer: DecisionWriter

    def ask_and_record(self, row: JobRow, question: Question) -> Asked | Hold:
        """Look up the effect of a row that was just read, and record what that means for the job.

        Returns why the provider may not be asked now, if its gate is closed.
        """
        # Before the lookup: its result may be old by the time it is used.
        asked_at = self.clock.now()
        contract, deployment = question.contract, question.table.deployment
        elsewhere = escalate_if_other_deployment(row, contract.policy, deployment)
        if row.unresolved and elsewhere:
            return Asked(self.writer.write(row, only_for(row, elsewhere), contract=contract))
        # A provider that cannot be asked has no pace: its events are read.
        asks = row.unresolved or contract.policy.can_look_up
        group, deadline = EndpointGroup.LOOKUPS, question.deadline
        if asks and (hold := self.gate.enter(contract, group, deadline=deadline)):
            return hold
        lookup = lookup_effect(row, contract, question.message, question.table)
        return Asked(self._record(row, question, lookup, asked_at), lookup)

    def _record(
        self, row: JobRow, question: Question, lookup: LookupResult, asked_at: datetime
    ) -> DecisionResult:
        """Record an answer. Without facts there are no business writes."""
        contract, answer, facts = question.contract, lookup.outcome, lookup.facts

        def decide_on(newer: JobRow) -> Decision | None:
            if newer != row and not _still_answers(row, newer, question, answer):
                return None
            if question.note and not lookup.is_answered:
                return None  # the operator asks again
            if not newer.unresolved:
                late = on_late_answer(
                    newer,
                    contract.policy,
                    answer,
                    now=asked_at,
                    reported=question.reported,
                    note=question.note,
                )
                # An operator who asks may withdraw what another one requested.
                voids = {"pending_repair": None} if question.note else {}
                return late and replace(late, changes={**late.changes, **voids})
            key_scope, outcome = with_key_scope(contract, answer)
            decision = decide_lookup(
                # The row may have lost fields in a restore, such as its provider reference.
                replace(newer, **lookup.restored_fields),  # type: ignore[arg-type]  # fields by name
                self.gate.policy_for(newer, contract),
                outcome,
                now=asked_at,
                key_scope=key_scope,
                jitter=self.jitter(),
            )
            return replace(decision, changes={**lookup.restored_fields, **decision.changes})

        def writes(event: Event, after: JobRow) -> Sequence[BusinessWrite]:
            if facts is None:
                return ()
            if event is not Event.CONTRADICT:
                return contract.business_writes(event, facts, after, answer)
            # A refund that failed later frees its amount. A charge leaves its order paid: the
            # operator decides what the shop does.
            frees = contract.policy.may_fail_later and isinstance(answer, Declined)
            return contract.on_failure(facts, after) if frees else ()

        # If it is too late to end the job, the answer is evidence.
        kept = None if row.ended else answer
        return self.writer.write(
            row, decide_on, contract=contract, outcome=kept, business_writes=writes
        )


def _still_answers(row: JobRow, newer: JobRow, question: Question, answer: LookupOutcome) -> bool:
    """Whether the answer about a row counts for the row that others have added to since.

    An event may be newer than any answer that is not definite, and a row that waits for one is
    still due. A lookup may have read the proofs of the row. An operator has not seen the change.
    """
    is_definite = isinstance(answer, Succeeded | Declined)
    is_newest = newer.proofs == row.proofs and (is_definite or not newer.unresolved)
    return is_newest and not question.note
