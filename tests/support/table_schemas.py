"""Every table of the shipped stack, by short name."""

from typing import Final

from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.operate.own_tables import GATES, GATES_SCHEMA, JOBS, JOBS_SCHEMA
from oncely_cdk.required_resources import RequiredResources

TABLE_SCHEMAS: Final = {
    JOBS: JOBS_SCHEMA,
    GATES: GATES_SCHEMA,
    **RequiredResources(tuple(SHIPPED_JOBS)).table_schemas,
}
