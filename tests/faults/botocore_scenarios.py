"""Scenarios with botocore between the adapters and AWS. Together they use every adapter."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from oncely.core.job_row import JobRow
from oncely.testing.scenario import Scenario


def botocore_scenarios(direct: Iterable[Scenario], neighbour: JobRow) -> Iterator[Scenario]:
    """`neighbour` is the row of a job that a sweep escalates."""
    by_name = {one.name: one for one in direct}
    chosen = (
        replace(
            by_name["payment.charge/with-event"],
            jobs=(neighbour,),
            sweep_leases=True,
            duplicate_messages=1,
        ),
        by_name["payment.charge/cancelled-absent"],
        by_name["payment.charge/restored-archived"],
        by_name["sync.contact/erased"],
    )
    for one in chosen:
        yield replace(one, name=f"{one.name}-botocore", through_botocore=True)
