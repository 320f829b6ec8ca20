"""What docs/side-by-side.md says of Powertools and Oncely is what they do."""

import ast
import json
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final

import boto3
import pytest
import requests
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from moto import mock_aws

from oncely.contracts.job import AnyJob
from oncely.testing.explore import build_scenario
from oncely.testing.explorer import run_schedule
from oncely.testing.http_model import http_model
from oncely.testing.sandbox import FaultKind, Sandbox
from oncely.testing.sandbox.http_messages import SandboxRequest, SandboxResponse
from oncely.testing.schedule import START, ScriptedChooser
from oncely.testing.script import parse_injections
from tests.docs.pages import page

PAGE: Final = page("docs/side-by-side.md")
FILES: Final = ("powertools_job.py", "dbos_job.py", "oncely_job.py")
RECEIVES: Final = 5  # of a message, before it is dead-lettered


def _execute(name: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": name.removesuffix(".py")}
    exec(PAGE.file(name), names)  # noqa: S102  # our own page
    return names


_ONCELY: Final = _execute("oncely_job.py")
VOUCHER_ISSUE: Final[type[AnyJob]] = _ONCELY["VoucherIssue"]
_MODEL: Final[Any] = http_model(_ONCELY["VOUCHERS"], [VOUCHER_ISSUE])


def _row(title: str) -> list[str]:
    (cells,) = re.findall(rf"^\| {title} \| (.+) \|$", PAGE.text, re.MULTILINE)
    return [cell.strip("* ") for cell in cells.split(" | ")]


def test_lines_and_names_are_counted() -> None:
    texts = [PAGE.file(name) for name in FILES]
    imports = [
        [name for node in ast.walk(ast.parse(text)) for name in _imported(node)] for text in texts
    ]

    assert _row("lines of code") == [
        str(len([line for line in text.splitlines() if line.strip()])) for text in texts
    ]
    assert _row("imported names") == [str(len(names)) for names in imports]


def _imported(node: ast.AST) -> list[str]:
    return [one.name for one in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []


class OneHourDown(_MODEL):  # type: ignore[misc]  # derived from the job of the page
    """Responds with 503 during the first hour."""

    def handle(self, request: SandboxRequest, **more: Any) -> SandboxResponse:  # noqa: ANN401  # as inherited
        is_down = self.options.now() < START + timedelta(hours=1)
        response: SandboxResponse = (
            self.error_response(request, status=503) if is_down else super().handle(request, **more)
        )
        return response


@pytest.mark.parametrize(
    ("script", "model"),
    [
        ("w1:vouchers.perform!lost", _MODEL),
        ("w1:jobs.update_item#2!die", _MODEL),  # the write after the call
        ("", OneHourDown),
    ],
    ids=["lost response", "dead worker", "outage"],
)
def test_oncely_issues_one_voucher(script: str, model: Any) -> None:  # noqa: ANN401  # a model
    """The message is replayed at the end of each schedule, and just before its row expires."""
    chooser = ScriptedChooser(parse_injections(script))

    world, problems = run_schedule(build_scenario(VOUCHER_ISSUE, model=model), chooser)

    assert problems == []
    assert chooser.remaining == 0
    assert list(world.final_statuses()) == ["voucher.issue finished"]
    assert len(world.sandbox.effects()) == 1


class PowertoolsFunction:
    """The function of the page, at the model of the API."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.client: Any = boto3.client("dynamodb")
        self.client.create_table(
            TableName="idempotency",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.code = _execute("powertools_job.py")

    @property
    def vouchers(self) -> int:
        return len(self.sandbox.effects())

    def deliver(self, *, milliseconds_left: int = 30_000) -> bool:
        """Return whether the message is acknowledged."""
        record = {"messageId": "m1", "body": json.dumps({"order_id": "18452"}), "attributes": {}}
        context = SimpleNamespace(
            function_name="issue", get_remaining_time_in_millis=lambda: milliseconds_left
        )
        try:
            self.code["lambda_handler"]({"Records": [record]}, context)
        except BatchProcessingError:  # every record failed
            return False
        return True

    def expire_records(self) -> None:
        for item in self.client.scan(TableName="idempotency")["Items"]:
            self.client.update_item(
                TableName="idempotency",
                Key={"id": item["id"]},
                UpdateExpression="SET expiration = :past",
                ExpressionAttributeValues={":past": {"N": str(int(time.time()) - 1)}},
            )


class WorkerDiedError(BaseException):
    """Ends the function as a killed process does: no handler of the function sees it."""


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Iterator[PowertoolsFunction]:
    with mock_aws(), Sandbox([_ONCELY["VOUCHERS"]], jobs=[VOUCHER_ISSUE]) as sandbox:
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        monkeypatch.setenv("VOUCHERS_API", f"{sandbox.url}/vouchers")
        monkeypatch.setenv("VOUCHERS_API_KEY", _MODEL.api_key)
        yield PowertoolsFunction(sandbox)


@pytest.mark.enable_socket
def test_powertools_remembers_a_result(function: PowertoolsFunction) -> None:
    assert [function.deliver(), function.deliver()] == [True, True]
    assert function.vouchers == 1


@pytest.mark.enable_socket
def test_powertools_issues_two_vouchers_after_lost_response(function: PowertoolsFunction) -> None:
    function.sandbox.faults.add(FaultKind.ACCEPT_THEN_DROP, method="POST", times=1)

    assert [function.deliver(), function.deliver()] == [False, True]
    assert function.vouchers == 2


@pytest.mark.enable_socket
def test_powertools_issues_two_vouchers_after_crash(
    function: PowertoolsFunction, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = requests.post

    def post_and_die(*args: Any, **named: Any) -> None:  # noqa: ANN401  # of any request
        post(*args, **named)
        raise WorkerDiedError

    with monkeypatch.context() as patch:
        patch.setattr(requests, "post", post_and_die)
        with pytest.raises(WorkerDiedError):
            function.deliver(milliseconds_left=0)  # so that its time has passed

    assert function.deliver()
    assert function.vouchers == 2


@pytest.mark.enable_socket
def test_powertools_gives_up_during_outage(function: PowertoolsFunction) -> None:
    function.sandbox.faults.add(FaultKind.OUTAGE, times=None)

    assert [function.deliver() for _ in range(RECEIVES)] == [False] * RECEIVES
    assert function.vouchers == 0


@pytest.mark.enable_socket
def test_powertools_issues_two_vouchers_after_expiry(function: PowertoolsFunction) -> None:
    function.deliver()
    function.expire_records()

    assert function.deliver()
    assert function.vouchers == 2
