"""`oncely restore-proofs`: its options, its output and what it refuses."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncely.aws.job_rows import serialize_job
from oncely.domain.lifecycle import Status
from oncely.domain.text import parse_time
from tests.support.cli import FakeStackConnection, FakeSts, run_cli
from tests.unit.samples import make_job
from tests.unit.test_command_archive import Bucket

DAY = 24 * 60 * 60


@dataclass
class RestoredTable:
    """A table that was restored from T1, with one open job."""

    identity: dict[str, Any] = field(
        default_factory=lambda: {"identity": {"S": "dev"}, "table_id": {"S": "T1"}}
    )
    puts: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)

    def get_item(self, **_: object) -> dict[str, Any]:
        return {"Item": self.identity}

    def describe_table(self, **_: str) -> dict[str, Any]:
        return {"Table": {"TableId": "T2", "StreamSpecification": {"StreamEnabled": True}}}

    def describe_time_to_live(self, **_: str) -> dict[str, Any]:
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED"}}

    def describe_continuous_backups(self, **_: str) -> dict[str, Any]:
        recovery = {"PointInTimeRecoveryStatus": "ENABLED"}
        return {"ContinuousBackupsDescription": {"PointInTimeRecoveryDescription": recovery}}

    def scan(self, **_: object) -> dict[str, Any]:
        return {"Items": [serialize_job(make_job(status=Status.STARTED))]}

    def update_item(self, **query: Any) -> dict[str, Any]:  # noqa: ANN401  # boto3's
        self.updates.append(query)
        return {}

    def put_item(self, *, Item: dict[str, Any], **_: object) -> dict[str, Any]:  # noqa: N803  # boto3's
        self.puts.append(Item)
        return {}


@dataclass(frozen=True)
class FakeQueues:
    def get_queue_attributes(self, *, QueueUrl: str, **_: object) -> dict[str, Any]:  # noqa: N803  # boto3's
        days = 14 if QueueUrl == "dead" else 4
        return {"Attributes": {"MessageRetentionPeriod": str(days * DAY)}}


def make_connection(table: RestoredTable) -> FakeStackConnection:
    return FakeStackConnection(
        clients={"sts": FakeSts(), "dynamodb": table, "s3": Bucket(), "sqs": FakeQueues()},
        outputs={
            "JobsTableName": "jobs",
            "ArchiveBucketName": "archive",
            "PaymentsQueueUrl": "payments",
            "DeadLetterQueueUrl": "dead",
            "RejectsQueueUrl": "dead",
            "MissedQueueUrl": "dead",
            "GapsQueueUrl": "dead",
        },
    )


def test_replacement_keeps_identity_and_says_when_jobs_resume() -> None:
    table = RestoredTable()

    result = run_cli("restore-proofs", "--replacement", "--yes", connection=make_connection(table))

    assert result.exit_code == 0, result.output
    assert "Read 1 rows, wrote 1, left 1 to look up at providers." in result.stdout
    assert "The identity is dev." in result.stdout
    assert "Jobs resume at" in result.stdout
    (item,) = table.puts
    assert (item["identity"]["S"], item["table_id"]["S"]) == ("dev", "T2")
    assert len(table.updates) == 1


def test_replay_window_covers_queue_and_dead_letter_retention() -> None:
    table = RestoredTable()

    run_cli("restore-proofs", "--replacement", "--yes", connection=make_connection(table))

    (item,) = table.puts
    window = parse_time(item["replays_until"]["S"]) - datetime.now(UTC)
    assert timedelta(days=17) < window <= timedelta(days=18)


def test_copy_rejects_given_identity() -> None:
    table = RestoredTable()

    result = run_cli(
        "restore-proofs", "--copy", "--identity", "dev", "--yes", connection=make_connection(table)
    )

    assert result.exit_code == 2
    assert "a copy gets a new identity" in result.stderr
    assert table.puts == []


def test_copy_gets_new_identity() -> None:
    table = RestoredTable()

    result = run_cli(
        "restore-proofs", "--copy", "--yes", "--json", connection=make_connection(table)
    )

    done = json.loads(result.stdout)
    assert done["identity"] != "dev"
    assert (done["table_id"], done["unresolved"]) == ("T2", 1)


def test_dry_run_writes_nothing() -> None:
    table = RestoredTable()

    result = run_cli(
        "restore-proofs", "--replacement", "--dry-run", connection=make_connection(table)
    )

    assert "would write 1" in result.stdout
    assert table.puts == table.updates == []


@pytest.mark.parametrize("options", [(), ("--replacement", "--copy")])
def test_exactly_one_of_replacement_and_copy_is_required(options: tuple[str, ...]) -> None:
    result = run_cli(
        "restore-proofs", *options, "--yes", connection=make_connection(RestoredTable())
    )

    assert result.exit_code == 2
    assert "either --replacement" in result.stderr


def test_table_with_own_identity_is_left_unchanged() -> None:
    table = RestoredTable(identity={"identity": {"S": "dev"}, "table_id": {"S": "T2"}})

    result = run_cli("restore-proofs", "--replacement", "--yes", connection=make_connection(table))

    assert result.exit_code == 1
    assert "nothing to declare" in result.stderr
    assert table.puts == []


def test_stack_without_queue_outputs_fails() -> None:
    nowhere = make_connection(RestoredTable())
    nowhere.outputs = {"JobsTableName": "jobs", "ArchiveBucketName": "archive"}

    result = run_cli("restore-proofs", "--replacement", "--yes", connection=nowhere)

    assert result.exit_code == 3
