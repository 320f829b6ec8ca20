"""Saved selections of jobs."""

import pytest

from oncely.core.keys import JobKey
from oncely.core.repairs import Repair
from oncely.operate.bulk_repairer import BulkRun, BulkRuns, SelectedJob
from tests.conformance.archive_harness import ArchiveHarness
from tests.support.fakes import START

RUN = BulkRun(
    run_id="1f0c9a52e4b7d836",
    repair=Repair.RESUBMIT,
    reason="Stripe is back",
    actor="ada",
    created_at=START,
    jobs=tuple(SelectedJob(JobKey(f"payment.charge:order_{n}"), n) for n in range(1, 1001)),
)


@pytest.fixture
def runs(bucket: ArchiveHarness) -> BulkRuns:
    return BulkRuns(bucket.objects)


def test_saved_run_is_read_as_it_was(runs: BulkRuns) -> None:
    runs.save(RUN)
    assert runs.get(RUN.run_id) == RUN


@pytest.mark.parametrize("run_id", ["other", "../history/2026", "", "x" * 500])
def test_unknown_run_is_none(runs: BulkRuns, run_id: str) -> None:
    runs.save(RUN)
    assert runs.get(run_id) is None
