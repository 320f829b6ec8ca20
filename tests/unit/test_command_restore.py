"""`oncely restore-proofs`: its options, output and rejections."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import Result

from oncely.core.lifecycle import Status
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.fakes import T1, T2
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.samples import KEY, make_job

DAY = 24 * 60 * 60


@dataclass(frozen=True)
class FakeQueues:
    def get_queue_attributes(self, *, QueueUrl: str, **_: object) -> dict[str, Any]:  # noqa: N803  # boto3's
        days = 14 if QueueUrl == "dead" else 4
        return {"Attributes": {"MessageRetentionPeriod": str(days * DAY)}}


OUTPUTS = {
    "PaymentsQueueUrl": "payments",
    **dict.fromkeys(("DeadLetterQueueUrl", "RejectsQueueUrl"), "dead"),
    **dict.fromkeys(("MissedQueueUrl", "GapsQueueUrl"), "dead"),
}


@pytest.fixture
def world() -> InMemoryStack:
    world = InMemoryStack()
    world.store.create(make_job(status=Status.STARTED))
    return world


def restore_cli(world: InMemoryStack, *words: str, outputs: Mapping[str, str] = OUTPUTS) -> Result:
    stack = FakeStackConnection(world, clients={"sqs": FakeQueues()}, outputs=outputs)
    return run_cli("restore-proofs", *words, connection=stack)


def test_replacement_keeps_identity_and_says_when_jobs_resume(world: InMemoryStack) -> None:
    result = restore_cli(world, "--yes")

    assert result.exit_code == 0, result.output
    assert "Read 1 rows, wrote 1, left 1 to look up at providers." in result.stdout
    assert "The identity is dev." in result.stdout
    assert "Jobs resume at" in result.stdout
    (item,) = world.identity_table.writes
    assert (item.deployment, item.table_id) == ("dev", "T2")
    assert world.job(KEY).status is Status.UNKNOWN


def test_replay_window_covers_queue_and_dead_letter_retention(world: InMemoryStack) -> None:
    restore_cli(world, "--yes")
    (item,) = world.identity_table.writes
    assert item.replays_until == world.clock.now() + timedelta(days=18)


def test_json_has_identity_and_counts(world: InMemoryStack) -> None:
    done = json.loads(restore_cli(world, "--yes", "--json").stdout)
    assert (done["identity"], done["table_id"], done["unresolved"]) == ("dev", "T2", 1)


def test_dry_run_writes_nothing(world: InMemoryStack) -> None:
    assert "would write 1" in restore_cli(world, "--dry-run").stdout
    assert world.identity_table.writes == []
    assert world.job(KEY).status is Status.STARTED


def test_table_with_own_identity_is_left_unchanged(world: InMemoryStack) -> None:
    world.identity_table.item = replace(T1, table_id=T2.table_id)

    result = restore_cli(world, "--yes")

    assert result.exit_code == 1
    assert "nothing to declare" in result.stderr
    assert world.identity_table.writes == []


def test_stack_without_queue_outputs_fails(world: InMemoryStack) -> None:
    assert restore_cli(world, "--yes", outputs={}).exit_code == 3
