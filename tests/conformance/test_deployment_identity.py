"""The identity of a deployment: written once at first setup, read by the guard, never a job."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oncely.core.due import DueAction
from oncely.core.errors import InvalidKeyError, NotConfiguredError
from oncely.core.keys import job_key
from oncely.core.lifecycle import Status
from oncely.core.table_guard import (
    IDENTITY_KEY,
    PROVED,
    DynamoTableIdentity,
    TableIdentity,
    blocking_reason,
)
from oncely.reconcile.due_index import DueIndex
from tests.support.dynamo import DynamoFixture
from tests.support.engines import COMPLETE_ENGINES, EngineKind

FAR = datetime(9999, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 17, 3, 0, tzinfo=UTC)
# moto's tables have no id, and those in memory have every protection.
REAL_IDS = pytest.mark.parametrize("dynamo", [EngineKind.MINISTACK], indirect=True)


def table(dynamo: DynamoFixture) -> DynamoTableIdentity:
    return DynamoTableIdentity(dynamo.client, dynamo.jobs_table)


def set_up(dynamo: DynamoFixture) -> bool:
    return dynamo.app().table_initializer.run()


def test_new_table_gets_identity_once(dynamo: DynamoFixture) -> None:
    assert set_up(dynamo)
    first = table(dynamo).identity()
    assert not set_up(dynamo)

    assert first is not None
    assert table(dynamo).identity() == first
    assert len(first.deployment) == 16
    assert first.deployment.isalnum()
    # It makes the tags that prove an email, so it is no part of what may be shown or guessed.
    found = table(dynamo).identity()
    assert found is not None
    assert len(found.tag_key) == 32
    assert found.tag_key not in repr(found)


def test_non_empty_table_gets_no_identity(dynamo: DynamoFixture) -> None:
    item = {"job_key": {"S": "payment.charge:order_1"}}
    dynamo.admin.put_item(TableName=dynamo.jobs_table, Item=item)
    assert not set_up(dynamo)
    assert table(dynamo).identity() is None


def test_reading_creates_no_identity(dynamo: DynamoFixture) -> None:
    assert table(dynamo).identity() is None
    assert table(dynamo).is_empty()


def test_two_tables_have_two_identities(dynamo: DynamoFixture) -> None:
    other = dynamo.another()
    try:
        set_up(dynamo), set_up(other)

        assert table(dynamo).identity() != table(other).identity()
    finally:
        other.close()


@pytest.mark.parametrize("dynamo", COMPLETE_ENGINES, indirect=True)
def test_concurrent_setups_create_one_identity(dynamo: DynamoFixture) -> None:
    apps = [dynamo.app(dynamo.separate_client()) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda app: app.table_initializer.run(), apps))
    assert done.count(True) == 1


def test_identity_is_replaced_only_when_unchanged_since_read(dynamo: DynamoFixture) -> None:
    set_up(dynamo)
    ours = table(dynamo).identity()
    assert ours is not None
    restored = replace(ours, table_id="T2", restored_at=NOW, replays_until=NOW + timedelta(days=18))

    assert not table(dynamo).write(restored, replacing=None)
    assert not table(dynamo).write(restored, replacing=replace(ours, table_id="T0"))
    assert not table(dynamo).write(restored, replacing=replace(ours, deployment="another"))
    assert table(dynamo).write(restored, replacing=ours)
    assert table(dynamo).identity() == restored


def test_what_is_known_of_a_lookup_changes_only_as_expected(dynamo: DynamoFixture) -> None:
    look, key = table(dynamo), "voucher.issue:order_1"
    assert not look.set_lookup("voucher.issue", PROVED, expected=None), "there is no item"
    assert not look.set_lookup("voucher.issue", key, expected=""), "nor does one write make it"
    set_up(dynamo)

    def known() -> dict[str, str]:
        identity = look.identity()
        assert identity is not None
        return dict(identity.lookups)

    assert look.set_lookup("voucher.issue", key, expected="")
    assert not look.set_lookup("voucher.issue", "voucher.issue:order_2", expected="")
    assert not look.set_lookup("voucher.issue", "", expected="voucher.issue:order_2")
    assert known() == {"voucher.issue": key}
    assert look.set_lookup("voucher.issue", "", expected=key)
    assert known() == {}
    assert look.set_lookup("voucher.issue", PROVED, expected=None)
    assert look.set_lookup("invoice.finalize", PROVED, expected=None)
    assert known() == {"voucher.issue": PROVED, "invoice.finalize": PROVED}


def test_restored_table_knows_nothing_of_lookups(dynamo: DynamoFixture) -> None:
    set_up(dynamo)
    table(dynamo).set_lookup("voucher.issue", PROVED, expected=None)
    ours = table(dynamo).identity()
    assert ours is not None

    table(dynamo).write(replace(ours, table_id="T2"), replacing=ours)

    assert table(dynamo).identity() == replace(ours, table_id="T2", lookups={})


@REAL_IDS
def test_table_reports_missing_protection(dynamo: DynamoFixture) -> None:
    look = table(dynamo)
    set_up(dynamo)

    assert look.with_protection(look.facts()).missing == ("stream", "TTL", "point-in-time recovery")
    dynamo.protect()
    protected = look.with_protection(look.facts())

    assert protected.missing == ()
    assert blocking_reason(look.identity(), protected, now=NOW) is None


@REAL_IDS
def test_restored_table_id_differs_from_identity_item(dynamo: DynamoFixture) -> None:
    dynamo.protect()
    set_up(dynamo)
    restored = f"{dynamo.jobs_table}-restored"
    dynamo.admin.restore_table_to_point_in_time(
        SourceTableName=dynamo.jobs_table, TargetTableName=restored, UseLatestRestorableTime=True
    )
    ours, dynamo.jobs_table = table(dynamo), restored
    look = table(dynamo)
    item, facts = look.identity(), look.facts()

    assert item == ours.identity(), "the item comes with the rows"
    assert item is not None
    assert item.table_id != facts.table_id
    assert "was restored or copied" in (blocking_reason(item, facts, now=NOW) or "")
    assert not set_up(dynamo)


def test_identity_is_not_listed_counted_or_due(dynamo: DynamoFixture) -> None:
    set_up(dynamo)
    finder = dynamo.finder()

    assert list(finder.by_status(tuple(Status))) == []
    assert finder.count(tuple(Status), since=None, limit=10) == 0
    index = DueIndex(dynamo.client, dynamo.jobs_table)
    for action in DueAction:
        for shard in range(index.shards):
            assert list(index.due(action, shard, since=None, until=FAR)) == []


def test_identity_key_is_not_valid_job_key() -> None:
    with pytest.raises(InvalidKeyError):
        job_key(*IDENTITY_KEY.split(":", 1))


@pytest.mark.parametrize("ask", ["identity", "facts", "is_empty"])
def test_missing_table_raises_not_configured(dynamo: DynamoFixture, ask: str) -> None:
    missing: Any = DynamoTableIdentity(dynamo.client, "no-such-table")
    with pytest.raises(NotConfiguredError, match="identity") as caught:
        getattr(missing, ask)()
    assert isinstance(caught.value.__cause__, ClientError)


def test_identity_without_table_id_is_none(dynamo: DynamoFixture) -> None:
    dynamo.admin.put_item(
        TableName=dynamo.jobs_table,
        Item={"job_key": {"S": IDENTITY_KEY}, "identity": {"S": "0123"}},
    )

    assert table(dynamo).identity() is None
    assert table(dynamo).write(TableIdentity(deployment="0123", table_id="T1"), replacing=None)
