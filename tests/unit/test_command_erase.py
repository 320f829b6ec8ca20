"""`oncely erase`: its options, output, wait and rejections."""

import json
import time
from dataclasses import replace

import pytest
from typer.testing import Result

from oncely.cli.errors import ExitCode
from oncely.core.ended_jobs import holds_only_proof
from oncely.core.keys import JobKey
from oncely.core.repairs import Repair
from oncely.gates.gate import Pause, PauseAction, PauseEntry
from oncely.operate.repair_request import Repaired, RepairRequest
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished
from tests.support.stored_rows import ARCHIVE
from tests.unit.samples import KEY


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    assert is_finished(world.run(charge_message()))
    world.publisher().publish(KEY)
    monkeypatch.setattr(time, "sleep", lambda seconds: world.clock.advance(seconds=seconds))
    return world


def erase_cli(world: InMemoryStack, *words: str, answer: str | None = None) -> Result:
    stack = FakeStackConnection(world)
    return run_cli("erase", *words, connection=stack, stdin_text=answer)


def test_erases_and_says_what(world: InMemoryStack) -> None:
    before = world.clock.now()
    result = erase_cli(world, "--customer", "customer_7", "--yes")

    assert result.exit_code == 0, result.output
    assert "Erased the data in 1 jobs, 0 records" in result.stdout
    assert holds_only_proof(world.job(KEY))
    # A function that had read the log before may write for its whole timeout.
    assert (world.clock.now() - before).total_seconds() >= 120


def test_audit_names_operator_and_jobs_but_not_person(world: InMemoryStack) -> None:
    erase_cli(world, "--customer", "customer_7", "--yes", "--as", "Ada")

    (run,) = world.erasure_log.runs
    assert run["actor"] == "operator:Ada (signed in as ada@example.com)"
    assert run["erased"] == [KEY]
    assert "customer_7" not in str(run)
    assert "customer_7" not in str(world.erasure_log.entries)
    assert world.job(KEY).evidence[-1].actor == "operator:Ada (signed in as ada@example.com)"


def test_dry_run_changes_nothing(world: InMemoryStack) -> None:
    result = erase_cli(world, "--customer", "customer_7", "--dry-run")

    assert "Would erase the data in 1 jobs" in result.stdout
    assert world.job(KEY).customer_id == "customer_7"
    assert (world.erasure_log.entries, world.erasure_log.runs) == ({}, [])


@pytest.mark.parametrize("dry_run", [True, False])
def test_email_alone_finds_rejects_and_reasons_of_pauses(
    world: InMemoryStack, *, dry_run: bool
) -> None:
    address, s3 = "anna@example.com", world.aws.clients.s3
    named, other = "rejects/2026/11/16/1.json", "rejects/2026/11/16/2.json"
    for name, to in ((named, address.title()), (other, "joanna@example.com")):
        reject = {"reason": "not a job", "body": json.dumps({"to": to})}
        s3.put_object(Bucket=ARCHIVE, Key=name, Body=json.dumps(reject).encode())
    entry = PauseEntry(
        at=START, action=PauseAction.PAUSE, actor="operator:ada", reason=f"{address} complained"
    )
    kept = replace(entry, reason="SES is slow")
    world.gates.write_pause(Pause(target="receipt.send", entries=(kept, entry)))
    before = world.gates.read()

    result = erase_cli(world, "--email", address, "--dry-run" if dry_run else "--yes")

    assert result.exit_code == 0, result.output
    assert "1 rejected messages and 1 pauses" in result.stdout
    left = {one["Key"] for one in s3.list_objects_v2(Bucket=ARCHIVE, Prefix="rejects/")["Contents"]}
    pause = world.gates.read().pauses["receipt.send"]
    if dry_run:
        assert (left, world.gates.read()) == ({named, other}, before)
        return
    assert left == {other}
    assert pause.entries == (kept, replace(entry, reason=""))
    assert pause.current is not None
    assert address not in str(world.erasure_log.runs)
    # An operator who had read the reason cannot write it again.
    assert not world.gates.write_pause(before.pauses["receipt.send"])


def test_open_jobs_are_named_and_need_second_run(world: InMemoryStack) -> None:
    world.add_order("2", status="cancelled")
    world.run(charge_message("2", customer_id="customer_7"))

    result = erase_cli(world, "--customer", "customer_7", "--yes")

    assert result.exit_code == ExitCode.ACTION_NEEDED, result.output
    assert "payment.charge:order_2" in result.output
    assert "Run this again" in result.output


def test_unclaimed_job_is_found_by_its_message(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message("3", customer_id="customer_7"))
    done = json.loads(erase_cli(world, "--customer", "customer_7", "--yes", "--json").stdout)
    assert done["marked"] == ["payment.charge:order_3"]
    assert done["erased"] == [KEY]
    assert not done["dry_run"]


def test_job_that_ended_without_claim_is_erased(world: InMemoryStack) -> None:
    """Its order never arrived, so only the message has the customer."""
    key = JobKey("payment.charge:order_3")
    world.run(charge_message("3", customer_id="customer_7"))
    world.clock.advance(hours=1)
    world.reconciler().resolve(key)
    review = world.job(key)
    closed = RepairRequest(
        key=key,
        repair=Repair.MARK_FAILED,
        version=review.version,
        reason="an order of another system",
        actor="ada",
    )
    assert isinstance(world.app().repairer.repair(closed), Repaired)
    assert not world.job(key).was_claimed

    erase_cli(world, "--customer", "customer_7", "--yes")

    assert holds_only_proof(world.job(key))
    assert "customer_7" not in str(world.job(key))


def test_refusal_at_prompt_changes_nothing(world: InMemoryStack) -> None:
    assert erase_cli(world, "--customer", "customer_7", answer="n\n").exit_code != 0
    assert world.job(KEY).customer_id == "customer_7"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "Pass a customer"),
        (("--customer", "cus_unknown"), "Nothing to erase"),
        (("--record", "4419"), "write its source and its id"),
        (("--customer", ""), "must have 1 to 128"),
    ],
)
def test_bad_request_gets_clear_answer(
    world: InMemoryStack, words: tuple[str, ...], reason: str
) -> None:
    result = erase_cli(world, *words, "--yes")
    assert result.exit_code == 1, result.output
    assert reason in result.output.replace("\n", " ")
    assert world.erasure_log.runs == []


def test_project_without_job_types_of_stack_is_refused(world: InMemoryStack) -> None:
    """Only the contract knows what to erase in its table."""
    outputs = {"JobsTableName": "j", "OrdersTableName": "o", "VouchersTableName": "v"}
    stack = FakeStackConnection(world, outputs=outputs)
    result = run_cli("erase", "--customer", "customer_7", "--yes", connection=stack)

    assert result.exit_code == 1
    assert "(VouchersTableName)" in result.output.replace("\n", " ")
    assert world.job(KEY).customer_id == "customer_7"

    stack.outputs = {name: name for name in outputs if name != "VouchersTableName"}
    result = run_cli("erase", "--customer", "customer_7", "--yes", connection=stack)
    assert result.exit_code == 0, result.output


def test_unreadable_row_is_reported(world: InMemoryStack) -> None:
    world.store.make_unreadable(JobKey(KEY))
    result = erase_cli(world, "--customer", "customer_7", "--yes")
    assert result.exit_code == ExitCode.ACTION_NEEDED
    assert f"Not erased: {KEY}" in result.output.replace("\n", " ")
