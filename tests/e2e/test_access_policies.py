"""What users can do on the command line with only the stack's policies."""

import os

import pytest

from oncely.cli.stack_connection import StackConnection, StackSelector
from oncely.history.erasure_log import Person
from oncely_local.account import STACK_NAME
from oncely_local.engine import REPOSITORY
from tests.e2e import scenarios
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.support.forked_cli import run_command


def charge(stack: StackClient, order_id: str) -> str:
    """A finished payment, as its key."""
    key = f"payment.charge:order_{order_id}"
    scenarios.put_order(stack, order_id)
    stack.send("PaymentsQueueUrl", scenarios.charge_message(order_id))
    stack.wait_for_job(key, "finished")
    wait_for(lambda: (stack.job(key) or {}).get("expires_at"), "its receipt is sent")
    return key


def run_as(environment: dict[str, str], *words: str) -> tuple[int, str]:
    env = {**environment, "PATH": os.environ["PATH"], "ONCELY_STACK": STACK_NAME}
    done = run_command(["oncely", *words], env=env, cwd=REPOSITORY, stdin_text="")
    return done.returncode, done.stdout + done.stderr


def test_reader_looks_up_and_changes_nothing(deployment: StackClient) -> None:
    key = charge(deployment, "seen")
    reader = deployment.user("reader", "ReaderPolicyArn")

    for words in (("find", "seen"), ("list",), ("show", key), ("archive", "gaps")):
        code, output = run_as(reader, *words)
        assert code == 0, output
    about = ("archive", "about", key)
    wait_for(lambda: run_as(reader, *about)[0] == 0, "the history has the job")

    before = deployment.job(key)
    code, output = run_as(reader, "erase", "--customer", "customer_seen", "--yes")
    assert code != 0, output
    assert "check" in output
    assert deployment.job(key) == before


def test_eraser_erases_with_its_policies(
    deployment: StackClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = charge(deployment, "erased")
    eraser = deployment.user("eraser", "ReaderPolicyArn", "EraserPolicyArn")
    words = ("erase", "--customer", "customer_erased", "--record", "hubspot:4419")

    code, output = run_as(eraser, *words, "--dry-run")
    assert code == 0, output

    # The command itself waits for 3 minutes between the two steps.
    for name, value in eraser.items():
        monkeypatch.setenv(name, value)
    service = StackConnection(StackSelector(stack=STACK_NAME)).app.eraser
    person = Person.parse("customer_erased", ["hubspot:4419"])
    done = service.erase_tables(person, actor="ada")
    done = service.erase_archive(person, done, actor="ada")
    service.record_run(done, actor="ada")

    assert key in done.erased
    row = deployment.job(key)
    assert row is not None
    assert (row["status"], row["message"]) == ("finished", "{}")
