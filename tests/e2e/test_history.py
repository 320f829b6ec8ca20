"""The history of everything that the suite did, as DuckDB reads it from the archive's objects."""

from collections import Counter
from pathlib import Path

import pytest

from oncely.aws.objects import S3Objects
from oncely.core.lifecycle import ENDED
from oncely.history.archive import HistoryArchive
from tests.e2e import scenarios
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.test_cli import run_cli, run_cli_json
from tests.support import duckdb_queries as duck

pytestmark = [pytest.mark.timeout(600), pytest.mark.last]


def test_every_ended_job_is_in_history_exactly_once(
    deployment: StackClient, tmp_path: Path
) -> None:
    for scenario in (scenarios.successful_payment, scenarios.resubmission_after_decline):
        deployment.once(scenario)
    bucket = deployment.outputs["ArchiveBucketName"]
    reader = HistoryArchive(S3Objects(deployment.client("s3"), bucket))
    ended = ended_jobs(deployment)
    # The engine's stream is a moment behind, and tests of another process may still end jobs.
    wait_for(
        lambda: not missing_from_history(ended, reader),
        "the history shows every end",
        lambda: missing_from_history(ended, reader),
    )

    duck.download(deployment.client("s3"), bucket, tmp_path)
    found = Counter(
        (one["job_key"], one["status"]) for one in duck.query(tmp_path, index=duck.ENDED_QUERY)
    )

    assert set(found.values()) == {1}
    assert len(ended) >= 3
    unchanged = ended.items() & ended_jobs(deployment).items()
    assert unchanged <= found.keys()
    about = duck.query(tmp_path, index=duck.ORDER_QUERY)
    statuses = [one["status"] for one in about if one["job_key"] == "payment.charge:order_18452"]
    assert statuses[-1] == "finished"


def test_gap_is_listed_until_backfill_closes_it(deployment: StackClient) -> None:
    deployment.once(scenarios.history_gap)

    (gap,) = run_cli_json(deployment, "archive", "gaps", code=4)
    assert gap["reason"] == "MaxRecordAgeExceeded"
    ended = ended_jobs(deployment)
    (done,) = run_cli_json(deployment, "archive", "backfill")

    assert done["closed"] == [gap["name"]]
    assert done["rows"] >= len(ended)
    assert run_cli(deployment, "archive", "gaps") == "The history has no open gaps.\n"


def missing_from_history(ended: dict[str, str], reader: HistoryArchive) -> set[tuple[str, str]]:
    return ended.items() - {(line.job_key, str(line.status)) for line in reader.lines()}


def ended_jobs(stack: StackClient) -> dict[str, str]:
    pages = (
        stack.client("dynamodb")
        .get_paginator("scan")
        .paginate(TableName=stack.outputs["JobsTableName"], ConsistentRead=True)
    )
    rows = (row for page in pages for row in page["Items"] if "status" in row)
    return {row["job_key"]["S"]: row["status"]["S"] for row in rows if row["status"]["S"] in ENDED}
