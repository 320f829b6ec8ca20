"""The job table and the business tables: created here, or existing ones."""

from collections.abc import Iterable

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from oncely.settings import pascal_case, table_env_var
from oncely.table_schema import IndexSchema, TableSchema
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.stages import Stage, StageError
from oncely_cdk.table_schemas import JOBS, JOBS_SCHEMA, TTL_ATTRIBUTE

_TEXT = dynamodb.AttributeType.STRING
_CLASSES = {
    "standard": dynamodb.TableClass.STANDARD,
    "standard_infrequent_access": dynamodb.TableClass.STANDARD_INFREQUENT_ACCESS,
}
_BILLING_MODES = {
    "on_demand": dynamodb.BillingMode.PAY_PER_REQUEST,
    "provisioned": dynamodb.BillingMode.PROVISIONED,
}


class Tables(Construct):
    """The job table, and every table that the contracts name."""

    def __init__(
        self, scope: Construct, id_: str, *, stage: Stage, required: RequiredResources
    ) -> None:
        super().__init__(scope, id_)
        self.schemas = {JOBS: JOBS_SCHEMA, **required.table_schemas}
        self.by_name = {name: self._table(name, stage) for name in (JOBS, *required.tables)}
        self._due_shards = str(stage.due_shards)

    @property
    def jobs(self) -> dynamodb.ITable:
        return self.by_name[JOBS]

    def arn(self, name: str) -> str:
        return self.by_name[name].table_arn

    def env_vars(self, names: Iterable[str] = ()) -> dict[str, str]:
        return {**self.table_env_vars(JOBS, *names), "DUE_SHARDS": self._due_shards}

    def table_env_vars(self, *names: str) -> dict[str, str]:
        return {table_env_var(name): self.by_name[name].table_name for name in names}

    def index_arns(self, name: str, *indexes: str) -> list[str]:
        schema = self.schemas.get(name)
        # Only its contract knows the indexes of an existing business table.
        planned = ("*",) if schema is None else tuple(index.name for index in schema.indexes)
        return [f"{self.arn(name)}/index/{index}" for index in indexes or planned]

    def _table(self, name: str, stage: Stage) -> dynamodb.ITable:
        if name in stage.existing_tables:
            return self._existing(name, stage)
        if name not in self.schemas:
            raise StageError(
                f"a contract requires the table {name!r}, which has no schema: name an existing "
                f"table with -c {name}_table=…, or give its TableSchema in the contract's resources"
            )
        return _new_table(self, name, self.schemas[name], stage)

    def _existing(self, name: str, stage: Stage) -> dynamodb.ITable:
        table_name = stage.existing_tables[name]
        if name != JOBS:
            return dynamodb.Table.from_table_name(self, pascal_case(name), table_name)
        if stage.jobs_stream_arn is None:
            raise StageError(
                "an existing job table needs the ARN of its stream: -c jobs_stream_arn=…"
            )
        arn = Stack.of(self).format_arn(
            service="dynamodb", resource="table", resource_name=table_name
        )
        return dynamodb.Table.from_table_attributes(
            self, pascal_case(name), table_arn=arn, table_stream_arn=stage.jobs_stream_arn
        )


def _new_table(scope: Construct, name: str, schema: TableSchema, stage: Stage) -> dynamodb.Table:
    table = dynamodb.Table(
        scope,
        pascal_case(name),
        partition_key=_attribute(schema.key.partition),
        sort_key=_attribute(schema.key.sort) if schema.key.sort else None,
        table_class=_CLASSES[stage.table_class],
        billing_mode=_BILLING_MODES[stage.billing_mode],
        read_capacity=stage.read_capacity_units,
        write_capacity=stage.write_capacity_units,
        encryption=dynamodb.TableEncryption.DEFAULT,  # with a key that AWS owns
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
        deletion_protection=stage.retain_data,
        removal_policy=RemovalPolicy.RETAIN if stage.retain_data else RemovalPolicy.DESTROY,
        stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES if schema.has_stream else None,
        time_to_live_attribute=TTL_ATTRIBUTE if schema.has_ttl else None,
    )
    for index in schema.indexes:
        _add_index(table, index, stage)
    return table


def _add_index(table: dynamodb.Table, index: IndexSchema, stage: Stage) -> None:
    only_keys = not index.include
    table.add_global_secondary_index(
        index_name=index.name,
        partition_key=_attribute(index.key.partition),
        sort_key=_attribute(index.key.sort) if index.key.sort else None,
        projection_type=(
            dynamodb.ProjectionType.KEYS_ONLY if only_keys else dynamodb.ProjectionType.INCLUDE
        ),
        non_key_attributes=None if only_keys else list(index.include),
        read_capacity=stage.read_capacity_units,
        write_capacity=stage.write_capacity_units,
    )


def _attribute(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=_TEXT)
