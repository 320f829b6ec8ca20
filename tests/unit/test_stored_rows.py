"""The store of the unit tests finds a service that writes over a row it has not read."""

from dataclasses import replace

import pytest

from tests.support.stored_rows import InspectableStore
from tests.unit.samples import make_job


def test_swap_of_made_up_row_fails_the_test() -> None:
    store, row = InspectableStore(), make_job()
    store.create(row)
    with pytest.raises(AssertionError, match="not the stored row"):
        store.swap(replace(row, attempts=7), replace(row, version=row.version + 1))
