"""The table of calls in docs/costs.md equals the calls that the deployed stack makes."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import pytest

from oncely_cdk.paths import REPOSITORY
from oncely_local.account import STACK_NAME
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.recorded_permissions import recorded_calls
from tests.e2e.scenarios import charge_message, put_order
from tests.infra.assembly import Assembly

JOBS = 10
COSTS = REPOSITORY / "docs" / "costs.md"


@pytest.fixture(scope="module")
def paid(deployment: StackClient) -> list[str]:
    ids = [f"cost-{number}" for number in range(JOBS)]
    for order_id in ids:
        put_order(deployment, order_id)
        deployment.send("PaymentsQueueUrl", charge_message(order_id))
    for order_id in ids:
        for kind in ("payment.charge", "receipt.send"):
            wait_for(
                lambda key=f"{kind}:order_{order_id}": "expires_at" in (deployment.job(key) or {}),  # type: ignore[misc]  # bound now
                f"{kind} of {order_id} owes nothing",
            )
    return ids


def count_requests(deployment: StackClient, ids: list[str]) -> Iterator[str]:
    found: Counter[tuple[str, str]] = Counter()
    for function, event in recorded_calls(deployment, Assembly(deployment.assembly, STACK_NAME)):
        said = json.dumps(json.loads(event["CloudTrailEvent"])["requestParameters"])
        said += json.dumps(event["Resources"])
        found[function, event["EventName"]] += any(one in said for one in ids)
    for (function, name), times in sorted(found.items()):
        if times:
            yield f"| {function} | {name} | {Fraction(times, JOBS)} |"


def test_call_table_of_paid_order_matches_counts(deployment: StackClient, paid: list[str]) -> None:
    # Only the workers' calls: the stream may show a row again, and then publishes nothing.
    written = re.findall(r"^\| \w+/Worker \| .*$", COSTS.read_text(encoding="utf-8"), re.MULTILINE)
    expected = [line for line in count_requests(deployment, paid) if "/Worker |" in line]
    assert written == expected, "\n".join(expected)
