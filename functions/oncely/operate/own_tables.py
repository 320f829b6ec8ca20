"""The schemas of Oncely's own tables; contracts bring those of the business tables."""

from typing import Final

from oncely.contracts.table_schema import IndexSchema, KeySchema, TableSchema
from oncely.core import row_items as job_rows
from oncely.operate import job_index as job_finder
from oncely.reconcile import due_index

JOBS: Final = "jobs"
GATES: Final = "gates"
TTL_ATTRIBUTE: Final = "expires_at"

DUE_INDEX: Final = due_index.INDEX
ATTENTION_INDEX: Final = job_finder.ATTENTION_INDEX


GATES_SCHEMA: Final = TableSchema(name=GATES, key=KeySchema(partition="gate"))
JOBS_SCHEMA: Final = TableSchema(
    name=JOBS,
    key=KeySchema(partition="job_key"),
    has_stream=True,
    has_ttl=True,
    indexes=(
        # Sparse: only rows with a due time are in it, so a sweep reads unresolved jobs only.
        IndexSchema(name=DUE_INDEX, key=KeySchema(partition=job_rows.DUE, sort="due_at")),
        # For searches; sparse as well. They return keys, and rows are read by key.
        IndexSchema(
            name=job_finder.BY_SUBJECT, key=KeySchema(partition="subject", sort="created_at")
        ),
        IndexSchema(
            name=job_finder.BY_CUSTOMER, key=KeySchema(partition="customer_id", sort="created_at")
        ),
        IndexSchema(name=job_finder.BY_REFERENCE, key=KeySchema(partition="provider_ref")),
        # Jobs that need an operator. Jobs in progress are in the due index.
        IndexSchema(
            name=ATTENTION_INDEX,
            key=KeySchema(partition=job_rows.ATTENTION, sort="since"),
        ),
    ),
)
