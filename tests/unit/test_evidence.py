"""Evidence and its timeline: repeated entries are counted, and the size is bounded."""

from collections.abc import Iterable
from datetime import timedelta
from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.contracts.message import MAX_MESSAGE_BYTES
from oncely.core.job_row import MAX_EVIDENCE_ENTRIES, EvidenceEntry, append_evidence, operator_actor
from oncely.core.lifecycle import Event, Status
from oncely.core.row_items import serialize_job
from oncely.core.text import MAX_REASON_LENGTH
from oncely.operate.job_view import describe_event, timeline
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault
from tests.unit.samples import NOW, make_entry, make_job

ROW_LIMIT = 400 * 1024
FOUR_BYTES = "\U0001f642"


def test_equal_consecutive_entries_are_counted_as_one() -> None:
    times = [NOW + timedelta(minutes=minute) for minute in range(4)]
    evidence = _history(make_entry(at=at) for at in times)
    assert evidence == (make_entry(at=times[0], count=4, last_at=times[-1]),)


def test_different_entry_is_added_separately() -> None:
    change = {"reason": "down", "actor": "worker", "event": Event.NOTE, "to_status": Status.READY}
    changes = [*change.items(), ("from_status", None)]
    others = [make_entry(**dict(changes[: number + 1])) for number in range(len(changes))]
    assert _history((make_entry(), *others)) == (make_entry(), *others)


def test_equal_entry_after_different_one_starts_new_count() -> None:
    evidence = (make_entry(count=7, last_at=NOW), make_entry(reason="down"))
    assert append_evidence(evidence, make_entry())[-1] == make_entry()


@given(reasons=st.lists(st.sampled_from("abc"), max_size=300))
def test_evidence_stays_within_limit_and_keeps_first_entry(reasons: list[str]) -> None:
    began = make_entry(event=Event.ENQUEUE, from_status=None, to_status=Status.READY)

    evidence = _history((began, *(make_entry(reason=reason) for reason in reasons)))

    assert len(evidence) <= MAX_EVIDENCE_ENTRIES
    assert evidence[0] == began
    assert not reasons or evidence[-1].reason == reasons[-1]


def test_oldest_entries_after_first_are_dropped() -> None:
    numbers = range(MAX_EVIDENCE_ENTRIES + 5)
    evidence = _history(make_entry(reason=str(number)) for number in numbers)
    kept = [0, *range(6, MAX_EVIDENCE_ENTRIES + 5)]
    assert [entry.reason for entry in evidence] == [str(number) for number in kept]


def test_operator_notes_never_displace_proof() -> None:
    proofs = (
        make_entry(event=Event.ENQUEUE, from_status=None, to_status=Status.READY),
        make_entry(event=Event.CHECKPOINT, from_status=Status.STARTED, to_status=Status.STARTED),
        make_entry(event=Event.MARK_UNKNOWN, from_status=Status.STARTED, reason="timeout"),
        make_entry(event=Event.NOTE, actor="worker", reason="a late worker reports: charged"),
    )
    resolved = make_entry(event=Event.REOPEN, to_status=Status.READY, actor=operator_actor("ada"))

    evidence = _history((*proofs, resolved, *_make_notes(3 * MAX_EVIDENCE_ENTRIES)))

    assert len(evidence) == MAX_EVIDENCE_ENTRIES
    assert evidence[:5] == (*proofs, resolved)
    assert evidence[-1].reason == str(3 * MAX_EVIDENCE_ENTRIES - 1)


def test_full_evidence_loses_one_entry_to_operator_notes() -> None:
    proofs = [make_entry(reason=f"proof {number}") for number in range(MAX_EVIDENCE_ENTRIES)]
    evidence = _history((*proofs, *_make_notes(MAX_EVIDENCE_ENTRIES)))
    assert evidence[:-1] == (proofs[0], *proofs[2:])
    assert evidence[-1].actor == operator_actor("ada")


def _make_notes(number: int) -> Iterable[EvidenceEntry]:
    events = (Event.NOTE, Event.RECHECK, Event.RESEND)
    return (
        make_entry(event=events[turn % 3], actor=operator_actor("ada"), reason=str(turn))
        for turn in range(number)
    )


def test_long_reason_is_cut() -> None:
    after = make_job().apply(Event.NOTE, now=NOW, actor="worker", reason="x" * 10_000)
    assert after.evidence[-1].reason == "x" * MAX_REASON_LENGTH


