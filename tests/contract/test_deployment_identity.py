"""The identity of a deployment: made once, whoever begins first, and never shown as a job."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from oncely.adapters.deployment_identity import IDENTITY_KEY, DeploymentIdentity
from oncely.adapters.due_index import DynamoDueIndex
from oncely.domain.due import Action
from oncely.domain.errors import InvalidKeyError, NotConfiguredError
from oncely.domain.keys import job_key
from oncely.domain.lifecycle import Status
from tests.support.dynamo import Dynamo
from tests.support.engines import Kind

FAR = datetime(9999, 1, 1, tzinfo=UTC)


def identity(dynamo: Dynamo) -> DeploymentIdentity:
    return DeploymentIdentity(dynamo.client, dynamo.jobs_table)


def test_an_identity_is_made_once_and_the_same_for_every_worker(dynamo: Dynamo) -> None:
    first, second = identity(dynamo)(), identity(dynamo)()

    assert first == second
    assert len(first) == 16
    assert first.isalnum()


def test_a_worker_reads_its_identity_once(dynamo: Dynamo) -> None:
    identity(dynamo)()
    dynamo.calls.forget()
    known = identity(dynamo)

    assert len({known() for _ in range(3)}) == 1
    assert dynamo.calls.tries == ["GetItem"]


def test_two_tables_have_two_identities(dynamo: Dynamo) -> None:
    other = Dynamo(dynamo.url)
    try:
        assert identity(dynamo)() != identity(other)()
    finally:
        other.close()


@pytest.mark.parametrize("dynamo", [Kind.MINISTACK], indirect=True)
def test_workers_that_begin_at_once_agree(dynamo: Dynamo) -> None:
    workers = [DeploymentIdentity(dynamo.another_client(), dynamo.jobs_table) for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda worker: worker(), workers))

    assert len(found) == 1


def test_no_list_count_or_sweep_shows_the_identity(dynamo: Dynamo) -> None:
    identity(dynamo)()
    finder = dynamo.finder()

    assert list(finder.attention(tuple(Status))) == []
    assert finder.count(tuple(Status), since=None, most=10) == 0
    index = DynamoDueIndex(dynamo.client, dynamo.jobs_table)
    for action in Action:
        for shard in range(index.shards):
            assert list(index.due(action, shard, since=None, until=FAR)) == []


def test_no_job_can_have_its_key() -> None:
    job_type, _, part = IDENTITY_KEY.partition(":")

    with pytest.raises(InvalidKeyError):
        job_key(job_type, part)


def test_a_table_that_is_not_there_is_a_wrong_configuration(dynamo: Dynamo) -> None:
    with pytest.raises(NotConfiguredError, match="identity") as caught:
        DeploymentIdentity(dynamo.client, "no-such-table")()

    assert isinstance(caught.value.__cause__, ClientError)
