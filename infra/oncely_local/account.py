"""The AWS account of a local engine, through boto3."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import boto3
from botocore.config import Config

from oncely.contracts.settings import pascal_case
from oncely.operate.own_tables import TTL_ATTRIBUTE
from oncely_local.engine import REGION

STACK_NAME: Final = "Oncely-local"  # of this repository
# A loaded machine may respond slowly.
_CLIENT_CONFIG: Final = Config(
    read_timeout=60, retries={"mode": "standard", "total_max_attempts": 5}, max_pool_connections=32
)


class LocalAccount:
    """The account of one engine, with cached clients."""

    def __init__(self, url: str, stack_name: str = STACK_NAME) -> None:
        self.url = url
        self.stack_name = stack_name
        self._session = boto3.Session(
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106  # the engine accepts any
            region_name=REGION,
        )
        self.client = cache(self._client)

    def outputs(self) -> dict[str, str]:
        found = self.client("cloudformation").describe_stacks(StackName=self.stack_name)
        return {one["OutputKey"]: one["OutputValue"] for one in found["Stacks"][0]["Outputs"]}

    def resources(self) -> dict[str, str]:
        cloudformation = self.client("cloudformation")
        found = cloudformation.describe_stack_resources(StackName=self.stack_name)
        listed = found["StackResources"]
        return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in listed}

    def protect_jobs(self) -> None:
        """Enable TTL and point-in-time recovery, which the engine's CloudFormation ignores."""
        dynamodb, table = self.client("dynamodb"), self.outputs()["JobsTableName"]
        dynamodb.update_time_to_live(
            TableName=table,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL_ATTRIBUTE},
        )
        dynamodb.update_continuous_backups(
            TableName=table, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
        )

    def put_secrets(self, values: Mapping[str, str]) -> None:
        """Store secrets by short name, as an operator does after the first deployment."""
        secrets, outputs = self.client("secretsmanager"), self.outputs()
        for name, value in values.items():
            if arn := outputs.get(f"{pascal_case(name)}SecretArn"):
                secrets.put_secret_value(SecretId=arn, SecretString=value)

    def start_sweep(self, machine: str, **sweep: object) -> str:
        states = self.client("stepfunctions")
        started = states.start_execution(stateMachineArn=machine, input=json.dumps(sweep))
        execution: str = started["executionArn"]
        return execution

    def sweep_result(self, execution: str) -> Mapping[str, Any] | None:
        states = self.client("stepfunctions")
        found: Mapping[str, Any] = states.describe_execution(executionArn=execution)
        return None if found["status"] == "RUNNING" else found

    def _client(self, service: str) -> Any:  # noqa: ANN401  # each service has its own
        return self._session.client(service, endpoint_url=self.url, config=_CLIENT_CONFIG)  # type: ignore[call-overload]  # by name
