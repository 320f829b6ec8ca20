"""The verdict of the demo: compares the job table with the providers' ledger."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from oncely.domain.lifecycle import ENDED, UNRESOLVED, Status

PAYMENT, RECEIPT, PUSH = "payment.charge", "receipt.send", "sync.push"
_ORDER = "order_"


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
    charges: Mapping[str, int] = field(default_factory=dict)  # successful charges, by job key
    mails: Mapping[str, int] = field(default_factory=dict)  # by order
    contacts: Mapping[str, int] = field(default_factory=dict)  # at the CRM, by our record's id
    paid: frozenset[str] = frozenset()  # order ids
    imported: frozenset[str] = frozenset()  # contact ids with a record
    to_import: frozenset[str] = frozenset()  # contact ids in the CRM at the start
    rejected: Counter[str] = field(default_factory=Counter)  # bodies of archived rejects
    invalid: frozenset[str] = frozenset()  # bodies of invalid messages
    history: Mapping[str, str | None] = field(default_factory=dict)  # newest status by job key


@dataclass(frozen=True)
class DemoVerdict:
    """The violations of the guarantees, one sentence each."""

    duplicated: tuple[str, ...]
    lost: tuple[str, ...]
    unresolved: tuple[str, ...]
    inconsistent: tuple[str, ...]
    unpublished: tuple[str, ...]
    not_in_history: tuple[str, ...]

    @property
    def violations(self) -> tuple[tuple[str, ...], ...]:
        disagreeing = (self.inconsistent, self.not_in_history)
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
    )


def find_missing_receipts(jobs: Mapping[str, JobSnapshot]) -> Iterator[str]:
    """The keys of receipts that a finished payment requires and that have no row."""
    for job in jobs.values():
        receipt = f"{RECEIPT}:{_ORDER}{job.subject}"
        if job.job_type == PAYMENT and job.status is Status.FINISHED and receipt not in jobs:
            yield receipt


def _find_duplicated(state: DemoFinalState) -> Iterator[str]:
    for counts, sentence in (
        (state.charges, "{} was charged {} times"),
        (state.mails, "the receipt of order {} was sent {} times"),
        (state.contacts, "{} has {} contacts in the CRM"),
    ):
        yield from (sentence.format(what, n) for what, n in counts.items() if n > 1)


def _find_lost(state: DemoFinalState) -> Iterator[str]:
    yield from (f"{key} has no row" for key in sorted(state.requested - set(state.jobs)))
    yield from (f"{key} was never created" for key in find_missing_receipts(state.jobs))
    yield from (f"contact {one} was not imported" for one in state.to_import - state.imported)
    yield from (
        f"invalid message not rejected: {body}"
        for body in sorted(state.invalid - set(state.rejected))
    )


def _find_inconsistent(state: DemoFinalState) -> Iterator[str]:
    """Ended jobs that contradict the ledger or the business rows."""
    for job in state.jobs.values():
        done = job.status is Status.FINISHED
        match job.job_type:
            case "payment.charge":
                happened = state.charges.get(job.key, 0)
                if job.status in ENDED and done != (job.subject in state.paid):
                    yield f"{job.key} is {job.status}, but its order disagrees"
            case "receipt.send":
                happened = state.mails.get(job.subject, 0)
            case "sync.push":
                happened = state.contacts.get(job.subject, 0)
            case _:
                continue
        if done and not happened:
            yield f"{job.key} is finished, but the provider has no effect"
        if job.status is Status.FAILED and happened:
            yield f"{job.key} is failed, but the provider performed it"
    for key in state.charges:
        if key not in state.jobs:
            yield f"a charge names {key}, which has no row"