def test_fullest_row_stays_below_item_size_limit() -> None:
    longest = FOUR_BYTES * MAX_REASON_LENGTH
    statuses = dict.fromkeys(("from_status", "to_status"), Status.NEEDS_REVIEW)
    actor = {"event": Event.RESOLVE_FINISHED, "actor": "support:" + "x" * 60}
    entry = make_entry(**statuses, **actor, reason=longest, count=10**6, last_at=NOW)
    job = make_job(
        message={"job": "payment.charge", "text": "x" * MAX_MESSAGE_BYTES},
        last_error=longest,
        evidence=(entry,) * MAX_EVIDENCE_ENTRIES,
    )

    size = sum(_bytes(name, value) for name, value in serialize_job(job).items())

    assert 260_000 < size < 0.8 * ROW_LIMIT


def _history(entries: Iterable[EvidenceEntry]) -> tuple[EvidenceEntry, ...]:
    return reduce(append_evidence, entries, tuple[EvidenceEntry, ...]())


def _bytes(name: str, value: object) -> int:  # as DynamoDB counts an attribute
    return len(name.encode()) + _value_bytes(value)


def _value_bytes(value: object) -> int:
    match value:
        case {"L": [*items]}:
            return 3 + sum(1 + _value_bytes(item) for item in items)
        case {"M": {**named}}:
            return 3 + sum(1 + _bytes(str(name), inner) for name, inner in named.items())
        case {"S": str(text)} | {"N": str(text)}:
            return len(text.encode())
        case _:
            return 1


def test_row_keeps_at_most_100_entries() -> None:
    assert len(_history(make_entry(reason=str(number)) for number in range(102))) == 100


@pytest.mark.parametrize("event", Event)
def test_every_event_has_label(event: Event) -> None:
    assert describe_event(event)


def test_claim_is_shown_in_order_without_own_entry() -> None:
    asked_for = make_entry(at=NOW, event=Event.ENQUEUE, from_status=None, to_status=Status.READY)
    end = make_entry(at=NOW + timedelta(minutes=2), event=Event.CONFIRM, to_status=Status.FINISHED)

    entries = timeline(make_job(evidence=(asked_for, end), claimed_at=NOW + timedelta(minutes=1)))

    assert [line.event for line in entries] == [Event.ENQUEUE, Event.CLAIM, Event.CONFIRM]
    assert (entries[1].from_status, entries[1].to_status) == (Status.READY, Status.STARTED)


def test_history_keeps_every_claim(world: InMemoryStack) -> None:
    for fault in (ProviderFault.REFUSED_CONNECTION, ProviderFault.TIMEOUT_BEFORE):
        step = "prepare" if fault is ProviderFault.REFUSED_CONNECTION else "execute"
        world.payments.fail_next(step, fault)
        world.run(charge_message())
        world.clock.advance(minutes=20)
    job = world.run_until_idle("payment.charge:order_18452")

    lines = timeline(job)

    assert (job.status, job.fence) == (Status.FINISHED, 3)
    claims = [(line.from_status, line.reason) for line in lines if line.event is Event.CLAIM]
    assert claims == [(None, "run 1"), (Status.READY, "run 2"), (Status.READY, "run 3")]
    events = [line.event for line in lines]
    assert events[:3] == [Event.CLAIM, Event.RELEASE, Event.CLAIM]
    assert events[-2:] == [Event.CLAIM, Event.CONFIRM]
    # Each line begins where the one before ended, from the first claim to the end.
    changes = [(line.from_status, line.to_status) for line in lines]
    assert all(one[1] == other[0] for one, other in pairwise(changes))


def test_equal_runs_are_counted_and_stay_small(world: InMemoryStack) -> None:
    for _ in range(40):
        world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
        world.run(charge_message())
        world.clock.advance(minutes=20)
    job = world.job("payment.charge:order_18452")

    assert job.fence == 40
    assert [(entry.event, entry.count, entry.reason[:9]) for entry in job.evidence] == [
        (Event.CLAIM, 40, "up to run"),
        (Event.RELEASE, 40, job.evidence[1].reason[:9]),
    ]
    assert job.evidence[0].reason == "up to run 40"


def test_claim_of_single_run_costs_no_evidence(world: InMemoryStack) -> None:
    world.run(charge_message())
    job = world.job("payment.charge:order_18452")
    assert Event.CLAIM not in {entry.event for entry in job.evidence}
    assert timeline(job)[0].event is Event.CLAIM


def test_unenqueued_job_shows_its_only_claim_once() -> None:
    (line,) = timeline(make_job(created_at=NOW, claimed_at=NOW))
    assert (line.from_status, line.to_status, line.reason) == (None, Status.STARTED, "run 1")


def test_unclaimed_job_has_no_claim_in_timeline() -> None:
    enqueued = make_entry(event=Event.ENQUEUE, from_status=None, to_status=Status.READY)
    assert timeline(make_job(claimed_at=None, evidence=(enqueued,))) == (enqueued,)
