"""First setup: when the stack is made, its empty job table gets the deployment's identity."""

from aws_cdk import CustomResource
from constructs import Construct

from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.table_schemas import JOBS


class FirstSetupConstruct(Construct):
    """A custom resource that acts when it is created, and never again.

    An update may bring another table, such as a new and empty one because a setting was forgotten.
    That table gets no identity, so nothing is claimed in it.
    """

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        tables = shared.tables
        self.function = OncelyFunction(
            self,
            "SetUp",
            entry="set_up_table",
            description="gives a new job table its identity",
            stage=shared.stage,
            layers=shared.layers,
            timeout_seconds=shared.stage.reconciler_timeout_seconds,
            environment=tables.table_env_vars(JOBS),
        )
        self.function.grant(
            *("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Scan", "dynamodb:DescribeTable"),
            resources=[tables.arn(JOBS)],
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
