"""What a sweep reads grows with what is due, never with the table."""

from tests.support.dynamo import Dynamo
from tests.support.many_rows import fill_with_due, fill_with_ended, items_read

DUE = 10
SMALL, LARGE = 1_000, 100_000


def test_items_read_are_the_same_at_a_thousand_and_at_a_hundred_thousand_rows(
    dynamo: Dynamo,
) -> None:
    fill_with_due(dynamo, DUE)
    fill_with_ended(dynamo, 0, SMALL)
    small = items_read(dynamo)
    fill_with_ended(dynamo, SMALL, LARGE)

    large = items_read(dynamo)

    told = f"due {DUE}: found and read {small} at {SMALL} rows, {large} at {LARGE} rows"
    print(told)  # noqa: T201  # the figures are what a reader wants to see
    assert small == large == (DUE, DUE)
