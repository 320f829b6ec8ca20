"""Messages are sent in order, in batches within the limits of SQS."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from oncely.aws.sqs import MAX_BATCH_BYTES, MAX_BATCH_ENTRIES, split_into_batches

# Two bytes each, so that characters and bytes cannot be confused.
BODIES = st.lists(st.integers(0, MAX_BATCH_BYTES // 2).map(lambda size: "é" * size), max_size=40)


@given(bodies=BODIES)
def test_every_message_is_in_one_batch_in_order(bodies: list[str]) -> None:
    assert [*chain.from_iterable(split_into_batches(bodies))] == [*range(len(bodies))]


@given(bodies=BODIES)
def test_no_batch_is_empty_or_over_sqs_limits(bodies: list[str]) -> None:
    for group in split_into_batches(bodies):
        assert 0 < len(group) <= MAX_BATCH_ENTRIES
        assert sum(len(bodies[index].encode()) for index in group) <= MAX_BATCH_BYTES


def test_batches_are_as_full_as_possible() -> None:
    third = "x" * (MAX_BATCH_BYTES // 3)
    assert [len(group) for group in split_into_batches(["{}"] * 25)] == [10, 10, 5]
    assert [len(group) for group in split_into_batches([third] * 8)] == [3, 3, 2]
    assert [*split_into_batches([])] == []


def test_batch_is_split_when_one_byte_over_limit() -> None:
    half = "x" * (MAX_BATCH_BYTES // 2)
    assert [*split_into_batches([half, half])] == [[0, 1]]
    assert [*split_into_batches([half, half + "x"])] == [[0], [1]]
