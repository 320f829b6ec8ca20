"""Messages are sent in groups that SQS takes, in their order."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from oncely.adapters.sqs import BATCH_BYTES, BATCH_ENTRIES, batches

# Two bytes each, so that characters and bytes cannot be confused.
BODIES = st.lists(st.integers(0, BATCH_BYTES // 2).map(lambda length: "é" * length), max_size=40)


@given(bodies=BODIES)
def test_every_message_is_in_one_group_and_in_its_order(bodies: list[str]) -> None:
    assert [*chain.from_iterable(batches(bodies))] == [*range(len(bodies))]


@given(bodies=BODIES)
def test_no_group_is_empty_or_more_than_sqs_takes(bodies: list[str]) -> None:
    for group in batches(bodies):
        assert 0 < len(group) <= BATCH_ENTRIES
        assert sum(len(bodies[index].encode()) for index in group) <= BATCH_BYTES


def test_groups_are_as_full_as_they_can_be() -> None:
    third = "x" * (BATCH_BYTES // 3)

    assert [len(group) for group in batches(["{}"] * 25)] == [10, 10, 5]
    assert [len(group) for group in batches([third] * 8)] == [3, 3, 2]


def test_two_messages_of_half_the_size_go_together_and_a_byte_more_does_not() -> None:
    half = "x" * (BATCH_BYTES // 2)

    assert [*batches([half, half])] == [[0, 1]]
    assert [*batches([half, half + "x"])] == [[0], [1]]


def test_nothing_is_no_group() -> None:
    assert [*batches([])] == []
