"""Was the promise kept? What the tables say, beside what the providers' own books say."""

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
        """Which kind of job it is."""
        return self.key.partition(":")[0]

    @property
    def subject(self) -> str:
        """What it is about: the order, or the record."""
        parts = self.key.split(":")
        return parts[2] if self.job_type == PUSH else parts[1].removeprefix(_ORDER)


@dataclass(frozen=True, kw_only=True)
class DemoFinalState:
    """Both sides, as they stand at the end."""

    requested: frozenset[str]  # the keys of all jobs that a producer sent a message for
    jobs: Mapping[str, JobSnapshot]
    charges: Mapping[str, int] = field(default_factory=dict)  # money moved, by job key
    mails: Mapping[str, int] = field(default_factory=dict)  # by order
    contacts: Mapping[str, int] = field(default_factory=dict)  # at the CRM, by our record's id
    paid: frozenset[str] = frozenset()  # orders that are marked as paid
    imported: frozenset[str] = frozenset()  # contacts that we have a record of
    to_import: frozenset[str] = frozenset()  # contacts that the CRM had when the import began
    rejected: Counter[str] = field(default_factory=Counter)  # the bodies of archived rejects
    invalid: frozenset[str] = frozenset()  # the bodies of messages that no contract takes
    history: Mapping[str, str | None] = field(default_factory=dict)  # the newest status, by job key


@dataclass(frozen=True)
class DemoVerdict:
    """What is wrong, in sentences; the promise was kept if there are none."""

    duplicated: tuple[str, ...]
    lost: tuple[str, ...]
    unresolved: tuple[str, ...]
    inconsistent: tuple[str, ...]
    unpublished: tuple[str, ...]
    not_in_history: tuple[str, ...]

    @property
    def is_kept(self) -> bool:
        """Whether the promise was kept."""
        disagreeing = (*self.inconsistent, *self.not_in_history)
        return not (*self.duplicated, *self.lost, *self.unresolved, *disagreeing)


def evaluate(state: DemoFinalState) -> DemoVerdict:
    """Hold the books against each other."""
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
            f"{job.key} is {job.status}, and the history says {state.history.get(job.key)}"
            for job in state.jobs.values()
            if job.status in ENDED and state.history.get(job.key) != job.status
        ),
    )


def find_missing_receipts(jobs: Mapping[str, JobSnapshot]) -> Iterator[str]:
    """The receipts that should have followed a payment and have no row yet."""
    for job in jobs.values():
        receipt = f"{RECEIPT}:{_ORDER}{job.subject}"
        if job.job_type == PAYMENT and job.status is Status.FINISHED and receipt not in jobs:
            yield receipt


def _find_duplicated(state: DemoFinalState) -> Iterator[str]:
    """An outside action that happened more than once."""
    for key, times in state.charges.items():
        if times > 1:
            yield f"{key} was charged {times} times"
    for order, times in state.mails.items():
        if times > 1:
            yield f"the receipt of order {order} was sent {times} times"
    for record, times in state.contacts.items():
        if times > 1:
            yield f"{record} is {times} contacts at the CRM"


def _find_lost(state: DemoFinalState) -> Iterator[str]:
    """Something that was sent, or should have followed, and left no trace."""
    yield from (f"{key} has no row" for key in sorted(state.requested - set(state.jobs)))
    yield from (f"{key} never followed" for key in find_missing_receipts(state.jobs))
    yield from (f"contact {one} was not imported" for one in state.to_import - state.imported)
    yield from (f"nobody put aside: {body}" for body in sorted(state.invalid - set(state.rejected)))


def _find_inconsistent(state: DemoFinalState) -> Iterator[str]:
    """An end that the provider's books, or our own rows, do not know of."""
    for job in state.jobs.values():
        done = job.status is Status.FINISHED
        match job.job_type:
            case "payment.charge":
                happened = state.charges.get(job.key, 0)
                if job.status in ENDED and done != (job.subject in state.paid):
                    yield f"{job.key} is {job.status}, and its order says otherwise"
            case "receipt.send":
                happened = state.mails.get(job.subject, 0)
            case "sync.push":
                happened = state.contacts.get(job.subject, 0)
            case _:
                continue
        if done and not happened:
            yield f"{job.key} is finished, and the provider knows nothing of it"
        if job.status is Status.FAILED and happened:
            yield f"{job.key} is failed, and the provider did it"
    for key in state.charges:
        if key not in state.jobs:
            yield f"a charge names {key}, which is no job"
