"""The store of the fault explorer rejects what DynamoDB or IAM would not allow."""

from dataclasses import replace

import pytest

from oncely.domain.errors import InvariantError
from oncely.ports import BusinessWriteConflict
from oncely.testing.memory import MemoryBusinessRows, MemoryJobStore
from tests.conformance.samples import paid_order_write
from tests.unit.samples import make_job


def test_swap_of_made_up_row_is_an_invariant_error() -> None:
    store, row = MemoryJobStore(), make_job()
    store.create(row)
    with pytest.raises(InvariantError, match="is not the stored row"):
        store.compare_and_swap(replace(row, attempts=7), replace(row, version=row.version + 1))


def test_table_that_contract_only_reads_cannot_be_written() -> None:
    rows = MemoryBusinessRows(writable=frozenset({"records"}))
    rows.put("orders", {"order_id": "18452"}, {"status": "payment_pending"})
    store, row = MemoryJobStore(rows), make_job()
    store.create(row)

    result = store.compare_and_swap(
        row, replace(row, version=row.version + 1), business_writes=[paid_order_write()]
    )

    assert isinstance(result, BusinessWriteConflict)
    assert "list the table in the contract's `writes`" in result.reason
    assert store.get(row.job_key) == row
