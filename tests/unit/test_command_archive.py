"""`oncely archive`: the history of an id, its gaps, and the backfill."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from typer.testing import Result

from oncely.aws.job_rows import serialize_job
from oncely.aws.s3_history import S3HistoryStore
from oncely.aws.stream_records import row_changes
from oncely.domain.gaps import HistoryGap
from oncely.publish.archive_history import HistoryWriter
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.stream import FakeS3, finish_job, stream_record
from tests.unit.samples import KEY, NOW, make_job

TABLE = {"TableId": "table-1", "LatestStreamArn": "arn:…/stream/1"}


class Bucket(FakeS3):
    """An S3 that can be listed and read as well."""

    def get_paginator(self, _operation: str) -> "Bucket":
        return self

    def paginate(
        self,
        *,
        Prefix: str,  # noqa: N803  # S3's names
        Delimiter: str = "",  # noqa: N803  # the same
        StartAfter: str = "",  # noqa: N803  # the same
        **_: str,
    ) -> Iterator[dict[str, Any]]:
        names = sorted(one for one in self.objects if one.startswith(Prefix) and one > StartAfter)
        if not Delimiter:
            yield {"Contents": [{"Key": name} for name in names]}
            return
        folders = {Prefix + name.removeprefix(Prefix).partition("/")[0] + "/" for name in names}
        yield {"CommonPrefixes": [{"Prefix": one} for one in sorted(folders)]}

    def get_object(self, *, Key: str, **_: str) -> dict[str, Any]:  # noqa: N803  # the same
        return {"Body": BytesIO(self.objects[Key])}


@dataclass
class JobTable:
    """A table of one page."""

    items: list[dict[str, Any]] = field(default_factory=list)
    declared: str | None = "table-1"  # what its identity item names

    def get_item(self, **_: object) -> dict[str, Any]:
        item = {"identity": {"S": "dev"}, "table_id": {"S": self.declared}}
        return {} if self.declared is None else {"Item": item}

    def describe_table(self, **_: str) -> dict[str, Any]:
        return {"Table": TABLE}

    def scan(self, **_: object) -> dict[str, Any]:
        return {"Items": self.items}


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def stack(bucket: Bucket) -> FakeStackConnection:
    table = JobTable([serialize_job(make_job()), {"job_key": {"S": "deployment:identity"}}])
    outputs = {"ArchiveBucketName": "archive", "JobsTableName": "jobs"}
    return FakeStackConnection(clients={"s3": bucket, "dynamodb": table}, outputs=outputs)


def archive_cli(stack: FakeStackConnection, *words: str) -> Result:
    return run_cli("archive", *words, connection=stack)


def add_gap(bucket: Bucket, **fields: Any) -> None:  # noqa: ANN401  # of a gap
    client: Any = bucket
    S3HistoryStore(client, "archive").record_gap(
        HistoryGap(name="gap", **{"recorded_at": NOW, "first_at": NOW, "records": 31, **fields})
    )


def test_history_of_order_is_shown_oldest_first(bucket: Bucket, stack: FakeStackConnection) -> None:
    old = make_job(subject="18452")
    ended = finish_job(old, NOW + timedelta(hours=1))
    records = [stream_record(old, ended), stream_record(None, old)]
    client: Any = bucket
    writer = HistoryWriter(S3HistoryStore(client, "archive"))
    for batch in ("a", "b"):  # at least once
        writer.write(row_changes(records), generation="table-1", batch=batch)

    result = archive_cli(stack, "about", "18452", "--json")

    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["status"] for line in lines] == ["started", "finished"]
    assert KEY in archive_cli(stack, "about", "18452").stdout
    assert archive_cli(stack, "about", "18452", "--until", "2020-01-01").exit_code == 1


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("nobody", 1, "oncely find"),
        ("1 --since 2026-11-18 --until 2026-11-17", 2, "--until (2026-11-17) is before --since"),
    ],
)
def test_empty_result_says_why(
    stack: FakeStackConnection, words: str, code: int, text: str
) -> None:
    result = archive_cli(stack, "about", *words.split())
    assert result.exit_code == code
    assert text in result.stderr


def test_open_gaps_set_attention_exit_code(bucket: Bucket, stack: FakeStackConnection) -> None:
    assert archive_cli(stack, "gaps").stdout == "The history has no open gaps.\n"
    add_gap(bucket)

    result = archive_cli(stack, "gaps")

    assert result.exit_code == 4
    assert "31" in result.stdout
    (gap,) = archive_cli(stack, "gaps", "--json").stdout.splitlines()
    assert json.loads(gap)["records"] == 31


def test_backfill_writes_lines_and_closes_gaps(bucket: Bucket, stack: FakeStackConnection) -> None:
    add_gap(bucket)

    dry = archive_cli(stack, "backfill", "--dry-run")
    assert (dry.exit_code, bucket.lines()) == (0, [])
    assert "Read 1 rows, would write 1 lines." in dry.stdout
    done = archive_cli(stack, "backfill", "--json")

    assert json.loads(done.stdout)["closed"] == ["gap"]
    assert [line.job_key for line in bucket.lines()] == [KEY]
    assert archive_cli(stack, "gaps").exit_code == 0


@pytest.mark.parametrize("declared", ["table-0", None])
def test_restored_table_closes_no_gap(
    bucket: Bucket, stack: FakeStackConnection, declared: str | None
) -> None:
    add_gap(bucket)
    stack.clients["dynamodb"].declared = declared

    result = archive_cli(stack, "backfill")

    assert result.exit_code == 1
    assert "Backfill from the table that it replaces" in result.stderr
    assert archive_cli(stack, "gaps").exit_code == 4, "restore-proofs still refuses"


def test_gap_older_than_since_option_stays_open(bucket: Bucket, stack: FakeStackConnection) -> None:
    add_gap(bucket)
    result = archive_cli(stack, "backfill", "--since", f"{NOW + timedelta(days=1):%F}")
    assert result.exit_code == 4
    assert "1 gaps are still open" in result.stderr


def test_stack_without_archive_is_reported(stack: FakeStackConnection) -> None:
    stack.outputs = {}
    assert "no output ArchiveBucketName" in archive_cli(stack, "gaps").stderr
