"""`oncely rejects`: each rejected message with its reason, and sending it corrected."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import Result

from oncely.app import App
from oncely.aws.objects import S3Objects
from oncely.operate.rejects import RejectArchive
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.fakes import START, UnreachableS3
from tests.support.in_memory_stack import InMemoryStack

NAME = "2026/11/16/4f7b"


@dataclass
class RejectingStack(FakeStackConnection):
    rejects: Any = None

    def __post_init__(self) -> None:
        self.rejects = self.world.rejects

    @property
    def app(self) -> App:
        return self.world.app(stored_rejects=self.rejects)


@pytest.fixture
def stack() -> RejectingStack:
    return RejectingStack(InMemoryStack())


def rejects_cli(stack: RejectingStack, *words: str) -> Result:
    return run_cli("rejects", *words, connection=stack)


def body(**changes: Any) -> str:  # noqa: ANN401  # JSON
    return json.dumps({"job": "payment.charge", "v": 1, "order_id": "18452", **changes})


def test_rejects_are_listed_with_reason_time_and_job(stack: RejectingStack) -> None:
    stack.rejects.add(NAME, body())
    stack.rejects.add("2026/11/15/old", "{", at=START - timedelta(days=1))
    stack.rejects.add("2026/10/17/older", "{", at=START - timedelta(days=30))

    text = rejects_cli(stack, "list").stdout
    lines = [json.loads(line) for line in rejects_cli(stack, "list", "--json").stdout.splitlines()]

    assert [line["name"] for line in lines] == [NAME, "2026/11/15/old"]
    assert [line["job_key"] for line in lines] == ["payment.charge:order_18452", None]
    for part in (NAME, "2026-11-16 03:00:00 UTC", "Amount is text.", "payment.charge:order_18452"):
        assert part in text


def test_addresses_in_a_body_are_masked(stack: RejectingStack) -> None:
    stack.rejects.add(NAME, body(customer_id="eve@example.com"))
    for words in (("show", NAME), ("show", NAME, "--json"), ("list", "--json")):
        shown = rejects_cli(stack, *words).stdout
        assert "e***@example.com" in shown
        assert "eve@" not in shown


def test_corrected_message_is_sent(stack: RejectingStack) -> None:
    stack.world.add_order()
    stack.rejects.add(NAME, body(amount=9900, customer_id="cus", currency="eur"))

    changes = ("amount=1250", "customer_id=7", "currency=")
    result = rejects_cli(stack, "resend", NAME, *changes, "--yes")

    assert result.exit_code == 0, result.output
    (sent,) = stack.world.outbox.sent
    assert json.loads(sent) == json.loads(body(amount=1250, customer_id="7"))
    job = stack.world.job("payment.charge:order_18452")
    assert job.evidence[0].actor == "operator:ada@example.com"
    assert NAME in job.evidence[0].reason


def test_dry_run_shows_the_message_and_sends_nothing(stack: RejectingStack) -> None:
    stack.rejects.add(NAME, body(amount=9900))
    result = rejects_cli(stack, "resend", NAME, "amount=1250", "--dry-run")
    assert json.loads(result.stdout)["amount"] == 1250
    assert (stack.world.outbox.sent, stack.rejects.resends) == ([], {})


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("show", "nothing"), 1, "oncely rejects"),
        (("resend", NAME, "amount"), 2, "name=value"),
        (("resend", "2026/11/16/garbled", "a=1"), 1, "with `oncely send`"),
        (("resend", NAME, "amount=-1", "--yes"), 1, "amount"),
        (("resend", NAME, "order_id=x2", "--yes"), 1, "To send something else, use `oncely send`"),
        (("resend", NAME, "customer_id=7", "--yes"), 1, "none can be added"),
    ],
)
def test_error_says_what_to_do(
    stack: RejectingStack, words: tuple[str, ...], code: int, text: str
) -> None:
    stack.rejects.add("2026/11/16/garbled", "{")
    stack.rejects.add(NAME, body(amount=9900))
    result = rejects_cli(stack, *words)
    assert (result.exit_code, text in result.stderr) == (code, True), result.output
    assert stack.world.outbox.sent == []


def test_reject_is_resent_once(stack: RejectingStack) -> None:
    stack.world.add_order()
    stack.rejects.add(NAME, body())
    assert rejects_cli(stack, "resend", NAME, "--yes").exit_code == 0

    second = rejects_cli(stack, "resend", NAME, "--yes")

    assert (second.exit_code, len(stack.world.outbox.sent)) == (1, 1), second.output
    assert "already resent" in second.stderr
    assert "resent" in rejects_cli(stack, "show", NAME).stdout


def test_large_reject_waits_for_second_operator(stack: RejectingStack) -> None:
    stack.world.add_order()
    stack.world.second_operator_above = "eur:1249"
    stack.rejects.add(NAME, body())

    result = rejects_cli(stack, "resend", NAME, "--yes", "--json")

    told = json.loads(result.stdout)
    assert (result.exit_code, told["sent"], told["status"]) == (4, False, "needs_review")
    assert "Another operator confirms it" in told["waits"]
    assert stack.world.outbox.sent == []


def test_show_prints_rejected_messages_on_the_timeline(stack: RejectingStack) -> None:
    stack.world.add_order()
    stack.rejects.add(NAME, body(), job_key="payment.charge:order_18452")
    rejects_cli(stack, "resend", NAME, "--yes")

    shown = run_cli("show", "payment.charge:order_18452", connection=stack).stdout

    assert "a message was rejected" in shown
    assert "amount is text" in shown


def test_show_says_that_rejected_messages_cannot_be_read(stack: RejectingStack) -> None:
    stack.world.add_order()
    stack.rejects.add(NAME, body())
    rejects_cli(stack, "resend", NAME, "--yes")
    client: Any = UnreachableS3()
    stack.rejects = RejectArchive(S3Objects(client, "archive"))

    result = run_cli("show", "payment.charge:order_18452", connection=stack)

    assert (result.exit_code, "cannot be read" in result.stdout) == (0, True)
