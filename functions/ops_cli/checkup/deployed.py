"""A deployed stack as AWS describes it; each part is asked for once."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from oncely.contract import AnyContract
from oncely.contracts import CONTRACTS
from oncely.settings import camel
from ops_cli.place import Place

Facts = Mapping[str, Any]


@dataclass
class Deployed:
    """What the checks look at."""

    place: Place
    now: datetime
    contracts: tuple[type[AnyContract], ...] = CONTRACTS

    @cached_property
    def stack(self) -> Facts:
        """The stack itself."""
        found = self.place.client("cloudformation").describe_stacks(StackName=self.place.name)
        facts: Facts = found["Stacks"][0]
        return facts

    @cached_property
    def resources(self) -> list[Facts]:
        """Everything that the stack made."""
        cloudformation = self.place.client("cloudformation")
        pages = cloudformation.get_paginator("list_stack_resources").paginate(
            StackName=self.place.name
        )
        return [one for page in pages for one in page["StackResourceSummaries"]]

    def made(self, kind: str) -> list[str]:
        """The physical names of the stack's resources of one kind."""
        return [one["PhysicalResourceId"] for one in self.resources if one["ResourceType"] == kind]

    @cached_property
    def functions(self) -> list[Facts]:
        """The configuration of each function."""
        client = self.place.client("lambda")
        names = self.made("AWS::Lambda::Function")
        return [client.get_function_configuration(FunctionName=name) for name in names]

    @cached_property
    def mappings(self) -> list[Facts]:
        """What feeds the functions."""
        client = self.place.client("lambda")
        ids = self.made("AWS::Lambda::EventSourceMapping")
        return [client.get_event_source_mapping(UUID=one) for one in ids]

    @cached_property
    def queue_names(self) -> tuple[str, ...]:
        """The short names of the queues that carry jobs."""
        return tuple(sorted({kind.needs.queue for kind in self.contracts}))

    @cached_property
    def secret_names(self) -> tuple[str, ...]:
        """The short names of the secrets that jobs use."""
        return tuple(sorted({name for kind in self.contracts for name in kind.needs.secrets}))

    @cached_property
    def table_names(self) -> tuple[str, ...]:
        """The short names of all tables."""
        used = {name for kind in self.contracts for name in kind.needs.tables}
        return ("jobs", *sorted(used))

    def queue_url(self, name: str) -> str | None:
        """Where a queue is, if the stack says so."""
        return self.place.outputs.get(f"{camel(name)}QueueUrl")

    def queue(self, url: str) -> Facts:
        """The attributes of a queue."""
        if url not in self._queues:
            found = self.place.client("sqs").get_queue_attributes(
                QueueUrl=url, AttributeNames=["All"]
            )
            self._queues[url] = found["Attributes"]
        return self._queues[url]

    @cached_property
    def _queues(self) -> dict[str, Facts]:
        return {}

    def function_of(self, mapping: Facts) -> Facts | None:
        """The function that a mapping feeds."""
        arn = mapping["FunctionArn"]
        return next(
            # A qualifier may follow; the name of another function may begin alike.
            (one for one in self.functions if f"{arn}:".startswith(f"{one['FunctionArn']}:")),
            None,
        )

    def mapping_of(self, queue_arn: str) -> Facts | None:
        """What feeds a function from a queue."""
        return next((one for one in self.mappings if one.get("EventSourceArn") == queue_arn), None)
