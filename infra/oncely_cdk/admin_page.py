"""The admin page: an HTTP API, a function that reads, one that repairs, and their users."""

from typing import Final

from aws_cdk import CfnParameter, Fn, Stack
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from oncely.aws.dynamodb_job_index import ATTENTION_INDEX, BY_CUSTOMER, BY_REFERENCE, BY_SUBJECT
from oncely_cdk.job_function import OncelyFunction, create_log_group
from oncely_cdk.nag import acknowledge
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.stages import ENGINE_ADDRESS
from oncely_cdk.table_schemas import DUE_INDEX, JOBS
from oncely_cdk.user_pool import AdminUserPool

# Requests per second; users click, so more is a bug or an attack.
RATE_LIMIT: Final = 20
BURST_LIMIT: Final = 40
# API Gateway stops waiting after 30 s.
TIMEOUT_SECONDS: Final = 29

PUBLIC_ROUTES: Final = ("/", "/config.json", "/page/{version}/{file}")
READ_ROUTES: Final = ("/api/me", "/api/find", "/api/jobs", "/api/job", "/api/counts")
REPAIR_ROUTES: Final = (
    (apigateway.HttpMethod.POST, "/api/repair"),
    (apigateway.HttpMethod.GET, "/api/export"),
)

_ACCESS_LOG_FORMAT: Final = (
    '{"at":"$context.requestTime","request":"$context.requestId","ip":"$context.identity.sourceIp",'
    '"route":"$context.routeKey","status":"$context.status","user":"$context.authorizer.claims.sub",'
    '"refused":"$context.authorizer.error","took":"$context.responseLatency"}'
)


def local_engine_parameter(stack: Stack) -> str:
    """Add the parameter with the local engine's address; returns its value."""
    return CfnParameter(
        stack,
        ENGINE_ADDRESS,
        default="http://127.0.0.1:4566",
        description="Address of the local engine",
    ).value_as_string


class AdminPage(Construct):
    """Everything that a browser reaches."""

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        self._shared = shared
        self.user_pool = AdminUserPool(self, "Users", stage=shared.stage)
        # Known when the local engine runs, not at synthesis.
        self._engine = local_engine_parameter(Stack.of(self)) if shared.stage.is_local else None
        self.api = apigateway.HttpApi(
            self,
            "Api",
            # CloudFormation does not make this name unique, so two stages would look the same.
            api_name=Stack.of(self).stack_name,
            description="Oncely: admin page",
            create_default_stage=False,
        )
        self._add_stage()
        client = self.user_pool.add_page_client(f"{self.url}/")
        self.reader = self._create_reader(client)
        self.repairer = self._create_repairer()
        self._add_routes(client)

    @property
    def url(self) -> str:
        if self._engine is None:
            return self.api.api_endpoint
        port = Fn.select(2, Fn.split(":", self._engine))
        return f"http://{self.api.api_id}.execute-api.localhost:{port}"

    def _add_stage(self) -> None:
        apigateway.CfnStage(
            self,
            "Default",
            api_id=self.api.api_id,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=apigateway.CfnStage.AccessLogSettingsProperty(
                destination_arn=create_log_group(self, stage=self._shared.stage).log_group_arn,
                format=_ACCESS_LOG_FORMAT,
            ),
            default_route_settings=apigateway.CfnStage.RouteSettingsProperty(
                throttling_rate_limit=RATE_LIMIT, throttling_burst_limit=BURST_LIMIT
            ),
        )

    def _create_reader(self, client: cognito.UserPoolClient) -> OncelyFunction:
        shared = self._shared
        tables = shared.tables
        function = OncelyFunction(
            self,
            "Read",
            entry="read_jobs",
            description="serves the admin page and its data",
            layers=shared.layers,
            timeout_seconds=TIMEOUT_SECONDS,
            memory_mb=shared.stage.worker_memory_mb,
            environment={
                **tables.env_vars(),
                "ARCHIVE_BUCKET": shared.archive.name,
                # The local engine serves the sign-in pages of all pools at its own address.
                "SIGN_IN_URL": self._engine or self.user_pool.sign_in_url,
                "SIGN_IN_CLIENT_ID": client.user_pool_client_id,
                "STACK_NAME": Stack.of(self).stack_name,
            },
        )
        indexes = (BY_SUBJECT, BY_CUSTOMER, BY_REFERENCE, ATTENTION_INDEX, DUE_INDEX)
        function.grant("dynamodb:Query", resources=tables.index_arns(JOBS, *indexes))
        function.grant("dynamodb:GetItem", "dynamodb:BatchGetItem", resources=[tables.arn(JOBS)])
        shared.archive.grant_read_history(function)
        return function

    def _create_repairer(self) -> OncelyFunction:
        shared = self._shared
        required, tables = shared.required, shared.tables
        function = OncelyFunction(
            self,
            "Repair",
            entry="repair_jobs",
            description="executes the repairs and exports of the admin page",
            layers=shared.layers,
            timeout_seconds=TIMEOUT_SECONDS,
            memory_mb=shared.stage.worker_memory_mb,
            providers=required.providers,
            environment={**shared.lookup_env_vars(), "ARCHIVE_BUCKET": shared.archive.name},
        )
        shared.grant_lookup(function)
        function.grant(
            "dynamodb:Query", resources=tables.index_arns(JOBS, ATTENTION_INDEX, DUE_INDEX)
        )
        function.grant("dynamodb:BatchGetItem", resources=[tables.arn(JOBS)])
        shared.archive.grant_read_history(function)
        function.grant("sqs:SendMessage", resources=shared.queues.arns())
        return function

    def _add_routes(self, client: cognito.UserPoolClient) -> None:
        get = apigateway.HttpMethod.GET
        reads = integrations.HttpLambdaIntegration("Reads", self.reader.function)
        repairs = integrations.HttpLambdaIntegration("Repairs", self.repairer.function)
        signed_in = authorizers.HttpUserPoolAuthorizer(
            "SignedIn", self.user_pool.pool, user_pool_clients=[client]
        )
        for path in PUBLIC_ROUTES:
            for route in self.api.add_routes(path=path, methods=[get], integration=reads):
                acknowledge(route, "APIG4", "The page contains no data; its data needs a token.")
        for path in READ_ROUTES:
            self.api.add_routes(path=path, methods=[get], integration=reads, authorizer=signed_in)
        for method, path in REPAIR_ROUTES:
            self.api.add_routes(
                path=path, methods=[method], integration=repairs, authorizer=signed_in
            )
