"""A deployed stack as AWS describes it. Each part is read once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from oncely.cli.project import project_jobs
from oncely.cli.stack_connection import StackConnection
from oncely.contracts.contract import AnyContract, providers_of
from oncely.contracts.settings import EXISTING_TABLES_OUTPUT, pascal_case
from oncely.contracts.table_schema import TableSchema
from oncely.plugins.provider import AnyProvider

AwsDescription = Mapping[str, Any]


@dataclass
class DeployedStack:
    """The stack that the checks read."""

    connection: StackConnection
    now: datetime
    contracts: tuple[type[AnyContract], ...] = field(default_factory=project_jobs)

    @cached_property
    def stack(self) -> AwsDescription:
        client = self.connection.client("cloudformation")
        found: AwsDescription = client.describe_stacks(StackName=self.connection.name)["Stacks"][0]
        return found

    @cached_property
    def resources(self) -> list[AwsDescription]:
        client = self.connection.client("cloudformation")
        paginator = client.get_paginator("list_stack_resources")
        pages = paginator.paginate(StackName=self.connection.name)
        return [one for page in pages for one in page["StackResourceSummaries"]]

    def physical_ids(self, kind: str) -> list[str]:
        return [one["PhysicalResourceId"] for one in self.resources if one["ResourceType"] == kind]

    @cached_property
    def functions(self) -> list[AwsDescription]:
        client = self.connection.client("lambda")
        names = self.physical_ids("AWS::Lambda::Function")
        return [client.get_function_configuration(FunctionName=name) for name in names]

    @cached_property
    def event_source_mappings(self) -> list[AwsDescription]:
        client = self.connection.client("lambda")
        ids = self.physical_ids("AWS::Lambda::EventSourceMapping")
        return [client.get_event_source_mapping(UUID=one) for one in ids]

    @cached_property
    def queue_names(self) -> tuple[str, ...]:
        return tuple(sorted({contract_type.resources.queue for contract_type in self.contracts}))

    @cached_property
    def providers(self) -> tuple[AnyProvider, ...]:
        settings = self.connection.provider_settings
        return tuple(p for p in providers_of(self.contracts) if p.is_configured(settings(p)))

    @cached_property
    def table_schemas(self) -> dict[str, TableSchema]:
        return {
            table.name: table
            for contract_type in self.contracts
            for table in contract_type.resources.tables
            if not isinstance(table, str)
        }

    def columns(self, table: str) -> Mapping[str, str]:
        """The names that an existing table has for our columns, where they differ."""
        found: Mapping[str, str] = json.loads(
            self.connection.outputs.get(f"{pascal_case(table)}Columns", "{}")
        )
        return found

    @cached_property
    def existing_tables(self) -> frozenset[str]:
        """The tables that the stack did not create. They may lack an index."""
        return frozenset(self.connection.outputs.get(EXISTING_TABLES_OUTPUT, "").split(","))

    @cached_property
    def secret_names(self) -> tuple[str, ...]:
        resources = (one.resources for one in self.contracts)
        return tuple(sorted({n for r in resources for n in r.secret_names_for(self.providers)}))

    @cached_property
    def table_names(self) -> tuple[str, ...]:
        used = {name for one in self.contracts for name in one.resources.table_names}
        return ("jobs", *sorted(used))

    def queue_url(self, name: str) -> str | None:
        return self.connection.outputs.get(f"{pascal_case(name)}QueueUrl")

    def queue(self, url: str) -> AwsDescription:
        if url not in self._queues:
            client = self.connection.client("sqs")
            found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
            self._queues[url] = found["Attributes"]
        return self._queues[url]

    @cached_property
    def _queues(self) -> dict[str, AwsDescription]:
        return {}

    def function_for(self, mapping: AwsDescription) -> AwsDescription | None:
        arn = mapping["FunctionArn"]
        return next(
            # The ARN may have a qualifier. The colon keeps a longer function name from matching.
            (one for one in self.functions if f"{arn}:".startswith(f"{one['FunctionArn']}:")),
            None,
        )

    def mapping_for(self, queue_arn: str) -> AwsDescription | None:
        return next(
            (one for one in self.event_source_mappings if one.get("EventSourceArn") == queue_arn),
            None,
        )
