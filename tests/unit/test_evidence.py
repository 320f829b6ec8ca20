"""The history of a job: repetitions are counted, and it never outgrows its row."""

from collections.abc import Iterable
from datetime import timedelta
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from oncely.adapters.job_rows import to_attributes
from oncely.contract import MAX_MESSAGE_BYTES
from oncely.domain.actors import person
from oncely.domain.jobs import MAX_EVIDENCE, Evidence, with_entry
from oncely.domain.lifecycle import Event, Status
from oncely.domain.text import MAX_REASON
from tests.unit.samples import NOW, a_job, an_entry

ROW_LIMIT = 400 * 1024
FOUR_BYTES = "\U0001f642"


def test_equal_consecutive_entries_are_counted_as_one() -> None:
    times = [NOW + timedelta(minutes=minute) for minute in range(4)]

    evidence = _history(an_entry(at=at) for at in times)

    assert evidence == (an_entry(at=times[0], count=4, last_at=times[-1]),)


def test_different_entry_is_added_separately() -> None:
    others = (
        an_entry(reason="down"),
        an_entry(reason="down", actor="worker"),
        an_entry(reason="down", actor="worker", event=Event.NOTE),
        an_entry(reason="down", actor="worker", event=Event.NOTE, new=Status.READY),
        an_entry(reason="down", actor="worker", event=Event.NOTE, old=None, new=Status.READY),
    )

    evidence = _history((an_entry(), *others))

    assert evidence == (an_entry(), *others)


def test_equal_entry_after_different_one_starts_new_count() -> None:
    evidence = (an_entry(count=7, last_at=NOW), an_entry(reason="down"))

    assert with_entry(evidence, an_entry())[-1] == an_entry()


@given(reasons=st.lists(st.sampled_from("abc"), max_size=300))
def test_evidence_stays_within_limit_and_keeps_first_entry(reasons: list[str]) -> None:
    began = an_entry(event=Event.ENQUEUE, old=None, new=Status.READY, reason="enqueued")

    evidence = _history((began, *(an_entry(reason=reason) for reason in reasons)))

    assert len(evidence) <= MAX_EVIDENCE
    assert evidence[0] == began
    assert not reasons or evidence[-1].reason == reasons[-1]


def test_oldest_entries_after_first_are_dropped() -> None:
    evidence = _history(an_entry(reason=str(number)) for number in range(MAX_EVIDENCE + 5))

    kept = [0, *range(6, MAX_EVIDENCE + 5)]
    assert [entry.reason for entry in evidence] == [str(number) for number in kept]


def test_operator_notes_never_displace_proof() -> None:
    proofs = (
        an_entry(event=Event.ENQUEUE, old=None, new=Status.READY),
        an_entry(event=Event.KEEP, old=Status.STARTED, new=Status.STARTED, reason="prepared pi_1"),
        an_entry(event=Event.LOSE, old=Status.STARTED, new=Status.UNKNOWN, reason="timeout"),
        an_entry(event=Event.NOTE, actor="worker", reason="a late worker reports: charged"),
    )
    ruled = an_entry(event=Event.RULE_READY, new=Status.READY, actor=person("ada"))

    evidence = _history((*proofs, ruled, *_remarks(3 * MAX_EVIDENCE)))

    assert len(evidence) == MAX_EVIDENCE
    assert evidence[:5] == (*proofs, ruled)
    assert evidence[-1].reason == str(3 * MAX_EVIDENCE - 1)


def test_full_evidence_loses_one_entry_to_operator_notes() -> None:
    proofs = [an_entry(reason=f"proof {number}") for number in range(MAX_EVIDENCE)]

    evidence = _history((*proofs, *_remarks(MAX_EVIDENCE)))

    assert evidence[:-1] == (proofs[0], *proofs[2:])
    assert evidence[-1].actor == person("ada")


def _remarks(number: int) -> Iterable[Evidence]:
    """What a person leaves who asks and sends again, over and over."""
    events = (Event.NOTE, Event.WAIT, Event.RESEND)
    return (
        an_entry(event=events[turn % 3], actor=person("ada"), reason=str(turn))
        for turn in range(number)
    )


def test_long_reason_is_cut() -> None:
    after = a_job().apply(Event.NOTE, now=NOW, actor="worker", reason="x" * 10_000)

    assert after.evidence[-1].reason == "x" * MAX_REASON


def test_fullest_row_stays_below_item_size_limit() -> None:
    longest = FOUR_BYTES * MAX_REASON
    job = a_job(
        message={"job": "payment.charge", "text": "x" * MAX_MESSAGE_BYTES},
        last_error=longest,
        evidence=tuple(
            an_entry(
                old=Status.NEEDS_REVIEW,
                new=Status.NEEDS_REVIEW,
                event=Event.RULE_FINISHED,
                reason=longest,
                actor="support:" + "x" * 60,
                count=10**6,
                last_at=NOW,
            )
            for _ in range(MAX_EVIDENCE)
        ),
    )

    size = sum(_bytes(name, value) for name, value in to_attributes(job).items())

    assert 260_000 < size < 0.8 * ROW_LIMIT


def _history(entries: Iterable[Evidence]) -> tuple[Evidence, ...]:
    nothing: tuple[Evidence, ...] = ()
    return reduce(with_entry, entries, nothing)


def _bytes(name: str, value: object) -> int:
    """The size of an attribute as DynamoDB counts it."""
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
    assert len(_history(an_entry(reason=str(number)) for number in range(102))) == 100
