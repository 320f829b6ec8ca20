"""The custom resource of the first setup: its responses to CloudFormation, also in a rollback."""

from typing import Any

import pytest

from oncely.handlers import set_up_table
from oncely.operate.set_up_table import IdentityChangedError, RemovedJobTypesError
from tests.support.fakes import FakeIdentityTable
from tests.support.in_memory_stack import InMemoryStack, charge_message

unwrapped_handler: Any = vars(set_up_table.handler)["__wrapped__"]
NAMES = {"tables.jobs": "jobs-1", "archive_bucket": "archive-1"}


class CloudFormation:
    """The account of one stack, with what the handler answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, world: InMemoryStack) -> None:
        self.status = "UPDATE_IN_PROGRESS"
        self.answers: list[tuple[str, str, dict[str, str]]] = []
        self.cloudformation = self
        monkeypatch.setattr(set_up_table, "app_from_env", lambda _: world.app())
        monkeypatch.setattr(set_up_table, "AwsClients", lambda: self)
        monkeypatch.setattr(set_up_table, "_respond", self._respond)

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        return {"Stacks": [{"StackStatus": self.status}]}

    def _respond(
        self, _: object, status: str, reason: str, data: dict[str, str] | None = None
    ) -> None:
        self.answers.append((status, reason, data or {}))

    def update(self, *, was: dict[str, Any], now: dict[str, Any]) -> None:
        event = {
            "RequestType": "Update",
            "StackId": "stack",
            "ResourceProperties": {"Names": NAMES, **now},
            "OldResourceProperties": {"Names": NAMES, **was},
        }
        unwrapped_handler(event, None)


@pytest.fixture
def world() -> InMemoryStack:
    found = InMemoryStack(identity_table=FakeIdentityTable())
    found.add_order()
    found.enqueuer().enqueue(charge_message())
    return found


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch, world: InMemoryStack) -> CloudFormation:
    return CloudFormation(monkeypatch, world)


BOTH = {"JobTypes": ["payment.charge", "receipt.send"]}
WITHOUT = {"JobTypes": ["receipt.send"]}


def test_removed_type_fails_the_deployment(stack: CloudFormation) -> None:
    with pytest.raises(RemovedJobTypesError):
        stack.update(was=BOTH, now=WITHOUT)

    ((status, reason, _),) = stack.answers
    assert status == "FAILED"
    assert "payment.charge is no longer deployed" in reason


def test_named_type_is_removed(stack: CloudFormation) -> None:
    stack.update(was=BOTH, now={**WITHOUT, "RetiredJobTypes": ["payment.charge"]})

    ((status, _, data),) = stack.answers
    assert status == "SUCCESS"
    assert data["Deployment"]


def test_changed_identity_fails_the_deployment(stack: CloudFormation) -> None:
    with pytest.raises(IdentityChangedError):
        stack.update(was={}, now={"Expected": {"archive_bucket": "archive-0"}})
    assert stack.answers[0][0] == "FAILED"


@pytest.mark.parametrize("now", [WITHOUT, {"Expected": {"archive_bucket": "archive-0"}}])
def test_rollback_is_never_refused(stack: CloudFormation, now: dict[str, Any]) -> None:
    stack.status = "UPDATE_ROLLBACK_IN_PROGRESS"

    stack.update(was=BOTH, now=now)

    ((status, _, data),) = stack.answers
    assert status == "SUCCESS"
    assert data["Deployment"]
