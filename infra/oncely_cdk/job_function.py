"""One Lambda function: its own role, its own log group, and only the actions it names."""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Acknowledgment, Duration, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely.provider import AnyProvider
from oncely_cdk.function_code import ARCHITECTURE, PYTHON, CodeLayers, function_code, handler_path
from oncely_cdk.log_group import create_log_group
from oncely_cdk.stages import Stage

_WRITE_LOGS: Final = ("logs:CreateLogStream", "logs:PutLogEvents")


class OncelyFunction(Construct):
    """The function of oncely/handlers/<entry>.py; `allow` is its only way to a permission."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        entry: str,
        description: str,
        stage: Stage,
        layers: CodeLayers,
        timeout_seconds: int,
        memory_mb: int = 256,
        environment: Mapping[str, str] | None = None,
        providers: tuple[AnyProvider, ...] = (),
        sends_to_own_queue: bool = False,
        is_traced: bool = True,
    ) -> None:
        super().__init__(scope, id_)
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
            timeout=Duration.seconds(timeout_seconds),
            memory_size=memory_mb,
            environment={
                **(environment or {}),
                # Logs, metrics and traces carry it, so that two stacks are told apart.
                "POWERTOOLS_SERVICE_NAME": Stack.of(self).stack_name,
            },
            role=self.role,
            log_group=log_group,
            tracing=lambda_.Tracing.ACTIVE if is_traced else lambda_.Tracing.DISABLED,
            # A long job feeds its own queue; Lambda would stop it after sixteen rounds.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if sends_to_own_queue else None,
        )
        Validations.of(self.function).acknowledge(
            Acknowledgment(
                id="AwsSolutions-L1",
                reason="3.13 is the newest Python that this code was run on; supported until 2029.",
            )
        )
        self.grant(*_WRITE_LOGS, resources=[log_group.log_group_arn])
        if is_traced:
            self.suppress_nag(
                "AwsSolutions-IAM5[Resource::*]",
                reason="X-Ray has no resources to name for PutTraceSegments and its like.",
            )

    def grant(
        self,
        *actions: str,
        resources: Sequence[str],
        string_equals: Mapping[str, str] | None = None,
        leading_keys: str | None = None,
    ) -> None:
        """Permit these actions on these resources, if the request has exactly these values.

        `leading_keys`: of a table, only the items whose partition key is like this.
        """
        named = [*actions]
        # AWS authorizes a batch as what it is a batch of; the local engine by its own name.
        if self._is_local and "sqs:SendMessage" in named:
            named.append("sqs:SendMessageBatch")
        conditions: dict[str, object] = (
            {"StringEquals": dict(string_equals)} if string_equals else {}
        )
        if leading_keys is not None:
            keys = {"dynamodb:LeadingKeys": [leading_keys]}
            conditions["ForAllValues:StringLike"] = keys
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=named, resources=list(resources), conditions=conditions or None
            )
        )

    def suppress_nag(self, finding: str, *, reason: str) -> None:
        """Say why a finding about this function's permissions is meant; once is enough."""
        if finding in self._suppressed:
            return
        self._suppressed.add(finding)
        policy = self.role.node.find_child("DefaultPolicy")
        Validations.of(policy).acknowledge(Acknowledgment(id=finding, reason=reason))

    def suppress_nag_for_pattern(self, arn: str, *, reason: str) -> None:
        """Say why this function may act on every resource that an ARN with `*` matches."""
        resolved = Stack.of(self).resolve(arn)
        # cdk-nag writes what only a deployment knows in angle brackets. Signed in to an account,
        # the CDK knows all of it: it is text already.
        parts = [resolved] if isinstance(resolved, str) else resolved["Fn::Join"][1]
        spelled = "".join(part if isinstance(part, str) else f"<{part['Ref']}>" for part in parts)
        self.suppress_nag(f"AwsSolutions-IAM5[Resource::{spelled}]", reason=reason)

    def add_queue_source(
        self,
        queue: sqs.IQueue,
        *,
        batch_size: int,
        max_concurrency: int,
        batching_window: Duration | None = None,
    ) -> None:
        """Be fed from a queue; what fails is named, and only that comes back."""
        # Lambda polls in this function's name.
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
