"""Saved selections, in memory and on S3."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from oncely.aws.s3_bulk_runs import S3BulkRuns
from oncely.domain.bulk_runs import BulkRun, SelectedJob
from oncely.domain.keys import JobKey
from oncely.domain.repairs import Repair
from oncely.search_ports import BulkRuns
from oncely.testing.bulk_runs import MemoryBulkRuns
from tests.support.fakes import START

RUN = BulkRun(
    run_id="1f0c9a52e4b7d836",
    repair=Repair.RESUBMIT,
    reason="Stripe is back",
    actor="ada",
    created_at=START,
    jobs=tuple(SelectedJob(JobKey(f"payment.charge:order_{n}"), n) for n in range(1, 1001)),
)


@pytest.fixture(params=["memory", "moto"])
def runs(request: pytest.FixtureRequest, no_profile: None) -> Iterator[BulkRuns]:
    if request.param == "memory":
        yield MemoryBulkRuns()
        return
    with mock_aws():
        client = boto3.client(
            "s3", region_name="us-east-1", aws_access_key_id="1", aws_secret_access_key="1"
        )
        client.create_bucket(Bucket="archive")
        yield S3BulkRuns(client, "archive")


def test_saved_run_is_read_as_it_was(runs: BulkRuns) -> None:
    runs.save(RUN)
    assert runs.get(RUN.run_id) == RUN


@pytest.mark.parametrize("run_id", ["other", "../history/2026", "", "x" * 500])
def test_unknown_run_is_none(runs: BulkRuns, run_id: str) -> None:
    runs.save(RUN)
    assert runs.get(run_id) is None
