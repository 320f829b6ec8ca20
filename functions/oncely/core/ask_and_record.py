"""Asks about one job and records the answer: the same for a sweep, an event and an operator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from oncely.core.attempt import DecisionResult, DecisionWriter, exclude_holds, only_for
from oncely.core.decide import decide_lookup, escalate_if_other_deployment
from oncely.core.due import flag_changed_values
from oncely.core.effect_outcomes import (
    Anomalous,
    BusinessWrite,
    Declined,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    Prepared,
    StillOpen,
    Succeeded,
    checked_lookup,
)
from oncely.core.errors import NotConfiguredError
from oncely.core.hints import ReportedState, on_late_answer
from oncely.core.job_row import Decision, JobRow
from oncely.core.job_type import (
    AlreadyResolved,
    AnyJobType,
    Call,
    Mismatch,
    PrecheckResult,
)
from oncely.core.keys import fingerprint
from oncely.core.lifecycle import Event
from oncely.core.profiles import EndpointGroup, RetrySafety
from oncely.core.schedule import Clock
from oncely.core.surroundings import Hold, JobGate
from oncely.core.table_guard import (
    TableGuard,
    TableOpen,
    may_have_lost_history,
    may_lack_reference,
)


@dataclass(frozen=True)
class LookupResult:
    """The outcome of a lookup. Without facts there are no business writes."""

    outcome: LookupOutcome
    facts: Any = None  # the contract's own type
    restored_fields: Mapping[str, str | None] = field(default_factory=dict)  # what the row lost

    @property
    def is_answered(self) -> bool:
        """Whether the business rows said what to look up, and the provider answered."""
        if isinstance(self.outcome, LookupFailed):
            return self.outcome.unknown_reference  # it answered, and waiting does not help
        unasked = isinstance(self.outcome, Anomalous) and self.facts is None
        return not unasked and not isinstance(self.outcome, LookupUnsupported)


def lookup_closed(row: JobRow, contract: AnyJobType) -> LookupOutcome:
    """Look up whether the prepared effect is closed. Any error is a failed lookup."""
    try:
        return contract.lookup_closed(row)
    except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
        return LookupFailed(f"the lookup failed with {type(error).__name__}: {error}")


def lookup_effect(row: JobRow, contract: AnyJobType, table: TableOpen) -> LookupResult:
    """Look up the effect of a job. Any error is a failed lookup, which is repeated later."""
    try:
        precheck = contract.precheck()
    except Exception as error:  # noqa: BLE001  # whatever the business rows or a contract raise
        return LookupResult(
            LookupFailed(f"the business rows could not be read: {type(error).__name__}: {error}")
        )
    if isinstance(precheck, Mismatch):
        return LookupResult(Anomalous(precheck.reason))
    if precheck.facts is None:
        return LookupResult(Anomalous("the business rows no longer say what the job should do"))
    if contract.provider_name is None:
        # A restore may have lost it with the claim.
        contract = contract.with_provider(precheck.provider)
    try:
        call = contract.new_call(row, precheck.facts)
        if may_lack_reference(row, contract.policy, table.replays_until, claims=row.fence):
            answer, found = _find_and_look_up(contract, call, table)
        else:
            answer, found = checked_lookup(contract.lookup(call)), {}
    except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
        lookup_failed = LookupFailed(f"the lookup failed with {type(error).__name__}: {error}")
        return LookupResult(lookup_failed, precheck.facts)
    answer = table.believed(answer, contract.job_type, contract.policy)
    values = None if precheck.values is None else fingerprint(precheck.values)
    checked_outcome = flag_changed_values(row, answer, values)
    failed_since = row.status.is_finished and isinstance(answer, Declined | StillOpen)
    if failed_since and checked_outcome is not answer:
        # What the business rows ask for now does not undo that. They are not written.
        return LookupResult(answer, None, found)
    if may_have_lost_history(row, table.replays_until) and _is_recorded(checked_outcome, precheck):
        return LookupResult(checked_outcome, None, found)
    return LookupResult(checked_outcome, precheck.facts, found)


def with_key_scope(contract: AnyJobType, outcome: LookupOutcome) -> tuple[str, LookupOutcome]:
    """The scope of idempotency keys now, and the outcome of a lookup."""
    try:
        return contract.key_scope(), outcome
    except NotConfiguredError as error:
        # A resend depends on the scope, so without it nothing is known.
        resends = isinstance(outcome, LookupUnsupported | NotFound)
        return "", LookupFailed(str(error)) if resends else outcome


def find_own_reference(row: JobRow, contract: AnyJobType) -> Prepared | LookupOutcome | None:
    """Find the job's reference without its row. Returns None if it cannot be searched for."""
    try:
        precheck = contract.precheck()
        if isinstance(precheck, Mismatch) or precheck.facts is None:
            return None  # without facts there is nothing to search by, which the repair reports
        return contract.find_prepared(contract.new_call(row, precheck.facts))
    except Exception as error:  # noqa: BLE001  # whatever the business rows or a provider's SDK raise
        return LookupFailed(f"the lookup failed with {type(error).__name__}: {error}")


