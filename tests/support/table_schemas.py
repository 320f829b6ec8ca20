"""Every table of the shipped stack, by short name."""

from typing import Final

from oncely.jobs import CONTRACTS
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.table_schemas import JOBS, JOBS_SCHEMA

TABLE_SCHEMAS: Final = {
    JOBS: JOBS_SCHEMA,
    **RequiredResources(tuple(CONTRACTS)).table_schemas,
}
