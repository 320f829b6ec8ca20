"""The account of a local engine, as its owner sees it: plain boto3, whatever its address."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import boto3
from botocore.config import Config

from oncely_cdk.table_schemas import TTL_ATTRIBUTE
from oncely_local.engine import REGION

STACK_NAME: Final = "Oncely-local"
# What the providers on this machine are told; they take any key.
API_KEYS: Final = {"Stripe": "sk_test_oncely", "Hubspot": "pat-test-oncely"}
# A machine that does other things as well may take its time to answer.
_CLIENT_CONFIG: Final = Config(
    read_timeout=60, retries={"mode": "standard", "total_max_attempts": 5}, max_pool_connections=32
)


class LocalAccount:
    """One engine's account; clients are made once."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = boto3.Session(
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106  # the engine takes any
            region_name=REGION,
        )
        self.client = cache(self._client)

    def outputs(self) -> dict[str, str]:
        """The outputs of the deployed stack."""
        (stack,) = self.client("cloudformation").describe_stacks(StackName=STACK_NAME)["Stacks"]
        return {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}

    def resources(self) -> dict[str, str]:
        """What the deployment calls each resource of the template."""
        listed = self.client("cloudformation").describe_stack_resources(StackName=STACK_NAME)
        return {
            one["LogicalResourceId"]: one["PhysicalResourceId"] for one in listed["StackResources"]
        }

    def protect_jobs(self) -> None:
        """Enable what the engine's CloudFormation leaves off: TTL and point-in-time recovery."""
        dynamodb, table = self.client("dynamodb"), self.outputs()["JobsTableName"]
        dynamodb.update_time_to_live(
            TableName=table,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL_ATTRIBUTE},
        )
        dynamodb.update_continuous_backups(
            TableName=table,
            PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
        )

    def put_provider_secrets(self) -> None:
        """Put the providers' keys in, as a person does after the first deployment."""
        secrets = self.client("secretsmanager")
        for secret in secrets.list_secrets()["SecretList"]:
            for name, value in API_KEYS.items():
                if f"ProviderSecrets{name}" in secret["Name"]:
                    secrets.put_secret_value(SecretId=secret["ARN"], SecretString=value)

    def start_sweep(self, machine: str, **sweep: object) -> str:
        """Start the reconciler by hand; gives the execution."""
        states = self.client("stepfunctions")
        started = states.start_execution(stateMachineArn=machine, input=json.dumps(sweep))
        execution: str = started["executionArn"]
        return execution

    def sweep_result(self, execution: str) -> Mapping[str, Any] | None:
        """What became of an execution; None while it runs."""
        found: Mapping[str, Any] = self.client("stepfunctions").describe_execution(
            executionArn=execution
        )
        return None if found["status"] == "RUNNING" else found

    def _client(self, service: str) -> Any:  # noqa: ANN401  # each service has its own
        return self._session.client(service, endpoint_url=self.url, config=_CLIENT_CONFIG)  # type: ignore[call-overload]  # by name
