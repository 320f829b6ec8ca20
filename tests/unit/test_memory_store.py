"""The store of the fault explorer rejects a row that nobody read."""

from dataclasses import replace

import pytest

from oncely.domain.errors import InvariantError
from oncely.testing.memory import MemoryJobStore
from tests.unit.samples import make_job


def test_swap_of_made_up_row_is_an_invariant_error() -> None:
    store, row = MemoryJobStore(), make_job()
    store.create(row)
    with pytest.raises(InvariantError, match="is not the stored row"):
        store.compare_and_swap(replace(row, attempts=7), replace(row, version=row.version + 1))
