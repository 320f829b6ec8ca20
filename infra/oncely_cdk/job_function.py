"""A Lambda function with its own role and log group, and only the permissions it is granted."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from aws_cdk import Duration, RemovalPolicy, Size, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely.contracts.job_names import JOBS_ENV_VAR
from oncely.plugins.provider import AnyProvider
from oncely_cdk.encryption_keys import EncryptionKeys
from oncely_cdk.function_code import ARCHITECTURE, PYTHON, CodeLayers
from oncely_cdk.nag import acknowledge, wildcard_finding
from oncely_cdk.stages import OncelySettings, StageError

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

# Lambda's limit for the names and values of a function's variables together.
_MAX_ENVIRONMENT_BYTES: Final = 4096
# What CloudFormation fills in, such as a queue's URL or a secret's ARN, is about this long.
_REFERENCE_BYTES: Final = 100

# The minimum that Lambda accepts: only the workers of jobs are urgent.
_MIN_CONCURRENCY: Final = 2
_BATCH_SIZE: Final = 10

# The version of a function that event source mappings call.
LIVE: Final = "live"

# Actions that the local engine checks instead of those of AWS.
_LOCAL_ACTIONS: Final = {
    "lambda:GetEventSourceMapping": "lambda:ListEventSourceMappings",
    "lambda:GetFunctionConcurrency": "lambda:PutFunctionConcurrency",
    "sqs:SendMessage": "sqs:SendMessageBatch",
}


def create_log_group(
    scope: Construct,
    *,
    stage: OncelySettings,
    name: str | None = None,
    retention_days: int | None = None,
) -> logs.LogGroup:
    """Create the log group of a construct, with at least this retention or the stage's."""
    # A retained group with a fixed name would block the next deployment.
    stays = stage.retain_data and name is None
    least = retention_days or stage.log_retention_days
    steps = (step for days, step in _RETENTION_STEPS.items() if least <= days)
    return logs.LogGroup(
        scope,
        "Logs",
        log_group_name=name,
        retention=next(steps, logs.RetentionDays.TEN_YEARS),
        removal_policy=RemovalPolicy.RETAIN if stays else RemovalPolicy.DESTROY,
    )


def policy_statements(
    *actions: str,
    resources: Sequence[str],
    keys: EncryptionKeys,
    string_equals: Mapping[str, str] | None = None,
    leading_keys: Sequence[str] = (),
    attributes: Sequence[str] = (),
    is_local: bool = False,
) -> Iterator[iam.PolicyStatement]:
    """Return what permits these actions on these resources, and the use of their KMS keys.

    Without a resource, nothing.
    """
    if not resources:
        return
    named = [*actions]
    if is_local:
        named += [_LOCAL_ACTIONS[action] for action in actions if action in _LOCAL_ACTIONS]
    # The local engine evaluates neither the verb nor the table of a PartiQL statement.
    if is_local and any(action.startswith("dynamodb:PartiQL") for action in named):
        yield iam.PolicyStatement(
            actions=["dynamodb:ExecuteStatement", "dynamodb:ExecuteTransaction"], resources=["*"]
        )
    conditions: dict[str, object] = {}
    if string_equals:
        conditions["StringEquals"] = dict(string_equals)
    if leading_keys:
        # True for a request without a key, so never for a Query or a Scan.
        conditions["ForAllValues:StringLike"] = {"dynamodb:LeadingKeys": list(leading_keys)}
    if attributes:
        conditions["ForAllValues:StringEquals"] = {"dynamodb:Attributes": list(attributes)}
    yield iam.PolicyStatement(
        actions=named, resources=list(resources), conditions=conditions or None
    )
    yield from keys.statements(actions, resources)


def add_schedule(
    scope: Construct,
    id_: str,
    *,
    function: lambda_.Function,
    description: str,
    schedule: scheduler.ScheduleExpression,
    event: Mapping[str, str],
    retry_attempts: int | None = None,
) -> None:
    """Invoke a function with this event on a schedule, with a role that can do nothing else."""
    role = iam.Role(
        scope, "ScheduleRole", assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com")
    )
    role.add_to_policy(
        iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.function_arn])
    )
    scheduler.Schedule(
        scope,
        id_,
        description=description,
        schedule=schedule,
        target=targets.LambdaInvoke(
            function,
            input=scheduler.ScheduleTargetInput.from_object(dict(event)),
            retry_attempts=retry_attempts,
            # Without this, the target would permit every version of the function.
            role=role.without_policy_updates(),
        ),
    )


def refuse_large_environment(function: lambda_.Function, variables: Mapping[str, str]) -> None:
    """Compare Oncely's variables with Lambda's limit, which a deployment would hit halfway."""
    resolved = Stack.of(function).resolve(variables)
    sizes = {name: len(name) + _count_bytes(value) for name, value in resolved.items()}
    if (total := sum(sizes.values())) > _MAX_ENVIRONMENT_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise StageError(
            f"the variables of {function.node.path} take about {total} bytes, {sizes[largest]} of "
            f"them for {largest}, but Lambda allows {_MAX_ENVIRONMENT_BYTES}: shorten values or "
            "the names of modules, or move some of the jobs to another stack"
        )


