"""Items that the reconciler reads to find ten due jobs, as the table around them grows."""

from itertools import pairwise
from typing import Final

from tests.bench.figures import SweepCost
from tests.support.bulk_rows import add_archived_jobs, add_due_jobs, count_items_read
from tests.support.dynamo import DynamoFixture

DUE: Final = 10
SIZES: Final = (1_000, 10_000, 100_000)


def measure(url: str) -> tuple[SweepCost, ...]:
    dynamo = DynamoFixture(url)
    add_due_jobs(dynamo, DUE)
    found = []
    for before, size in pairwise((0, *SIZES)):
        add_archived_jobs(dynamo, before, size)
        items, read = count_items_read(dynamo)
        found.append(SweepCost(rows=size, found=items, read=read))
    dynamo.close()
    return tuple(found)
