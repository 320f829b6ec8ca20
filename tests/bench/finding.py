"""Items that the reconciler reads to find ten due jobs, as the table around them grows."""

from itertools import pairwise
from typing import Final

from tests.bench.figures import Found
from tests.support.dynamo import Dynamo
from tests.support.many_rows import fill_with_due, fill_with_ended, items_read

DUE: Final = 10
SIZES: Final = (1_000, 10_000, 100_000)


def measure(url: str) -> tuple[Found, ...]:
    """A table of its own, filled up in steps."""
    dynamo = Dynamo(url)
    fill_with_due(dynamo, DUE)
    found = []
    for before, size in pairwise((0, *SIZES)):
        fill_with_ended(dynamo, before, size)
        items, read = items_read(dynamo)
        found.append(Found(rows=size, found=items, read=read))
    dynamo.close()
    return tuple(found)