def _count_bytes(value: object) -> int:
    match value:
        case str():
            return len(value.encode())
        case {"Fn::Join": [_, [*parts]]}:
            return sum(map(_count_bytes, parts))
        case _:
            return _REFERENCE_BYTES


class GrantedFunction(Construct):
    """A function whose permissions all go through `grant`."""

    function: lambda_.Function
    role: iam.Role

    def __init__(self, scope: Construct, id_: str, *, is_local: bool) -> None:
        super().__init__(scope, id_)
        self._is_local = is_local
        self._suppressed: set[str] = set()

    def grant(
        self,
        *actions: str,
        resources: Sequence[str],
        string_equals: Mapping[str, str] | None = None,
        leading_keys: Sequence[str] = (),
        attributes: Sequence[str] = (),
    ) -> None:
        """Permit these actions on these resources, under these conditions.

        `leading_keys` are patterns for the partition keys of the items that may be accessed, and
        `attributes` are all that a request may name.
        """
        for statement in policy_statements(
            *actions,
            resources=resources,
            keys=EncryptionKeys.of(self),
            string_equals=string_equals,
            leading_keys=leading_keys,
            attributes=attributes,
            is_local=self._is_local,
        ):
            self.role.add_to_policy(statement)

    def suppress_nag(self, finding: str, *, reason: str) -> None:
        if finding in self._suppressed:
            return
        self._suppressed.add(finding)
        acknowledge(self.role.node.find_child("DefaultPolicy"), finding, reason)

    def suppress_nag_for_pattern(self, arn: str, *, reason: str) -> None:
        self.suppress_nag(wildcard_finding(self, arn), reason=reason)

    @cached_property
    def live(self) -> lambda_.Alias:
        """The alias of the newest published version.

        Lambda updates a function's code and its layers one after the other. A version has both, and
        the alias moves to it when it is complete, or stays if the deployment fails.
        """
        return lambda_.Alias(self, "Live", alias_name=LIVE, version=self.function.current_version)

    def add_queue_source(
        self,
        queue: sqs.IQueue,
        *,
        batch_size: int = _BATCH_SIZE,
        max_concurrency: int = _MIN_CONCURRENCY,
        batching_window: Duration | None = None,
        hands_back: bool = True,
    ) -> None:
        """Consume a queue. Failed messages are reported by id, and only those are redelivered."""
        # Lambda polls the queue with this function's role.
        self.grant(
            *("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
            resources=[queue.queue_arn],
        )
        if hands_back:
            # The function delays a message that it cannot process now.
            self.grant("sqs:ChangeMessageVisibility", resources=[queue.queue_arn])
        self.live.add_event_source_mapping(
            "Messages",
            event_source_arn=queue.queue_arn,
            batch_size=batch_size,
            max_batching_window=batching_window,
            max_concurrency=max_concurrency,
            report_batch_item_failures=True,
        )


class OncelyFunction(GrantedFunction):
    """The function of oncely/handlers/<entry>.py."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        entry: str,
        description: str,
        layers: CodeLayers,
        timeout_seconds: int | None = None,  # the reconciler's by default
        memory_mb: int = 256,
        storage: Size | None = None,  # default: Lambda's, 512 MB
        environment: Mapping[str, str] | None = None,
        providers: tuple[AnyProvider, ...] = (),
        log_retention_days: int | None = None,  # default: the stage's
        sends_to_own_queue: bool = False,
        is_traced: bool = True,
    ) -> None:
        stage, imports_jobs = layers.stage, JOBS_ENV_VAR in (environment or {})
        super().__init__(scope, id_, is_local=stage.is_local)
        variables = {
            **(environment or {}),
            **layers.stamp_env_vars(),
            # Logs, metrics and traces carry it, which keeps the stacks of one account apart.
            "POWERTOOLS_SERVICE_NAME": Stack.of(self).stack_name,
        }
        log_group = create_log_group(self, stage=stage, retention_days=log_retention_days)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.function = lambda_.Function(
            self,
            "Function",
            description=f"Oncely: {description}",
            code=layers.code(),
            handler=f"oncely.handlers.{entry}.handler",
            runtime=PYTHON,
            architecture=ARCHITECTURE,
            layers=layers.for_function(providers, imports_jobs=imports_jobs),
            timeout=Duration.seconds(timeout_seconds or stage.reconciler_timeout_seconds),
            memory_size=memory_mb,
            ephemeral_storage_size=storage,
            environment=variables,
            role=self.role,
            log_group=log_group,
            tracing=lambda_.Tracing.ACTIVE if is_traced else lambda_.Tracing.DISABLED,
            # A long job sends to its own queue, and Lambda stops such loops after 16 rounds.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if sends_to_own_queue else None,
        )
        refuse_large_environment(self.function, variables)
        self.function.invalidate_version_based_on(
            layers.digest(providers, imports_jobs=imports_jobs)
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
