"""First setup: when the stack is made, its empty job table gets the deployment's identity."""

from aws_cdk import CustomResource
from constructs import Construct

from infra.job_function import JobFunction
from infra.surroundings import Surroundings
from infra.table_plans import JOBS


class FirstSetup(Construct):
    """A custom resource that acts when it is created, and never again.

    An update may bring another table, such as a new and empty one because a setting was forgotten.
    That table gets no identity, so nothing is claimed in it.
    """

    def __init__(self, scope: Construct, id_: str, *, around: Surroundings) -> None:
        super().__init__(scope, id_)
        tables = around.tables
        self.function = JobFunction(
            self,
            "SetUp",
            entry="set_up_table",
            description="gives a new job table its identity",
            stage=around.stage,
            layers=around.layers,
            timeout=around.stage.reconciler_timeout_seconds,
            environment=tables.names_of(JOBS),
        )
        self.function.allow(
            *("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Scan", "dynamodb:DescribeTable"),
            on=[tables.arn(JOBS)],
        )
        resource = CustomResource(
            self,
            "Identity",
            resource_type="Custom::OncelyIdentity",
            service_token=self.function.function.function_arn,
            properties={"Table": tables.jobs.table_name},
        )
        # Its rights, and the table's TTL and recovery, are there before it runs.
        resource.node.add_dependency(self.function.role, tables)
