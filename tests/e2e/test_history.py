"""The history of everything that the suite did, as DuckDB reads it from the archive's objects."""

from collections import Counter
from pathlib import Path

import pytest

from oncely.adapters.history_reader import S3HistoryReader
from oncely.domain.lifecycle import ENDED
from tests.e2e import scenarios
from tests.e2e.deployment import Deployment, eventually
from tests.e2e.test_oncely_command import as_json, oncely
from tests.support import duck

pytestmark = [pytest.mark.timeout(600), pytest.mark.last]


def test_every_ended_job_is_in_history_exactly_once(deployment: Deployment, tmp_path: Path) -> None:
    for scenario in (scenarios.pays, scenarios.is_tried_again_after_a_decline):
        deployment.once(scenario)
    reader = reader_of(deployment)
    # The engine's stream is a moment behind, and other tests are done by now.
    eventually(
        lambda: True if not behind(deployment, reader) else None,
        "the history shows every end",
        lambda: behind(deployment, reader),
    )

    duck.download(deployment.client("s3"), reader.bucket, tmp_path)
    found = Counter(
        (one["job_key"], one["status"]) for one in duck.query(tmp_path, place=duck.ENDED)
    )

    assert found == Counter(ended(deployment).items())
    assert len(found) >= 3
    about = duck.query(tmp_path, place=duck.ABOUT_AN_ORDER)
    assert [one["status"] for one in about if one["job_key"] == "payment.charge:order_18452"][
        -1
    ] == ("finished")


def test_gap_is_listed_until_backfill_closes_it(deployment: Deployment) -> None:
    deployment.once(scenarios.loses_a_part_of_its_history)

    (gap,) = as_json(deployment, "archive", "gaps", code=4)
    assert gap["reason"] == "MaxRecordAgeExceeded"
    (done,) = as_json(deployment, "archive", "backfill")

    assert done["closed"] == [gap["name"]]
    assert done["rows"] >= len(ended(deployment))
    assert oncely(deployment, "archive", "gaps") == "The history has no open gap.\n"


def reader_of(stack: Deployment) -> S3HistoryReader:
    return S3HistoryReader(stack.client("s3"), stack.outputs["ArchiveBucketName"])


def behind(stack: Deployment, reader: S3HistoryReader) -> dict[str, str]:
    """The ended jobs whose newest line says something else."""
    newest = reader.newest()
    return {
        key: status
        for key, status in ended(stack).items()
        if key not in newest or newest[key].status != status
    }


def ended(stack: Deployment) -> dict[str, str]:
    """The ended jobs of the table, with their statuses."""
    pages = (
        stack.client("dynamodb")
        .get_paginator("scan")
        .paginate(TableName=stack.outputs["JobsTableName"], ConsistentRead=True)
    )
    rows = (row for page in pages for row in page["Items"] if "status" in row)
    return {row["job_key"]["S"]: row["status"]["S"] for row in rows if row["status"]["S"] in ENDED}
