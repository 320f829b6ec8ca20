"""One Lambda function: its own role, its own log group, and only the actions it names."""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Acknowledgment, Duration, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.code import ARCHITECTURE, PYTHON, CodeLayers, function_code, handler_of
from infra.log_group import log_group_of
from infra.stages import Stage

_WRITE_LOGS: Final = ("logs:CreateLogStream", "logs:PutLogEvents")


class JobFunction(Construct):
    """The function of functions/<entry>/; `allow` is its only way to a permission."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        entry: str,
        description: str,
        stage: Stage,
        layers: CodeLayers,
        timeout: int,
        memory: int = 256,
        environment: Mapping[str, str] | None = None,
        secrets: tuple[str, ...] = (),
        feeds_itself: bool = False,
        traced: bool = True,
    ) -> None:
        super().__init__(scope, id_)
        self._is_local = stage.is_local
        self._acknowledged: set[str] = set()
        log_group = log_group_of(self, stage=stage)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.function = lambda_.Function(
            self,
            "Function",
            description=f"Oncely: {description}",
            code=function_code(entry, stage=stage),
            handler=handler_of(entry),
            runtime=PYTHON,
            architecture=ARCHITECTURE,
            layers=layers.for_secrets(secrets),
            timeout=Duration.seconds(timeout),
            memory_size=memory,
            environment={
                **(environment or {}),
                # Logs, metrics and traces carry it, so that two stacks are told apart.
                "POWERTOOLS_SERVICE_NAME": Stack.of(self).stack_name,
            },
            role=self.role,
            log_group=log_group,
            tracing=lambda_.Tracing.ACTIVE if traced else lambda_.Tracing.DISABLED,
            # A long job feeds its own queue; Lambda would stop it after sixteen rounds.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if feeds_itself else None,
        )
        Validations.of(self.function).acknowledge(
            Acknowledgment(
                id="AwsSolutions-L1",
                reason="3.13 is the newest Python that this code was run on; supported until 2029.",
            )
        )
        self.allow(*_WRITE_LOGS, on=[log_group.log_group_arn])
        if traced:
            self.acknowledge(
                "AwsSolutions-IAM5[Resource::*]",
                reason="X-Ray has no resources to name for PutTraceSegments and its like.",
            )

    def allow(
        self,
        *actions: str,
        on: Sequence[str],
        only_if: Mapping[str, str] | None = None,
        only_keys_like: str | None = None,
    ) -> None:
        """Permit these actions on these resources, if the request has exactly these values.

        `only_keys_like`: of a table, only the items whose partition key is like this.
        """
        named = [*actions]
        # AWS authorizes a batch as what it is a batch of; the local engine by its own name.
        if self._is_local and "sqs:SendMessage" in named:
            named.append("sqs:SendMessageBatch")
        conditions: dict[str, object] = {"StringEquals": dict(only_if)} if only_if else {}
        if only_keys_like is not None:
            keys = {"dynamodb:LeadingKeys": [only_keys_like]}
            conditions["ForAllValues:StringLike"] = keys
        self.role.add_to_policy(
            iam.PolicyStatement(actions=named, resources=list(on), conditions=conditions or None)
        )

    def acknowledge(self, finding: str, *, reason: str) -> None:
        """Say why a finding about this function's permissions is meant; once is enough."""
        if finding in self._acknowledged:
            return
        self._acknowledged.add(finding)
        policy = self.role.node.find_child("DefaultPolicy")
        Validations.of(policy).acknowledge(Acknowledgment(id=finding, reason=reason))

    def acknowledge_pattern(self, arn: str, *, reason: str) -> None:
        """Say why this function may act on every resource that an ARN with `*` matches."""
        resolved = Stack.of(self).resolve(arn)
        # cdk-nag writes what only a deployment knows in angle brackets. Signed in to an account,
        # the CDK knows all of it: it is text already.
        parts = [resolved] if isinstance(resolved, str) else resolved["Fn::Join"][1]
        spelled = "".join(part if isinstance(part, str) else f"<{part['Ref']}>" for part in parts)
        self.acknowledge(f"AwsSolutions-IAM5[Resource::{spelled}]", reason=reason)

    def consume(
        self,
        queue: sqs.IQueue,
        *,
        batch_size: int,
        max_concurrency: int,
        gathered_for: Duration | None = None,
    ) -> None:
        """Be fed from a queue; what fails is named, and only that comes back."""
        # Lambda polls in this function's name.
        self.allow(
            *("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
            on=[queue.queue_arn],
        )
        self.function.add_event_source_mapping(
            "Messages",
            event_source_arn=queue.queue_arn,
            batch_size=batch_size,
            max_batching_window=gathered_for,
            max_concurrency=max_concurrency,
            report_batch_item_failures=True,
        )
