"""Dead letters and rejects that Oncely cannot process now are redelivered after seconds."""

import json
from datetime import timedelta
from typing import Any

import pytest

from oncely.app import App
from oncely.core.errors import UnavailableError
from oncely.handlers import archive_rejects, handle_dead_letters
from tests.support.crash_points import InterruptingPort
from tests.support.fakes import FakeMessageSource
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.worker import FakeContext

CONTEXT: Any = FakeContext()


class ClosedBucket:
    def save_reject(self, message_id: str, *_: object, **__: object) -> None:
        raise UnavailableError(f"S3 did not take {message_id}")


class ClosedQueue(FakeMessageSource):
    def redeliver_after(self, receipt: str, *, delay: timedelta) -> None:
        raise UnavailableError(f"SQS did not take {receipt} for {delay}")


def event_with(*bodies: str, receives: int = 1) -> dict[str, Any]:
    return {
        "Records": [
            {
                "messageId": f"id-{number}",
                "receiptHandle": f"receipt-{number}",
                "body": body,
                "attributes": {"ApproximateReceiveCount": str(receives)},
                "messageAttributes": {},
            }
            for number, body in enumerate(bodies)
        ]
    }


@pytest.mark.filterwarnings("ignore:No application metrics")
def test_reject_is_redelivered_after_seconds_when_archive_fails(
    world: InMemoryStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FakeMessageSource()
    app = world.app(message_source=source, stored_rejects=ClosedBucket())
    monkeypatch.setattr(archive_rejects, "get_app", lambda: app)

    with pytest.raises(UnavailableError):
        archive_rejects.handler(event_with("one", "two"), CONTEXT)

    assert source.redelivered.keys() == {"receipt-0", "receipt-1"}
    assert max(source.redelivered.values()) <= timedelta(minutes=2)


@pytest.fixture
def unavailable(world: InMemoryStack) -> InMemoryStack:
    def fail() -> None:
        raise UnavailableError("DynamoDB does not answer")

    world.store = InterruptingPort(world.store, "get", fail)
    return world


def handle(app: App, monkeypatch: pytest.MonkeyPatch, *, receives: int = 1) -> object:
    monkeypatch.setattr(handle_dead_letters, "get_app", lambda: app)
    event = event_with(json.dumps(charge_message()), receives=receives)
    return handle_dead_letters.handler(event, CONTEXT)


@pytest.mark.parametrize(("receives", "seconds"), [(1, 70), (2, 231), (900, 2536)])
def test_dead_letter_is_redelivered_with_growing_delay_when_table_fails(
    unavailable: InMemoryStack, monkeypatch: pytest.MonkeyPatch, receives: int, seconds: int
) -> None:
    source = FakeMessageSource()
    app = unavailable.app(message_source=source, reject_queue=source)

    left = handle(app, monkeypatch, receives=receives)

    assert left == {"batchItemFailures": [{"itemIdentifier": "id-0"}]}
    assert source.redelivered == {"receipt-0": timedelta(seconds=seconds)}


def test_dead_letter_stays_in_queue_when_it_cannot_be_delayed(
    unavailable: InMemoryStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ClosedQueue()
    app = unavailable.app(message_source=source, reject_queue=source)
    left = handle(app, monkeypatch)
    assert left == {"batchItemFailures": [{"itemIdentifier": "id-0"}]}
