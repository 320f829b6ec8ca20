"""The reconciler: three functions, the state machine that calls them, and its schedule."""

import json

from aws_cdk import Acknowledgment, ArnFormat, Duration, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.job_function import JobFunction
from infra.log_group import log_group_of
from infra.reconciler_machine import FIND, FINISH, RESOLVE, definition
from infra.surroundings import Surroundings
from infra.table_plans import DUE, JOBS, PLANS
from infra.tables import Tables
from oncely.adapters import sweep_leases


class Reconciler(Construct):
    """Asks what became of jobs; it never acts."""

    def __init__(self, scope: Construct, id_: str, *, around: Surroundings) -> None:
        super().__init__(scope, id_)
        # Its functions start it, so its name is known before it is made.
        self._name = f"{Stack.of(self).stack_name}-reconciler"
        self._arn = Stack.of(self).format_arn(
            service="states",
            resource="stateMachine",
            resource_name=self._name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        self.find = self._find(around)
        self.resolve = self._resolve(around)
        self.finish = self._finish(around)
        self.machine = self._machine(around)
        self._schedule(around)

    def _schedule(self, around: Surroundings) -> None:
        role = iam.Role(
            self, "ScheduleRole", assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com")
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["lambda:InvokeFunction"], resources=[self.find.function.function_arn]
            )
        )
        scheduler.Schedule(
            self,
            "Interval",
            description="Oncely: look whether anything is due",
            schedule=scheduler.ScheduleExpression.rate(
                Duration.minutes(around.stage.sweep_interval_minutes)
            ),
            target=targets.LambdaInvoke(
                self.find.function,
                input=scheduler.ScheduleTargetInput.from_object({}),
                # The next one does what this one could not.
                retry_attempts=0,
                # By itself, the target would permit every version of the function.
                role=role.without_policy_updates(),
            ),
        )

    def _find(self, around: Surroundings) -> JobFunction:
        stage, demand, tables = around.stage, around.demand.looking_for_unserved(), around.tables
        function = JobFunction(
            self,
            "Find",
            entry="find_due",
            description="finds jobs that are due, and starts a sweep if there are any",
            traced=False,  # 43,200 traces a month of finding nothing would cost more than the rest
            stage=stage,
            layers=around.layers,
            timeout=stage.reconciler_timeout_seconds,
            environment={
                **tables.variables(demand.tables),
                "RECONCILER_ARN": self._arn,
                "SWEEP_PAGE_SIZE": str(stage.sweep_page_size),
                "SWEEP_GROUP_SIZE": str(stage.sweep_group_size),
            },
        )
        function.allow("dynamodb:Query", on=tables.index_arns(JOBS, DUE))
        function.allow("dynamodb:GetItem", on=[tables.arn(JOBS)])
        around.let_check_table(function)
        self._let_sweep(function, tables)
        for name in demand.tables:
            function.allow("dynamodb:Query", on=tables.index_arns(name))
            if name not in PLANS:
                function.acknowledge_pattern(
                    f"{tables.arn(name)}/index/*",
                    reason="Another team made the table; its contract alone knows the indexes.",
                )
        return function

    def _resolve(self, around: Surroundings) -> JobFunction:
        stage = around.stage
        rates = {
            "STRIPE_READS_PER_SECOND": stage.stripe_reads_per_second,
            "HUBSPOT_READS_PER_SECOND": stage.hubspot_reads_per_second,
        }
        function = JobFunction(
            self,
            "Resolve",
            entry="resolve_jobs",
            description="asks what became of a group of jobs, and records it",
            stage=stage,
            layers=around.layers,
            # The last job of a group begins only while there is time for all its calls.
            timeout=2 * stage.reconciler_timeout_seconds,
            memory=stage.worker_memory_mb,
            secrets=around.demand.secrets,
            environment={
                **around.asking_variables(),
                **around.alerts.variables(),
                "SWEEP_JOBS_AT_ONCE": str(stage.sweep_jobs_at_once),
                # Groups that run at once share what a provider takes.
                **{name: f"{rate / stage.sweep_groups_at_once:g}" for name, rate in rates.items()},
            },
        )
        around.let_ask(function)
        around.let_publish(function)
        around.alerts.let_tell(function)
        return function

    def _finish(self, around: Surroundings) -> JobFunction:
        function = JobFunction(
            self,
            "Finish",
            entry="finish_sweep",
            description="says what a sweep did, and starts the next if more is due",
            stage=around.stage,
            layers=around.layers,
            timeout=around.stage.reconciler_timeout_seconds,
            environment={**around.tables.names_of(JOBS), "RECONCILER_ARN": self._arn},
        )
        self._let_sweep(function, around.tables)
        return function

    def _let_sweep(self, function: JobFunction, tables: Tables) -> None:
        """Let a function start sweeps, and write their leases and no other row."""
        function.allow("states:StartExecution", on=[self._arn])
        function.allow(
            "dynamodb:UpdateItem",
            on=[tables.arn(JOBS)],
            only_keys_like=f"{sweep_leases.PREFIX}*",
        )

    def _machine(self, around: Surroundings) -> sfn.StateMachine:
        called = {FIND: self.find, RESOLVE: self.resolve, FINISH: self.finish}
        arns = {name: called[name].function.function_arn for name in called}
        asl = definition(groups_at_once=around.stage.sweep_groups_at_once)
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("states.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=list(arns.values()))
        )
        machine = sfn.StateMachine(
            self,
            "Machine",
            state_machine_name=self._name,
            comment="Oncely: the reconciler",
            state_machine_type=sfn.StateMachineType.STANDARD,
            definition_body=sfn.DefinitionBody.from_string(json.dumps(asl, indent=1)),
            definition_substitutions=arns,
            role=role,
            tracing_enabled=True,
            logs=sfn.LogOptions(
                destination=log_group_of(
                    self,
                    stage=around.stage,
                    name=f"/aws/vendedlogs/states/{Stack.of(self).stack_name}",
                ),
                level=sfn.LogLevel.ERROR,
                include_execution_data=True,
            ),
        )
        _acknowledge(machine, role)
        return machine


def _acknowledge(machine: sfn.StateMachine, role: iam.Role) -> None:
    Validations.of(machine).acknowledge(
        Acknowledgment(
            id="AwsSolutions-SF1",
            reason="It keeps its own history; only errors are logged.",
        )
    )
    Validations.of(role.node.find_child("DefaultPolicy")).acknowledge(
        Acknowledgment(
            id="AwsSolutions-IAM5[Resource::*]",
            reason="Log delivery and X-Ray have no resources to name.",
        )
    )
