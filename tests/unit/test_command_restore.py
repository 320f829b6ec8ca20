"""`oncely restore-proofs`: its options, output and rejections."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import Result

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


OUTPUTS = {
    "JobsTableName": "jobs",
    "ArchiveBucketName": "archive",
    "PaymentsQueueUrl": "payments",
    **dict.fromkeys(("DeadLetterQueueUrl", "RejectsQueueUrl"), "dead"),
    **dict.fromkeys(("MissedQueueUrl", "GapsQueueUrl"), "dead"),
}


@pytest.fixture
def table() -> RestoredTable:
    return RestoredTable()


def restore_cli(table: RestoredTable, *words: str, **outputs: str) -> Result:
    clients = {"sts": FakeSts(), "dynamodb": table, "s3": Bucket(), "sqs": FakeQueues()}
    stack = FakeStackConnection(clients=clients, outputs=outputs or OUTPUTS)
    return run_cli("restore-proofs", *words, connection=stack)


def test_replacement_keeps_identity_and_says_when_jobs_resume(table: RestoredTable) -> None:
    result = restore_cli(table, "--replacement", "--yes")

    assert result.exit_code == 0, result.output
    assert "Read 1 rows, wrote 1, left 1 to look up at providers." in result.stdout
    assert "The identity is dev." in result.stdout
    assert "Jobs resume at" in result.stdout
    (item,) = table.puts
    assert (item["identity"]["S"], item["table_id"]["S"]) == ("dev", "T2")
    assert len(table.updates) == 1


def test_replay_window_covers_queue_and_dead_letter_retention(table: RestoredTable) -> None:
    restore_cli(table, "--replacement", "--yes")
    (item,) = table.puts
    window = parse_time(item["replays_until"]["S"]) - datetime.now(UTC)
    assert timedelta(days=17) < window <= timedelta(days=18)


def test_copy_gets_new_identity(table: RestoredTable) -> None:
    done = json.loads(restore_cli(table, "--copy", "--yes", "--json").stdout)
    assert done["identity"] != "dev"
    assert (done["table_id"], done["unresolved"]) == ("T2", 1)


def test_dry_run_writes_nothing(table: RestoredTable) -> None:
    assert "would write 1" in restore_cli(table, "--replacement", "--dry-run").stdout
    assert table.puts == table.updates == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--copy", "--identity", "dev"), "a copy gets a new identity"),
        ((), "either --replacement"),
        (("--replacement", "--copy"), "either --replacement"),
    ],
)
def test_contradicting_options_are_rejected(
    table: RestoredTable, options: tuple[str, ...], message: str
) -> None:
    result = restore_cli(table, *options, "--yes")
    assert result.exit_code == 2
    assert message in result.stderr
    assert table.puts == []


def test_table_with_own_identity_is_left_unchanged() -> None:
    table = RestoredTable(identity={"identity": {"S": "dev"}, "table_id": {"S": "T2"}})

    result = restore_cli(table, "--replacement", "--yes")

    assert result.exit_code == 1
    assert "nothing to declare" in result.stderr
    assert table.puts == []


def test_stack_without_queue_outputs_fails(table: RestoredTable) -> None:
    names = {"JobsTableName": "jobs", "ArchiveBucketName": "archive"}
    assert restore_cli(table, "--replacement", "--yes", **names).exit_code == 3
