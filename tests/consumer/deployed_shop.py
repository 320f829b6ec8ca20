"""A deployed stack of the shop, as its team sees it: through the CDK's and Oncely's commands."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from oncely_local.account import LocalAccount
from oncely_local.engine import ACCOUNT, REGION, aws_environment
from tests.consumer.shell import CDK, run

CAMPAIGN: Final = "spring"
# Many cold starts on a busy machine.
TIMEOUT_SECONDS: Final = 240.0


@dataclass(frozen=True)
class LocalAws:
    """A running engine, and the address of the provider."""

    url: str
    provider: str
    project: Path

    @property
    def variables(self) -> dict[str, str]:
        return aws_environment(self.url)

    def bootstrap(self, assembly: Path) -> None:
        run(self.project, CDK, "bootstrap", "--app", assembly, **self.variables)
        # The engine uses plain HTTP, which the bootstrap bucket's policy denies.
        bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
        LocalAccount(self.url).client("s3").delete_bucket_policy(Bucket=bucket)

    def deploy(self, assembly: Path, *stacks: str) -> None:
        addresses = {"EngineAddress": self.url, "ProvidersAddress": self.provider}
        parameters = [
            f"--parameters={stack}:{name}={value}"
            for stack in stacks
            for name, value in addresses.items()
        ]
        unattended = ("--require-approval", "never", "--concurrency", str(len(stacks)))
        more = (*unattended, *parameters, *stacks)
        run(self.project, CDK, "deploy", "--app", assembly, *more, **self.variables)


class DeployedShop:
    """One stack with Oncely."""

    def __init__(self, aws: LocalAws, stack: str, *, oncely: Path) -> None:
        self.aws, self.stack, self._oncely = aws, stack, oncely
        self._client = LocalAccount(aws.url).client

    @cached_property
    def outputs(self) -> dict[str, str]:
        cloudformation = self._client("cloudformation")
        (stack,) = cloudformation.describe_stacks(StackName=self.stack)["Stacks"]
        return {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}

    def set_up(self, *, api_key: str) -> None:
        """Do what a team does once: store the API key, and the campaign that vouchers belong to.

        The engine's CloudFormation ignores TTL and point-in-time recovery.
        """
        self._client("secretsmanager").put_secret_value(
            SecretId=self.outputs["VoucherApiSecretArn"], SecretString=api_key
        )
        self.add_campaign(CAMPAIGN)
        dynamodb, jobs = self._client("dynamodb"), self.outputs["JobsTableName"]
        dynamodb.update_time_to_live(
            TableName=jobs,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires_at"},
        )
        dynamodb.update_continuous_backups(
            TableName=jobs, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
        )

    def add_campaign(self, name: str) -> None:
        self._client("dynamodb").put_item(
            TableName=self.outputs["CampaignsTableName"], Item={"campaign_id": {"S": name}}
        )

    def command(self, *words: str) -> str:
        """Run `oncely` for this stack."""
        words = (*words, "--stack", self.stack)
        return run(self.aws.project, self._oncely, *words, **self.aws.variables)

    def send(self, voucher_id: str) -> None:
        self.command("send", _message(voucher_id, CAMPAIGN))

    def send_to_queue(self, voucher_id: str, campaign: str) -> None:
        """Put the message into the queue, as a producer without Oncely does."""
        queue = self.outputs["VouchersQueueUrl"]
        body = _message(voucher_id, campaign)
        self._client("sqs").send_message(QueueUrl=queue, MessageBody=body)

    def row(self, voucher_id: str) -> Mapping[str, Any]:
        """Return the row of a job, with texts as values. Empty if there is none."""
        found = self._client("dynamodb").get_item(
            TableName=self.outputs["JobsTableName"],
            Key={"job_key": {"S": f"voucher.issue:{voucher_id}"}},
            ConsistentRead=True,
        )
        return {name: next(iter(one.values())) for name, one in found.get("Item", {}).items()}

    def wait_for(self, voucher_id: str, *, sweep: bool = False, **attributes: str) -> None:
        """Wait until the row has these attributes. `sweep` runs the reconciler for this job."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not attributes.items() <= (row := self.row(voucher_id)).items():
            if time.monotonic() > deadline:
                sys.exit(f"{self.stack}: voucher {voucher_id} has no {attributes} but {row}")
            if sweep:  # again, because a scheduled sweep may have leased the job
                self.command("reconcile", f"voucher.issue:{voucher_id}")
            else:
                time.sleep(0.5)


def _message(voucher_id: str, campaign: str) -> str:
    ids = {"voucher_id": voucher_id, "campaign_id": campaign}
    return json.dumps({"job": "voucher.issue", "v": 1, **ids})
