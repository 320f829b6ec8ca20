"""The reconciler: four functions, the state machine that calls them, and its schedule."""

import json

from aws_cdk import Acknowledgment, Duration, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.job_function import JobFunction
from infra.log_group import log_group_of
from infra.reconciler_machine import COUNT, FIND, RESOLVE, TELL, definition
from infra.surroundings import Surroundings
from infra.table_plans import DUE, JOBS, PLANS

# How long a job may be due before someone looks.
EVERY = Duration.minutes(1)


class Reconciler(Construct):
    """Asks what became of jobs; it never acts."""

    def __init__(self, scope: Construct, id_: str, *, around: Surroundings) -> None:
        super().__init__(scope, id_)
        self.find = self._find(around)
        self.resolve = self._resolve(around)
        self.tell = self._tell(around)
        self.count = JobFunction(
            self,
            "Count",
            entry="count_outcomes",
            description="counts what a sweep of the reconciler did",
            stage=around.stage,
            layers=around.layers,
            timeout=around.stage.reconciler_timeout_seconds,
        )
        self.machine = self._machine(around)
        scheduler.Schedule(
            self,
            "EveryMinute",
            description="Oncely: look at what is due",
            schedule=scheduler.ScheduleExpression.rate(EVERY),
            target=targets.StepFunctionsStartExecution(
                self.machine,
                input=scheduler.ScheduleTargetInput.from_object({}),
                # The next minute's sweep does what this one could not.
                retry_attempts=0,
            ),
        )

    def _find(self, around: Surroundings) -> JobFunction:
        demand, tables = around.demand.looking_for_unserved(), around.tables
        function = JobFunction(
            self,
            "Find",
            entry="find_due",
            description="finds jobs that are due",
            stage=around.stage,
            layers=around.layers,
            timeout=around.stage.reconciler_timeout_seconds,
            environment=tables.variables(demand.tables),
        )
        function.allow("dynamodb:Query", on=tables.index_arns(JOBS, DUE))
        function.allow("dynamodb:GetItem", on=[tables.arn(JOBS)])
        around.let_check_table(function)
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
        function = JobFunction(
            self,
            "Resolve",
            entry="resolve_job",
            description="asks what became of one job, and records it",
            stage=stage,
            layers=around.layers,
            timeout=stage.reconciler_timeout_seconds,
            memory=stage.worker_memory_mb,
            secrets=around.demand.secrets,
            environment=around.asking_variables(),
        )
        around.let_ask(function)
        around.let_publish(function)
        return function

    def _tell(self, around: Surroundings) -> JobFunction:
        function = JobFunction(
            self,
            "Tell",
            entry="tell_person",
            description="tells a person of one job",
            stage=around.stage,
            layers=around.layers,
            timeout=around.stage.reconciler_timeout_seconds,
            environment={**around.alerts.variables(), **around.tables.variables()},
        )
        function.allow("dynamodb:GetItem", "dynamodb:UpdateItem", on=[around.tables.arn(JOBS)])
        around.alerts.let_tell(function)
        return function

    def _machine(self, around: Surroundings) -> sfn.StateMachine:
        called = {FIND: self.find, RESOLVE: self.resolve, TELL: self.tell, COUNT: self.count}
        arns = {name: called[name].function.function_arn for name in called}
        asl = definition(at_once=around.stage.reconciler_concurrency)
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("states.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=list(arns.values()))
        )
        machine = sfn.StateMachine(
            self,
            "Machine",
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
            reason="It runs each minute and keeps its own history; only errors are logged.",
        )
    )
    Validations.of(role.node.find_child("DefaultPolicy")).acknowledge(
        Acknowledgment(
            id="AwsSolutions-IAM5[Resource::*]",
            reason="Log delivery and X-Ray have no resources to name.",
        )
    )
