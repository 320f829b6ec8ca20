"""The ports of a dry run answer like the real ones, and write nothing."""

from dataclasses import replace

import pytest

from oncely.domain.errors import InvariantError
from oncely.operate.preview import PreviewStore
from oncely.ports import AlreadyExists, Created, Swapped, VersionConflict
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.samples import KEY, make_claim, make_job


@pytest.fixture
def preview() -> PreviewStore:
    world = InMemoryStack()
    world.store.create(make_job())
    return PreviewStore(world.store, world.dependencies.table)


def test_preview_reads_its_own_writes_only(preview: PreviewStore) -> None:
    before = make_job()
    after = replace(before, version=2)

    assert preview.compare_and_swap(before, after) == Swapped(after)
    assert (preview.get(KEY), preview.store.get(KEY)) == (after, before)
    assert preview.compare_and_swap(before, after) == VersionConflict(after)


def test_preview_creates_only_new_rows(preview: PreviewStore) -> None:
    assert preview.create(make_job()) == AlreadyExists(make_job())
    other = make_job(job_key="payment.charge:order_2")
    assert preview.insert(other) == Created(other)
    assert preview.store.get(other.job_key) is None


def test_preview_claims_nothing(preview: PreviewStore) -> None:
    with pytest.raises(InvariantError):
        preview.claim(make_claim())
