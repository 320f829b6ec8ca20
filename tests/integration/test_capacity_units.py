"""The model of capacity units equals what AWS's own engine counts: ENGINE=dynamodb-local."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from oncely.operate.own_tables import JOBS
from tests.bench.capacity import TABLE, WRITE_BYTES, item_bytes
from tests.bench.counting import count_usage
from tests.bench.metering import Meter, MeteredCall
from tests.support.dynamo import DynamoFixture
from tests.support.engines import EngineKind, requested_engines
from tests.support.table_schemas import TABLE_SCHEMAS

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        EngineKind.DYNAMODB_LOCAL not in requested_engines(),
        reason="its licence keeps DynamoDB Local out of `make test`: ENGINE=dynamodb-local",
    ),
]

_SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_KEY = {"job_key": {"S": "test.ping:1"}}
_NAMES = sorted(
    {name for index in TABLE_SCHEMAS[JOBS].indexes for name in index.key.names} - {*_KEY}
)
_OTHERS = sorted(
    {name for index in TABLE_SCHEMAS[JOBS].indexes for name in index.include} - {*_NAMES}
)


def _texts(*lengths: int) -> st.SearchStrategy[dict[str, Any]]:
    """Few different values, so that entries often stay in place; long ones need two units."""
    return st.builds(
        lambda letter, length: {"S": letter * length},
        st.sampled_from("aä"),
        st.sampled_from(lengths),
    )


_KEYS = _texts(1, 2, 500)  # a sort key has at most 1,024 bytes
_TEXT = _texts(1, 2, 600, 1100)
_ANY = st.one_of(
    _TEXT,
    st.integers(-(10**20), 10**20).map(lambda number: {"N": str(number)}),
    st.booleans().map(lambda value: {"BOOL": value}),
    st.just({"NULL": True}),
    st.lists(_TEXT, max_size=3).map(lambda held: {"L": held}),
    st.dictionaries(st.sampled_from("kl"), _TEXT).map(lambda held: {"M": held}),
)
_SMALL = st.one_of(
    st.text("aä€", max_size=5).map(lambda text: {"S": text}),
    st.integers(-(10**37), 10**37).map(lambda number: {"N": str(number)}),
    st.decimals(-(10**6), 10**6, places=3).map(lambda number: {"N": str(number)}),
    st.booleans().map(lambda value: {"BOOL": value}),
    st.lists(st.integers(0, 1000).map(lambda n: {"N": str(n)}), max_size=4).map(
        lambda held: {"L": held}
    ),
    st.dictionaries(st.sampled_from("kl"), st.just({"NULL": True})).map(lambda held: {"M": held}),
)
_ITEMS = st.fixed_dictionaries(
    {}, optional={**dict.fromkeys(_NAMES, _KEYS), **dict.fromkeys((*_OTHERS, "message"), _ANY)}
).map(lambda more: {**_KEY, **more})


@pytest.fixture
def meter(no_profile: None, dynamodb_local: str) -> Iterator[Meter]:
    tables = DynamoFixture(dynamodb_local)
    yield Meter(tables, engine_reports_units=True)
    tables.close()


def modelled_units(call: MeteredCall) -> Counter[tuple[str, str]]:
    units = call.writes + call.reads
    if call.operation == "Query" and call.engine_units == {}:
        # AWS charges the smallest unit for a query that finds nothing; DynamoDB Local does not.
        return Counter()
    return units


def _miscounted(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Two writes that Oncely never makes, and for which the engine's count makes no sense.

    One is a transaction that deletes nothing. In the other, no image has all parts of an index's
    key, but both together have them: the engine counts an entry that never existed.
    """
    return not (before or after) or any(
        names <= {*before, *after} and not names <= {*before} and not names <= {*after}
        for names in (set(index.key.names) for index in TABLE_SCHEMAS[JOBS].indexes)
    )


@settings(_SETTINGS, max_examples=200)
@given(before=st.none() | _ITEMS, after=st.none() | _ITEMS, transactional=st.booleans())
def test_modelled_write_units_match_engine(
    meter: Meter,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    transactional: bool,  # noqa: FBT001  # drawn by hypothesis
) -> None:
    assume(not _miscounted(before or {}, after or {}))
    table = meter.dynamo.jobs_table
    meter.dynamo.admin.delete_item(TableName=table, Key=_KEY)
    if before is not None:
        meter.dynamo.admin.put_item(TableName=table, Item=before)
    write: Any = (
        {"Put": {"TableName": table, "Item": after}}
        if after is not None
        else {"Delete": {"TableName": table, "Key": _KEY}}
    )

    with meter.meter_calls() as calls:
        if transactional:
            meter.dynamo.client.transact_write_items(TransactItems=[write])
        elif after is not None:
            meter.dynamo.client.put_item(**write["Put"])
        else:
            meter.dynamo.client.delete_item(**write["Delete"])

    [call] = calls
    assert modelled_units(call) == call.engine_units


def test_modelled_units_of_shipped_jobs_match_engine(no_profile: None, dynamodb_local: str) -> None:
    counts = count_usage(dynamodb_local, engine_counts=True)

    compared = [call for call in counts.calls if call.engine_units is not None]
    wrong = [call for call in compared if modelled_units(call) != call.engine_units]

    assert len(compared) > 50
    assert wrong == []
    # The engine answers a refused write without its units; the model charges for the item.
    assert {call.failed for call in counts.calls if call.engine_units is None} == {True}


@settings(_SETTINGS, max_examples=50)
@given(held=st.dictionaries(st.sampled_from("xyz"), _SMALL, max_size=3))
def test_item_size_is_exact_in_bytes(meter: Meter, held: dict[str, Any]) -> None:
    """An item of exactly 1,024 bytes costs one unit, and one more byte another unit."""
    padded = {**_KEY, **held, "padding": {"S": ""}}
    room = WRITE_BYTES - item_bytes(padded)

    for length, units in ((room, 1), (room + 1, 2)):
        padded["padding"] = {"S": "p" * length}
        meter.dynamo.admin.delete_item(TableName=meter.dynamo.jobs_table, Key=_KEY)
        meter.dynamo.client.put_item(TableName=meter.dynamo.jobs_table, Item=padded)
        assert meter.calls[-1].engine_units == {(JOBS, TABLE): units}