def _find_and_look_up(
    contract: AnyJobType, call: Call[Any], table: TableOpen
) -> tuple[LookupOutcome, dict[str, str | None]]:
    """Look up by deployment and job key first: the row may lack its reference."""
    call = replace(call, row=_with_deployment(call.row, table))
    found: dict[str, str | None] = {}
    if call.row.provider_ref is None:
        match contract.find_prepared(call):
            case None:
                pass
            case Prepared(ref=ref):
                found = _restored_fields(ref, contract, call.row)
                call = replace(call, row=replace(call.row, provider_ref=ref))
            case answer:
                return answer, {}
    answer = checked_lookup(contract.lookup(call))
    if isinstance(answer, LookupUnsupported) and contract.policy.safety is not RetrySafety.NATURAL:
        # The lost part may have used its key, so no key window makes a resend safe.
        answer = Anomalous(f"the job table was restored, so it may have happened; {answer.reason}")
    return answer, found


def _restored_fields(ref: str, contract: AnyJobType, job: JobRow) -> dict[str, str | None]:
    return {"provider_ref": ref, "deployment": job.deployment, "provider": contract.provider_name}


def _is_recorded(outcome: LookupOutcome, precheck: PrecheckResult[Any]) -> bool:
    """Whether the business rows already have this effect, so that only the job's row was lost."""
    known = precheck.outcome if isinstance(precheck, AlreadyResolved) else None
    return (
        isinstance(outcome, Succeeded)
        and isinstance(known, Succeeded)
        and all(outcome.result.get(name) == value for name, value in known.result.items())
    )


def _with_deployment(row: JobRow, table: TableOpen) -> JobRow:
    """The row with its deployment, which it lost together with its first claim."""
    return replace(row, deployment=row.deployment or table.deployment)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a lookup needs besides the row, and why it is made."""

    contract: AnyJobType
    table: TableOpen
    deadline: datetime | None = None  # until then it may wait for its slot
    reported: ReportedState | None = None  # by the event that asks
    note: str = ""  # why an operator asks: the evidence shows it with any answer
    has_slot: bool = False  # the caller has passed the gate


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
    guard: TableGuard

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
        asks = (row.unresolved or contract.policy.can_look_up) and not question.has_slot
        group, deadline = EndpointGroup.LOOKUPS, question.deadline
        if asks and (hold := self.gate.enter(contract, group, deadline=deadline)):
            return hold
        lookup = lookup_effect(row, contract, question.table)
        result = self._record(row, question, lookup, asked_at)
        is_found = isinstance(lookup.outcome, Succeeded) and self.writer.dry_run_reader is None
        if is_found and contract.policy.must_prove_lookup:
            self.guard.prove_lookup(contract.job_type)
        return Asked(result, lookup)

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
            aged = exclude_holds(newer, contract, self.gate, asked_at)
            decision = decide_lookup(
                # The row may have lost fields in a restore, such as its provider reference.
                replace(aged, **lookup.restored_fields),  # type: ignore[arg-type]  # fields by name
                contract.policy,
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
            return contract.on_failure(contract.new_call(after, facts)) if frees else ()

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
