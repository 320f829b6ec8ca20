"""The queues: one for each name in the contracts, one for dead letters, one for rejects."""

from collections.abc import Iterable
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely.contracts.message import MAX_MESSAGE_BYTES
from oncely.contracts.settings import pascal_case, queue_env_var
from oncely_cdk.encryption_keys import EncryptionKeys
from oncely_cdk.nag import acknowledge
from oncely_cdk.own_resources import OwnResources, queue_resource
from oncely_cdk.stages import DEAD_LETTER_RETENTION_DAYS, OncelySettings

# SQS counts a reject's body and its reason. Limiting incoming messages leaves room for the reason;
# otherwise a message of maximum size could not be rejected.
MAX_QUEUE_MESSAGE_BYTES: Final = 2 * MAX_MESSAGE_BYTES


class Queues(Construct):
    """The encrypted queues. All but those of the local stack require TLS."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: OncelySettings,
        names: Iterable[str],
        own: OwnResources,
    ) -> None:
        super().__init__(scope, id_)
        self._stage = stage
        self.dead_letters, self.rejects = (
            create_queue(self, id_, stage=stage, days=DEAD_LETTER_RETENTION_DAYS)
            for id_ in ("DeadLetters", "Rejects")
        )
        acknowledge(
            self.rejects,
            "SQS3",
            "It has no further queue: rejects are archived, with an alarm on age.",
        )
        self.by_name = {
            name: self._adopt(queue) if (queue := own.queue(name)) else self._job_queue(name)
            for name in names
        }

    def env_vars(self, names: Iterable[str] | None = None) -> dict[str, str]:
        wanted = self.by_name if names is None else names
        return {queue_env_var(name): self.by_name[name].queue_url for name in wanted}

    def arns(self, names: Iterable[str] | None = None) -> list[str]:
        wanted = self.by_name if names is None else names
        return [self.by_name[name].queue_arn for name in wanted]

    def _job_queue(self, name: str) -> sqs.Queue:
        return create_queue(
            self,
            pascal_case(name),
            stage=self._stage,
            days=self._stage.queue_retention_days,
            max_bytes=MAX_QUEUE_MESSAGE_BYTES,
            dead_letters=sqs.DeadLetterQueue(
                queue=self.dead_letters, max_receive_count=self._stage.max_receive_count
            ),
        )

    def _adopt(self, queue: sqs.Queue) -> sqs.Queue:
        """Give a team's queue its redrive policy, and room for the reasons of rejects."""
        if queue.encryption_master_key is not None:
            EncryptionKeys.of(self).add(queue.encryption_master_key.key_arn, queue.queue_arn)
        resource = queue_resource(queue)
        resource.redrive_policy = {
            "deadLetterTargetArn": self.dead_letters.queue_arn,
            "maxReceiveCount": self._stage.max_receive_count,
        }
        max_bytes = MAX_QUEUE_MESSAGE_BYTES
        resource.maximum_message_size = min(resource.maximum_message_size or max_bytes, max_bytes)
        return queue


def create_queue(
    scope: Construct,
    id_: str,
    *,
    stage: OncelySettings,
    days: int,
    max_bytes: int | None = None,
    dead_letters: sqs.DeadLetterQueue | None = None,
) -> sqs.Queue:
    """Create an encrypted queue that keeps messages for so many days."""
    return sqs.Queue(
        scope,
        id_,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=stage.tls_only,
        visibility_timeout=Duration.seconds(stage.visibility_timeout_seconds),
        retention_period=Duration.days(days),
        max_message_size_bytes=max_bytes,
        dead_letter_queue=dead_letters,
    )
