"""The reconciler: three functions, the state machine that calls them, and its schedule."""

import json

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from oncely.operate.own_tables import DUE_INDEX, GATES, JOBS
from oncely_cdk import job_items
from oncely_cdk.job_function import OncelyFunction, add_schedule, create_log_group
from oncely_cdk.nag import acknowledge
from oncely_cdk.reconciler_machine import FIND, FINISH, RESOLVE, definition
from oncely_cdk.shared_resources import SharedResources


class ReconcilerConstruct(Construct):
    """Looks up the outcomes of jobs. It never executes effects."""

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        # Its functions start it, so its ARN must be known before it exists.
        self.machine_name = f"{Stack.of(self).stack_name}-reconciler"
        self._arn = Stack.of(self).format_arn(
            service="states",
            resource="stateMachine",
            resource_name=self.machine_name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        self.find = self._find(shared)
        self.resolve = self._resolve(shared)
        self.finish = self._finish(shared)
        self.machine = self._machine(shared)
        add_schedule(
            self,
            "Interval",
            function=self.find.function,
            description="Oncely: check for due jobs",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(1)),
            event={},
            retry_attempts=0,  # the next invocation does the same
        )

    def _find(self, shared: SharedResources) -> OncelyFunction:
        tables = shared.tables
        required = shared.required.detecting_missing_jobs()
        function = OncelyFunction(
            self,
            "Find",
            entry="find_due_work",
            description="finds due jobs, and starts a sweep if there are any",
            is_traced=False,  # 43,200 traces a month would cost more than all others
            layers=shared.layers,
            environment={
                **shared.job_env_vars(required),
                **tables.env_vars(required.tables),
                **tables.table_env_vars(GATES),
                "RECONCILER_ARN": self._arn,
            },
        )
        function.grant("dynamodb:Query", resources=tables.index_arns(JOBS, DUE_INDEX))
        function.grant("dynamodb:Scan", resources=[tables.arn(GATES)])
        # The age of the jobs that are due for longest, and whether a requested job exists.
        shared.grant_jobs(function, "GetItem", leading_keys=[job_items.ANY_JOB])
        shared.grant_check_table(function)
        self._grant_sweep(function, shared)
        for name in required.tables:
            function.grant("dynamodb:Query", resources=tables.index_arns(name))
            if name not in tables.schemas:
                function.suppress_nag_for_pattern(
                    f"{tables.arn(name)}/index/*",
                    reason="An existing table: only its contract knows the indexes.",
                )
        return function

    def _resolve(self, shared: SharedResources) -> OncelyFunction:
        stage = shared.stage
        function = OncelyFunction(
            self,
            "Resolve",
            entry="resolve_jobs",
            description="looks up and records the outcomes of a group of jobs",
            layers=shared.layers,
            # A job of a group starts only while there is time for all its calls.
            timeout_seconds=2 * stage.reconciler_timeout_seconds,
            memory_mb=stage.worker_memory_mb,
            providers=shared.required.providers,
            environment={
                **shared.lookup_env_vars(),
                **shared.alerts.env_vars(),
            },
        )
        shared.grant_lookup(function)
        # It creates jobs that the business rows request, and counts alerts.
        shared.grant_jobs(function, "PutItem", leading_keys=[job_items.ANY_JOB])
        shared.grant_jobs(function, "UpdateItem", leading_keys=[job_items.ANY_ALERT_BUDGET])
        shared.grant_publish(function)
        shared.alerts.grant_publish(function)
        return function

    def _finish(self, shared: SharedResources) -> OncelyFunction:
        function = OncelyFunction(
            self,
            "Finish",
            entry="finish_sweep",
            description="summarizes a sweep, and starts the next one if more jobs are due",
            layers=shared.layers,
            environment={**shared.tables.table_env_vars(JOBS), "RECONCILER_ARN": self._arn},
        )
        self._grant_sweep(function, shared)
        return function

    def _grant_sweep(self, function: OncelyFunction, shared: SharedResources) -> None:
        """Allow a function to start sweeps, and to write sweep leases but no other row."""
        function.grant("states:StartExecution", resources=[self._arn])
        shared.grant_jobs(function, "UpdateItem", leading_keys=[job_items.SWEEP_LEASES])

    def _machine(self, shared: SharedResources) -> sfn.StateMachine:
        called = {FIND: self.find, RESOLVE: self.resolve, FINISH: self.finish}
        arns = {name: called[name].function.function_arn for name in called}
        asl = definition(max_concurrency=shared.stage.sweep_groups_at_once)
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("states.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=list(arns.values()))
        )
        log_name = f"/aws/vendedlogs/states/{Stack.of(self).stack_name}"
        machine = sfn.StateMachine(
            self,
            "Machine",
            state_machine_name=self.machine_name,
            comment="Oncely: reconciler",
            state_machine_type=sfn.StateMachineType.STANDARD,
            definition_body=sfn.DefinitionBody.from_string(json.dumps(asl, indent=1)),
            definition_substitutions=arns,
            role=role,
            tracing_enabled=True,
            logs=sfn.LogOptions(
                destination=create_log_group(self, stage=shared.stage, name=log_name),
                level=sfn.LogLevel.ERROR,
                include_execution_data=True,
            ),
        )
        acknowledge(
            machine, "SF1", "Step Functions keeps the execution history; only errors are logged."
        )
        acknowledge(
            role.node.find_child("DefaultPolicy"),
            "IAM5[Resource::*]",
            "The log delivery and X-Ray actions do not support resource-level permissions.",
        )
        return machine
