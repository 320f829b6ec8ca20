"""Oncely's own tables and the business tables: created here, or existing ones."""

import json
from collections.abc import Iterable, Mapping

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from oncely.contracts.settings import (
    EXISTING_TABLES_ENV_VAR,
    columns_env_var,
    pascal_case,
    table_env_var,
)
from oncely.contracts.table_schema import IndexSchema, TableSchema
from oncely.operate.own_tables import GATES, GATES_SCHEMA, JOBS, JOBS_SCHEMA, TTL_ATTRIBUTE
from oncely_cdk.encryption_keys import EncryptionKeys
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.stages import OncelySettings, StageError

_TEXT = dynamodb.AttributeType.STRING
_CLASSES = {
    "standard": dynamodb.TableClass.STANDARD,
    "standard_infrequent_access": dynamodb.TableClass.STANDARD_INFREQUENT_ACCESS,
}


class Tables(Construct):
    """The job table, the gates, and every table in the contracts."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: OncelySettings,
        required: RequiredResources,
        given: Mapping[str, dynamodb.ITable],
    ) -> None:
        super().__init__(scope, id_)
        self._given, self._existing_names = given, stage.existing_tables
        self._required = required
        self.schemas = {JOBS: JOBS_SCHEMA, GATES: GATES_SCHEMA, **required.table_schemas}
        self.by_name = {name: self._table(name, stage) for name in (JOBS, GATES, *required.tables)}
        self._due_shards = str(stage.due_shards)
        self._columns = stage.table_columns
        self._add_keys(stage)

    @property
    def created(self) -> frozenset[str]:
        """The tables that the stack creates, by short name."""
        return frozenset(self.by_name) - set(self._given) - set(self._existing_names)

    def arn(self, name: str) -> str:
        return self.by_name[name].table_arn

    def arns(self, names: Iterable[str]) -> list[str]:
        return [self.arn(name) for name in names]

    def env_vars(self, names: Iterable[str] = ()) -> dict[str, str]:
        names = tuple(names)
        existing = self.existing_env_vars(names)
        return {**self.table_env_vars(JOBS, *names), **existing, "DUE_SHARDS": self._due_shards}

    def existing_env_vars(self, names: Iterable[str]) -> dict[str, str]:
        """Return what differs in tables that the stack does not create: columns and indexes."""
        existing = sorted(set(names) - self.created)
        mapped = (name for name in existing if name in self._columns)
        variables = {columns_env_var(name): json.dumps(self._columns[name]) for name in mapped}
        # `oncely doctor` checks the indexes of a schema.
        checked = ",".join(name for name in existing if name in self.schemas)
        return {**variables, EXISTING_TABLES_ENV_VAR: checked} if checked else variables

    def table_env_vars(self, *names: str) -> dict[str, str]:
        return {table_env_var(name): self.by_name[name].table_name for name in names}

    def index_arns(self, name: str, *indexes: str) -> list[str]:
        schema = self.schemas.get(name)
        # Only its contract knows the indexes of an existing business table.
        planned = ("*",) if schema is None else tuple(index.name for index in schema.indexes)
        return [f"{self.arn(name)}/index/{index}" for index in indexes or planned]

    def _table(self, name: str, stage: OncelySettings) -> dynamodb.ITable:
        if (table := self._given.get(name)) is not None:
            if name == JOBS and table.table_stream_arn is None:
                raise StageError(
                    "tables has a job table without a stream: create it with "
                    "stream=NEW_AND_OLD_IMAGES, or import it with table_stream_arn=…"
                )
            return table
        if name in stage.existing_tables:
            return self._existing(name, stage)
        if name not in self.schemas:
            contracts = self._required.contracts
            users = (one for one in contracts if name in one.table_names())
            raise stage.error(
                f"the job {next(users).job_type} requires the table {name!r}, which has no schema: "
                f"give an existing one in `tables`, or name it as existing_tables.{name}, or give "
                "its TableSchema in the contract's resources"
            )
        return _new_table(self, name, self.schemas[name], stage)

    def _add_keys(self, stage: OncelySettings) -> None:
        for name, table in self.by_name.items():
            key = table.encryption_key
            if key_arn := key.key_arn if key else stage.existing_keys.tables.get(name):
                arns = filter(None, (table.table_arn, table.table_stream_arn))
                EncryptionKeys.of(self).add(key_arn, *arns)

    def _existing(self, name: str, stage: OncelySettings) -> dynamodb.ITable:
        table_name = stage.existing_tables[name]
        if name != JOBS:
            return dynamodb.Table.from_table_name(self, pascal_case(name), table_name)
        if stage.jobs_stream_arn is None:
            raise stage.error(
                "existing_tables.jobs needs the ARN of the table's stream: set jobs_stream_arn"
            )
        arn = Stack.of(self).format_arn(
            service="dynamodb", resource="table", resource_name=table_name
        )
        return dynamodb.Table.from_table_attributes(
            self, pascal_case(name), table_arn=arn, table_stream_arn=stage.jobs_stream_arn
        )


def _new_table(
    scope: Construct, name: str, schema: TableSchema, stage: OncelySettings
) -> dynamodb.Table:
    table = dynamodb.Table(
        scope,
        pascal_case(name),
        partition_key=_attribute(schema.key.partition),
        sort_key=_attribute(schema.key.sort) if schema.key.sort else None,
        table_class=_CLASSES[stage.table_class],
        billing_mode=dynamodb.BillingMode.PROVISIONED
        if stage.read_capacity_units
        else dynamodb.BillingMode.PAY_PER_REQUEST,
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


def _add_index(table: dynamodb.Table, index: IndexSchema, stage: OncelySettings) -> None:
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
