"""Throttled requests are counted in any thread, and reported once with the invocation."""

import json
from typing import Any

import pytest

from oncely.aws import signals
from oncely.aws.clients import THROTTLED_REQUESTS, AwsClients
from oncely.handlers import telemetry
from tests.support.worker import FakeContext


def respond(code: str | None, *reasons: str) -> None:
    """What the SDK does with a response, including one that it retries."""
    error: dict[str, Any] = {"Error": {"Code": code}} if code else {}
    if reasons:
        error["CancellationReasons"] = [{"Code": reason} for reason in reasons]
    AwsClients().dynamodb.meta.events.emit(
        "response-received.dynamodb.UpdateItem", parsed_response=error, response_dict={}
    )


@pytest.fixture(autouse=True)
def _nothing_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "us-east-1")
    THROTTLED_REQUESTS.take()


@pytest.mark.parametrize(
    ("code", "reasons", "count"),
    [
        ("ProvisionedThroughputExceededException", (), 1),
        ("ThrottlingException", (), 1),
        ("TransactionCanceledException", ("None", "ThrottlingError"), 1),
        ("TransactionCanceledException", ("ConditionalCheckFailed",), 0),
        ("ConditionalCheckFailedException", (), 0),
        (None, (), 0),
    ],
)
def test_only_requests_over_capacity_are_counted(
    code: str | None, reasons: tuple[str, ...], count: int
) -> None:
    respond(code, *reasons)
    assert THROTTLED_REQUESTS.take() == count


@pytest.mark.filterwarnings("ignore:No application metrics to publish")  # it has none of its own
def test_throttled_requests_are_reported_with_the_invocation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    telemetry.telemetry().metrics.clear_metrics()

    @telemetry.instrumented
    def handler(_event: dict[str, Any], _context: object) -> dict[str, Any]:
        for _ in range(3):
            THROTTLED_REQUESTS.add()
        return {}

    handler({}, FakeContext())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [line[signals.THROTTLED] for line in lines if signals.THROTTLED in line] == [[3.0]]
    assert THROTTLED_REQUESTS.take() == 0
