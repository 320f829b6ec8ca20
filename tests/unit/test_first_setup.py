"""First setup: a deployment opens a new table once, and never abandons data."""

from typing import Any, Final

import pytest

from oncely.core.table_guard import TableIdentity
from oncely.operate.set_up_table import (
    DeploymentPlan,
    IdentityChangedError,
    TableInitializer,
)
from tests.support.fakes import FakeIdentityTable

NAMES: Final = {"tables.jobs": "jobs-1", "tables.orders": "orders-1", "archive_bucket": "archive-1"}
EXPECTED: Final = {**NAMES, "deployment": "ours"}


def ours() -> FakeIdentityTable:
    return FakeIdentityTable(TableIdentity(deployment="ours", table_id="t-1"))


def open_for(table: FakeIdentityTable, **plan: Any) -> str:  # noqa: ANN401  # fields of the plan
    given = {"is_first": False, "names": NAMES, "previous": NAMES, "expected": {}, **plan}
    double: Any = table
    return TableInitializer(double, lambda: "new").open_for(DeploymentPlan(**given))


def test_first_deployment_opens_an_empty_table() -> None:
    table = FakeIdentityTable(None)

    assert open_for(table, is_first=True, previous={}) == "new"
    assert [one.deployment for one in table.writes] == ["new"]


def test_first_deployment_on_a_known_table_keeps_its_deployment() -> None:
    table = ours()

    assert open_for(table, is_first=True, previous={}) == "ours"
    assert open_for(table, is_first=True, previous={}, expected=EXPECTED) == "ours"
    assert table.writes == []


def test_rows_without_identity_stay_blocked_and_are_deployed() -> None:
    table = FakeIdentityTable(None, has_rows=True)

    assert open_for(table, is_first=True, previous={}) == ""
    assert open_for(table) == ""
    assert table.writes == []


@pytest.mark.parametrize(
    "plan",
    [
        {"previous": {**NAMES, "tables.jobs": "jobs-0"}},
        {"expected": EXPECTED},
        {"is_first": True, "previous": {}, "expected": EXPECTED},
    ],
    ids=["another table", "expected by the file", "expected in a new stack"],
)
def test_empty_table_in_place_of_a_known_one_is_refused(plan: dict[str, Any]) -> None:
    table = FakeIdentityTable(None)

    with pytest.raises(IdentityChangedError, match="jobs-1 has no identity item"):
        open_for(table, **plan)
    assert table.writes == []


def test_update_never_opens_a_table() -> None:
    table = FakeIdentityTable(None)

    assert open_for(table) == ""
    assert table.writes == []


def test_restored_table_of_the_same_deployment_passes() -> None:
    assert open_for(ours(), previous={**NAMES, "tables.jobs": "jobs-0"}, expected=EXPECTED)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"deployment": "theirs"}, "deployment is ours, but .* names theirs"),
        ({"archive_bucket": "archive-0"}, "archive_bucket is archive-1, but .* names archive-0"),
        ({"tables.orders": "orders-0"}, "tables.orders is orders-1, but .* names orders-0"),
    ],
)
def test_name_that_the_file_does_not_have_is_refused(
    changed: dict[str, str], sentence: str
) -> None:
    with pytest.raises(IdentityChangedError, match=sentence):
        open_for(ours(), expected={**EXPECTED, **changed})


def test_table_that_no_job_uses_any_more_is_not_checked() -> None:
    assert open_for(ours(), expected={**EXPECTED, "tables.records": "records-1"}) == "ours"
