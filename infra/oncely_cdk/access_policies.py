"""Managed policies for services, engineers and operators. The stack does not attach them."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely.contracts.settings import pascal_case
from oncely.operate.own_tables import GATES, JOBS
from oncely_cdk import job_items
from oncely_cdk.archive import BULK_RUNS, ERASURES, HISTORY_OBJECTS, REJECTS, RESENT_REJECTS
from oncely_cdk.encryption_keys import EncryptionKeys
from oncely_cdk.job_function import policy_statements
from oncely_cdk.nag import acknowledge, wildcard_finding
from oncely_cdk.reconciler import ReconcilerConstruct
from oncely_cdk.shared_resources import SharedResources

_WILDCARDS: Final = (
    "Names of objects, executions, functions, mappings and schedules are known only after the "
    "deployment. Account settings have no resource, and alarms are listed for all."
)


def producer_statements(shared: SharedResources, queue: str) -> Iterator[iam.PolicyStatement]:
    """Return the permissions of a producer of one queue. It cannot replace or delete rows."""
    job_types = shared.required.for_queue(queue).job_types
    rows, windows = job_items.job_rows(job_types), job_items.unique_windows(job_types)
    jobs = [shared.tables.arn(JOBS)]
    keys = EncryptionKeys.of(shared.tables)
    permit = partial(policy_statements, keys=keys, is_local=shared.stage.is_local)
    yield from permit("dynamodb:GetItem", resources=jobs, leading_keys=[*rows, *windows])
    # Without a claim or a result, a row with an ended status is not trusted.
    yield from permit(
        "dynamodb:PartiQLInsert",
        resources=jobs,
        leading_keys=rows,
        attributes=job_items.new_row_attributes(),
    )
    # A window passes to the next job. It is not a proof: at worst, two jobs are enqueued.
    yield from permit(
        *("dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate"),
        resources=jobs,
        leading_keys=windows,
        attributes=job_items.window_attributes(),
    )
    yield from permit("sqs:SendMessage", resources=shared.queues.arns([queue]))


class _AccessPolicy(Construct):
    """One managed policy."""

    def __init__(self, scope: Construct, id_: str, *, description: str, is_local: bool) -> None:
        super().__init__(scope, id_)
        self._is_local = is_local
        self.policy = iam.ManagedPolicy(self, "Policy", description=description)
        self._suppressed: set[str] = set()

    @property
    def arn(self) -> str:
        return self.policy.managed_policy_arn

    def grant(
        self,
        *actions: str,
        resources: Sequence[str],
        leading_keys: Sequence[str] = (),
        attributes: Sequence[str] = (),
    ) -> None:
        for statement in policy_statements(
            *actions,
            resources=resources,
            keys=EncryptionKeys.of(self),
            leading_keys=leading_keys,
            attributes=attributes,
            is_local=self._is_local,
        ):
            self.policy.add_statements(statement)
        for resource in resources:
            finding = wildcard_finding(self, resource)
            if finding.endswith("*]") and finding not in self._suppressed:
                self._suppressed.add(finding)
                acknowledge(self.policy, finding, _WILDCARDS)


class AccessPolicies(Construct):
    """Producer for each queue, Reader, and Operator and Eraser, which add to Reader."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        shared: SharedResources,
        reconciler: ReconcilerConstruct,
        failure_queues: Sequence[sqs.Queue],
    ) -> None:
        super().__init__(scope, id_)
        self._shared = shared
        self._failure_queues = failure_queues
        self._jobs = [shared.tables.arn(JOBS)]
        self.producers = {queue: self._producer(queue) for queue in shared.required.queues}
        self.reader = self._reader()
        self.operator = self._operator(reconciler)
        self.eraser = self._eraser()

    @property
    def outputs(self) -> dict[str, str]:
        return {
            **{
                f"{pascal_case(queue)}ProducerPolicyArn": one.arn
                for queue, one in self.producers.items()
            },
            "ReaderPolicyArn": self.reader.arn,
            "OperatorPolicyArn": self.operator.arn,
            "EraserPolicyArn": self.eraser.arn,
        }

    @property
    def _stack_by_name(self) -> str:
        """The ARN of the stack for requests that use its name without its id."""
        stack = Stack.of(self)
        return stack.format_arn(
            service="cloudformation", resource="stack", resource_name=f"{stack.stack_name}/*"
        )

    def _policy(self, id_: str, description: str) -> _AccessPolicy:
        is_local = self._shared.stage.is_local
        return _AccessPolicy(self, id_, description=f"Oncely: {description}", is_local=is_local)

    def _producer(self, queue: str) -> _AccessPolicy:
        """Insert rows and send messages of one queue."""
        policy = self._policy(f"{pascal_case(queue)}Producer", f"enqueues jobs of {queue!r}")
        policy.policy.add_statements(*producer_statements(self._shared, queue))
        return policy

    def _reader(self) -> _AccessPolicy:
        """Read jobs, history and gates: `oncely list`, `find`, `show`, `archive` and `gates`."""
        tables, archive = self._shared.tables, self._shared.archive
        policy = self._policy("Reader", "reads jobs from the command line")
        policy.grant("cloudformation:DescribeStacks", resources=[self._stack_by_name])
        policy.grant("dynamodb:GetItem", "dynamodb:BatchGetItem", resources=self._jobs)
        policy.grant("dynamodb:Query", resources=tables.index_arns(JOBS))
        policy.grant("dynamodb:Scan", resources=[tables.arn(GATES)])
        policy.grant("s3:GetObject", resources=[archive.bucket.arn_for_objects(HISTORY_OBJECTS)])
        policy.grant("s3:ListBucket", resources=[archive.bucket.bucket_arn])
        return policy

    def _operator(self, reconciler: ReconcilerConstruct) -> _AccessPolicy:
        """Repair jobs, pause, start sweeps, and run `oncely doctor`."""
        shared = self._shared
        tables, required = shared.tables, shared.required
        policy = self._policy("Operator", "repairs jobs from the command line; add Reader")
        rows = ("dynamodb:UpdateItem", "dynamodb:PartiQLInsert")
        policy.grant(*rows, resources=self._jobs, leading_keys=[job_items.ANY_JOB])
        policy.grant(
            "dynamodb:UpdateItem",
            resources=[tables.arn(GATES)],
            leading_keys=[*job_items.gates(required.providers), *job_items.PAUSES],
        )
        policy.grant("dynamodb:GetItem", resources=tables.arns(required.tables))
        policy.grant("dynamodb:UpdateItem", resources=tables.arns(required.written_tables))
        keys = shared.provider_secrets.arns(required.secrets, read_only=True)
        policy.grant("secretsmanager:GetSecretValue", resources=keys)
        policy.grant("sqs:SendMessage", resources=shared.queues.arns())
        # `oncely rejects`.
        rejects = shared.archive.bucket.arn_for_objects(REJECTS)
        policy.grant("s3:GetObject", resources=[rejects])
        resent = shared.archive.bucket.arn_for_objects(RESENT_REJECTS)
        policy.grant("s3:PutObject", resources=[resent])
        runs = [shared.archive.bucket.arn_for_objects(BULK_RUNS)]
        policy.grant("s3:GetObject", "s3:PutObject", resources=runs)
        policy.grant(
            *("states:StartExecution", "states:ListExecutions"),
            resources=[reconciler.machine.state_machine_arn],
        )
        policy.grant(
            "states:DescribeExecution",
            resources=[
                Stack.of(self).format_arn(
                    service="states",
                    resource="execution",
                    resource_name=f"{reconciler.machine_name}:*",
                    arn_format=ArnFormat.COLON_RESOURCE_NAME,
                )
            ],
        )
        self._grant_doctor(policy)
        return policy

    def _eraser(self) -> _AccessPolicy:
        """Run `oncely erase`. No other policy can delete versions of archived objects."""
        shared, bucket = self._shared, self._shared.archive.bucket
        tables, required = shared.tables, shared.required
        policy = self._policy("Eraser", "erases personal data; add Reader")
        rows = [job_items.ANY_JOB]
        policy.grant("dynamodb:UpdateItem", resources=self._jobs, leading_keys=rows)
        pauses = job_items.PAUSES
        policy.grant("dynamodb:UpdateItem", resources=[tables.arn(GATES)], leading_keys=pauses)
        # Whether the table is restored and not declared yet.
        policy.grant(
            *("dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"),
            "dynamodb:DescribeContinuousBackups",
            resources=self._jobs,
        )
        policy.grant(
            *("dynamodb:GetItem", "dynamodb:UpdateItem"),
            resources=tables.arns(required.redacted_tables),
        )
        policy.grant(
            *("dynamodb:Query", "dynamodb:DeleteItem"),
            resources=tables.arns(required.emptied_tables),
        )
        policy.grant("s3:ListBucketVersions", resources=[bucket.bucket_arn])
        history, rejects, erasures = map(
            bucket.arn_for_objects, (HISTORY_OBJECTS, REJECTS, ERASURES)
        )
        policy.grant("s3:PutObject", resources=[history, erasures])
        policy.grant("s3:GetObjectVersion", "s3:DeleteObjectVersion", resources=[history, rejects])
        return policy

    def _grant_doctor(self, policy: _AccessPolicy) -> None:
        shared, stack = self._shared, Stack.of(self)
        tables, queues = shared.tables, shared.queues
        policy.grant("cloudformation:ListStackResources", resources=[self._stack_by_name])
        policy.grant(
            *("dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"),
            "dynamodb:DescribeContinuousBackups",
            resources=tables.arns(tables.by_name),
        )
        # It samples the rows of tables with columns to check, or with a sparse index.
        schemas = shared.required.table_schemas.values()
        sampled = sorted(one.name for one in schemas if one.columns or one.indexes)
        policy.grant("dynamodb:Scan", resources=tables.arns(sampled))
        others = (queues.dead_letters, queues.rejects, *self._failure_queues)
        policy.grant(
            "sqs:GetQueueAttributes",
            resources=[*queues.arns(), *(queue.queue_arn for queue in others)],
        )
        policy.grant("s3:GetBucketVersioning", resources=[shared.archive.bucket.bucket_arn])
        policy.grant("sns:ListSubscriptionsByTopic", resources=[shared.alerts.topic.topic_arn])
        secrets, names = shared.provider_secrets, shared.required.secrets
        both = dict.fromkeys((*secrets.arns(names), *secrets.arns(names, read_only=True)))
        policy.grant("secretsmanager:DescribeSecret", resources=list(both))
        named = f"{stack.stack_name}-*"
        functions = stack.format_arn(
            service="lambda",
            resource="function",
            resource_name=named,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        policy.grant(
            *("lambda:GetFunctionConfiguration", "lambda:GetFunctionConcurrency"),
            resources=[functions],
        )
        schedules = stack.format_arn(
            service="scheduler", resource="schedule", resource_name=f"default/{named}"
        )
        policy.grant("scheduler:GetSchedule", resources=[schedules])
        mappings = stack.format_arn(
            service="lambda",
            resource="event-source-mapping",
            resource_name="*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        policy.grant("lambda:GetEventSourceMapping", resources=[mappings])
        policy.grant("lambda:GetAccountSettings", "cloudwatch:DescribeAlarms", resources=["*"])
