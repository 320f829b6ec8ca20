"""The shop's CDK app: Oncely in each of the three ways, on this machine."""

from aws_cdk import App, Duration, IgnoreMode, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely_cdk import Oncely
from own_stack import SETTINGS, add_own_stack
from shop_jobs.voucher_issue import VoucherIssue

JOBS = (VoucherIssue,)


class ConstructStack(Stack):
    """Way 1: the construct, with a table and a secret of the shop, and a function that sends."""

    def __init__(self, scope: Construct, id_: str) -> None:
        super().__init__(scope, id_)
        campaigns = dynamodb.Table(
            self,
            "Campaigns",
            partition_key=dynamodb.Attribute(
                name="campaign_id", type=dynamodb.AttributeType.STRING
            ),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            removal_policy=RemovalPolicy.DESTROY,
        )
        jobs = Oncely(
            self,
            "Jobs",
            jobs=JOBS,
            settings=SETTINGS,
            tables={"campaigns": campaigns},
            secrets={"voucher_api": secretsmanager.Secret(self, "VoucherApi")},
            environment={"VOUCHER_CURRENCY": "EUR"},
        )
        site = lambda_.Function(
            self,
            "Site",
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler="index.handler",
            code=lambda_.Code.from_inline("def handler(event, context): pass"),
        )
        jobs.grant_send(site)
        campaigns.grant_read_data(jobs.worker("vouchers"))


class OwnFunctionStack(Stack):
    """Way 3: the queue and the function are the shop's."""

    def __init__(self, scope: Construct, id_: str) -> None:
        super().__init__(scope, id_)
        queue = sqs.Queue(self, "Orders", visibility_timeout=Duration.minutes(6))
        function = lambda_.Function(
            self,
            "Issue",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            timeout=Duration.seconds(30),
            handler="issue.handler",
            code=lambda_.Code.from_asset(
                ".",
                exclude=["*", ".*", "!issue.py", "!shop_jobs", "!shop_jobs/*.py"],
                ignore_mode=IgnoreMode.GLOB,
            ),
        )
        Oncely(
            self,
            "Jobs",
            jobs=JOBS,
            settings=SETTINGS,
            queues={"vouchers": queue},
            workers={"vouchers": function},
        )


if __name__ == "__main__":
    cdk_app = App()
    ConstructStack(cdk_app, "ShopConstruct-local")
    add_own_stack(cdk_app)
    OwnFunctionStack(cdk_app, "ShopFunction-local")
    cdk_app.synth()
