"""First setup: gives the empty job table of a new stack its deployment identity."""

from aws_cdk import CustomResource
from constructs import Construct

from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.table_schemas import JOBS


class FirstSetupConstruct(Construct):
    """A custom resource that acts only when it is created.

    An update can bring another table, for example an empty one because a setting was forgotten.
    That table gets no identity, so no job can be claimed in it.
    """

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        tables = shared.tables
        self.function = OncelyFunction(
            self,
            "SetUp",
            entry="set_up_table",
            description="gives a new job table its identity",
            layers=shared.layers,
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
        # It needs its permissions, and the table's TTL and recovery, before it runs.
        resource.node.add_dependency(self.function.role, tables)
