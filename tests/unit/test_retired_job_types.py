"""A job type is not removed or renamed by accident, and a rollback is never stopped."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from oncely.handlers.set_up_table import is_rolling_back
from oncely.operate.set_up_table import RemovedJobTypesError, refuse_removed_types


def test_removed_type_is_refused_with_the_ways_out() -> None:
    with pytest.raises(RemovedJobTypesError) as refused:
        refuse_removed_types({"voucher.issue"})

    sentence = str(refused.value)
    assert "voucher.issue is no longer deployed" in sentence
    assert "set job_type = 'voucher.issue' in it" in sentence
    assert "name it in retired_job_types" in sentence


def test_deployment_with_all_types_passes() -> None:
    refuse_removed_types(set())


class Stacks:
    def __init__(self, status: str | None) -> None:
        self.status = status

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        if self.status is None:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "DescribeStacks")
        return {"Stacks": [{"StackStatus": self.status}]}


@pytest.mark.parametrize(
    ("status", "rolls_back"),
    [
        ("UPDATE_IN_PROGRESS", False),
        ("UPDATE_ROLLBACK_IN_PROGRESS", True),
        ("CREATE_IN_PROGRESS", False),
        (None, False),
    ],
)
def test_rollback_is_recognized(status: str | None, rolls_back: bool) -> None:  # noqa: FBT001  # expected
    client: Any = Stacks(status)
    assert is_rolling_back(client, "stack") is rolls_back
