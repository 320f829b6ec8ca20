"""The verdict of the demo: compares the job table with the providers' ledgers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from oncely.contracts.job import AnyJob
from oncely.core.lifecycle import ENDED, UNRESOLVED, Status
from oncely.core.profiles import RetrySafety
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.testing.sandbox import EffectState, RecordedEffect

PAYMENT, RECEIPT, PUSH = "payment.charge", "receipt.send", "sync.push"
_ORDER = "order_"


def types_with_effect(jobs: Iterable[type[AnyJob]]) -> frozenset[str]:
    """The job types whose effect is in a provider's ledger: natural effects only read there."""
    return frozenset(one.job_type for one in jobs if one.policy.safety is not RetrySafety.NATURAL)


@dataclass(frozen=True, kw_only=True)
class JobSnapshot:
    """One row of the job table."""

    key: str
    status: Status
    reason: str = ""
    is_published: bool = False

    @property
    def job_type(self) -> str:
        return self.key.partition(":")[0]

    @property
    def subject(self) -> str:
        parts = self.key.split(":")
        return parts[2] if self.job_type == PUSH else parts[1].removeprefix(_ORDER)


@dataclass(frozen=True, kw_only=True)
class DemoFinalState:
    """The state of our tables and of the ledger at the end."""

    requested: frozenset[str]  # keys of the jobs that producers sent
    jobs: Mapping[str, JobSnapshot]
    effects: Sequence[RecordedEffect] = ()  # in the providers' ledgers
    with_effect: frozenset[str] = types_with_effect(SHIPPED_JOBS)
    # Of this repository's jobs: ids of paid orders. None without orders and receipts.
    paid: frozenset[str] | None = None
    imported: frozenset[str] = frozenset()  # contact ids with a record
    to_import: frozenset[str] = frozenset()  # contact ids in the CRM at the start
    rejected: Counter[str] = field(default_factory=Counter)  # bodies of archived rejects
    invalid: frozenset[str] = frozenset()  # bodies of invalid messages
    history: Mapping[str, str | None] = field(default_factory=dict)  # newest status by job key
    broken_rules: tuple[str, ...] = ()  # of the life cycle, as the history shows it


@dataclass(frozen=True)
class DemoVerdict:
    """The violations of the guarantees, one sentence each."""

    duplicated: tuple[str, ...]
    lost: tuple[str, ...]
    unresolved: tuple[str, ...]
    inconsistent: tuple[str, ...]
    unpublished: tuple[str, ...]
    not_in_history: tuple[str, ...]
    broken_rules: tuple[str, ...]

    @property
    def violations(self) -> tuple[tuple[str, ...], ...]:
        disagreeing = (self.inconsistent, self.not_in_history, self.broken_rules)
        return (self.duplicated, self.lost, self.unresolved, *disagreeing)

    @property
    def is_kept(self) -> bool:
        return not any(self.violations)


def evaluate(state: DemoFinalState) -> DemoVerdict:
    """Find all differences between the two sides."""
    return DemoVerdict(
        duplicated=tuple(_find_duplicated(state)),
        lost=tuple(_find_lost(state)),
        unresolved=tuple(
            f"{job.key} is still {job.status}: {job.reason}"
            for job in state.jobs.values()
            if job.status in UNRESOLVED
        ),
        inconsistent=tuple(_find_inconsistent(state)),
        unpublished=tuple(
            job.key for job in state.jobs.values() if job.status in ENDED and not job.is_published
        ),
        not_in_history=tuple(
            f"{job.key} is {job.status}, but in the history {state.history.get(job.key)}"
            for job in state.jobs.values()
            if job.status in ENDED and state.history.get(job.key) != job.status
        ),
        broken_rules=state.broken_rules,
    )


def find_missing_receipts(jobs: Mapping[str, JobSnapshot]) -> Iterator[str]:
    """The keys of receipts that a finished payment requires and that have no row."""
    for job in jobs.values():
        receipt = f"{RECEIPT}:{_ORDER}{job.subject}"
        if job.job_type == PAYMENT and job.status.is_finished and receipt not in jobs:
            yield receipt


def _find_duplicated(state: DemoFinalState) -> Iterator[str]:
    counts = Counter((one.kind, one.key) for one in _done(state))
    yield from (f"{key} has {n} {kind}" for (kind, key), n in counts.items() if n > 1)


def _find_lost(state: DemoFinalState) -> Iterator[str]:
    yield from (f"{key} has no row" for key in sorted(state.requested - set(state.jobs)))
    if state.paid is not None:
        yield from (f"{key} was never created" for key in find_missing_receipts(state.jobs))
    yield from (f"contact {one} was not imported" for one in state.to_import - state.imported)
    yield from (
        f"invalid message not rejected: {body}"
        for body in sorted(state.invalid - set(state.rejected))
    )


def _find_inconsistent(state: DemoFinalState) -> Iterator[str]:
    """Ended jobs that contradict the ledgers or the business rows."""
    done_keys = {one.key for one in _done(state)}
    for job in state.jobs.values():
        finished = job.status.is_finished
        is_payment = state.paid is not None and job.job_type == PAYMENT
        if is_payment and job.status in ENDED and finished != (job.subject in (state.paid or ())):
            yield f"{job.key} is {job.status}, but its order disagrees"
        if job.job_type not in state.with_effect:
            continue
        happened = not done_keys.isdisjoint((job.key, *job.key.split(":")))
        if finished and not happened:
            yield f"{job.key} is finished, but the provider has no effect"
        if job.status in ENDED and not finished and happened:
            yield f"{job.key} is {job.status}, but the provider performed it"
    for one in _done(state):
        if one.key.partition(":")[0] in state.with_effect and one.key not in state.jobs:
            yield f"{one.reference} names {one.key}, which has no row"


def _done(state: DemoFinalState) -> Iterator[RecordedEffect]:
    return (one for one in state.effects if one.state is EffectState.DONE)
