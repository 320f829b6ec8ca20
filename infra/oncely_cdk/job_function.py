"""A Lambda function with its own role and log group, and only the permissions it is granted."""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely.provider import AnyProvider
from oncely_cdk.function_code import ARCHITECTURE, PYTHON, CodeLayers, function_code, handler_path
from oncely_cdk.nag import acknowledge
from oncely_cdk.stages import Stage

# The retention periods that CloudWatch offers, by days.
_RETENTION_STEPS: Final = {
    1: logs.RetentionDays.ONE_DAY,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    731: logs.RetentionDays.TWO_YEARS,
}


def create_log_group(scope: Construct, *, stage: Stage, name: str | None = None) -> logs.LogGroup:
    """Create the log group of a construct, with at least the stage's retention."""
    # A retained group with a fixed name would block the next deployment.
    stays = stage.retain_data and name is None
    steps = (step for days, step in _RETENTION_STEPS.items() if stage.log_retention_days <= days)
    return logs.LogGroup(
        scope,
        "Logs",
        log_group_name=name,
        retention=next(steps, logs.RetentionDays.TEN_YEARS),
        removal_policy=RemovalPolicy.RETAIN if stays else RemovalPolicy.DESTROY,
    )


class OncelyFunction(Construct):
    """The function of oncely/handlers/<entry>.py. Every permission goes through `grant`."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        entry: str,
        description: str,
        layers: CodeLayers,
        timeout_seconds: int | None = None,  # default: the reconciler's
        memory_mb: int = 256,
        environment: Mapping[str, str] | None = None,
        providers: tuple[AnyProvider, ...] = (),
        sends_to_own_queue: bool = False,
        is_traced: bool = True,
    ) -> None:
        super().__init__(scope, id_)
        stage = layers.stage
        self._is_local = stage.is_local
        self._suppressed: set[str] = set()
        log_group = create_log_group(self, stage=stage)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.function = lambda_.Function(
            self,
            "Function",
            description=f"Oncely: {description}",
            code=function_code(stage=stage),
            handler=handler_path(entry),
            runtime=PYTHON,
            architecture=ARCHITECTURE,
            layers=layers.for_providers(providers),
            timeout=Duration.seconds(timeout_seconds or stage.reconciler_timeout_seconds),
            memory_size=memory_mb,
            environment={
                **(environment or {}),
                # Logs, metrics and traces carry it, which keeps the stacks of one account apart.
                "POWERTOOLS_SERVICE_NAME": Stack.of(self).stack_name,
            },
            role=self.role,
            log_group=log_group,
            tracing=lambda_.Tracing.ACTIVE if is_traced else lambda_.Tracing.DISABLED,
            # A long job sends to its own queue, and Lambda stops such loops after 16 rounds.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if sends_to_own_queue else None,
        )
        acknowledge(
            self.function,
            "L1",
            "The code is tested on Python 3.13, which Lambda supports until 2029.",
        )
        actions = ("logs:CreateLogStream", "logs:PutLogEvents")
        self.grant(*actions, resources=[log_group.log_group_arn])
        if is_traced:
            self.suppress_nag(
                "IAM5[Resource::*]",
                reason="The X-Ray actions do not support resource-level permissions.",
            )

    def grant(
        self,
        *actions: str,
        resources: Sequence[str],
        string_equals: Mapping[str, str] | None = None,
        leading_keys: str | None = None,
    ) -> None:
        """Permit these actions on these resources, under these conditions.

        `leading_keys` is a pattern for the partition keys of the items that may be accessed.
        """
        named = [*actions]
        # AWS authorizes a batch as sqs:SendMessage; the local engine as sqs:SendMessageBatch.
        if self._is_local and "sqs:SendMessage" in named:
            named.append("sqs:SendMessageBatch")
        conditions: dict[str, object] = {}
        if string_equals:
            conditions["StringEquals"] = dict(string_equals)
        if leading_keys is not None:
            conditions["ForAllValues:StringLike"] = {"dynamodb:LeadingKeys": [leading_keys]}
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=named, resources=list(resources), conditions=conditions or None
            )
        )

    def suppress_nag(self, finding: str, *, reason: str) -> None:
        if finding in self._suppressed:
            return
        self._suppressed.add(finding)
        acknowledge(self.role.node.find_child("DefaultPolicy"), finding, reason)

    def suppress_nag_for_pattern(self, arn: str, *, reason: str) -> None:
        resolved = Stack.of(self).resolve(arn)
        # cdk-nag writes deploy-time values in angle brackets. With account and region set, the ARN
        # is plain text.
        parts = [resolved] if isinstance(resolved, str) else resolved["Fn::Join"][1]
        spelled = "".join(part if isinstance(part, str) else f"<{part['Ref']}>" for part in parts)
        self.suppress_nag(f"IAM5[Resource::{spelled}]", reason=reason)

    def add_queue_source(
        self,
        queue: sqs.IQueue,
        *,
        batch_size: int,
        max_concurrency: int,
        batching_window: Duration | None = None,
    ) -> None:
        """Consume a queue. Failed messages are reported by id, and only those are redelivered."""
        # Lambda polls the queue with this function's role.
        self.grant(
            *("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
            resources=[queue.queue_arn],
        )
        self.function.add_event_source_mapping(
            "Messages",
            event_source_arn=queue.queue_arn,
            batch_size=batch_size,
            max_batching_window=batching_window,
            max_concurrency=max_concurrency,
            report_batch_item_failures=True,
        )
