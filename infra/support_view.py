"""The support view: an HTTP API, one function that reads, one that repairs, and who may call."""

from typing import Final

from aws_cdk import Acknowledgment, CfnParameter, Fn, Stack, Validations
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from infra.job_function import JobFunction
from infra.log_group import log_group_of
from infra.people import People
from infra.stages import ENGINE_ADDRESS
from infra.surroundings import Surroundings
from infra.table_plans import DUE, JOBS
from oncely.adapters.job_finder import ATTENTION_INDEX, BY_CUSTOMER, BY_REFERENCE, BY_SUBJECT

# People click; more than this a second is a mistake or an attack.
RATE: Final = 20
BURST: Final = 40
# API Gateway waits 30 s for an answer; a function that takes longer works for nobody.
TIMEOUT: Final = 29

PUBLIC: Final = ("/", "/config.json", "/page/{version}/{file}")
READING: Final = ("/api/me", "/api/find", "/api/jobs", "/api/job", "/api/counts")
REPAIRING: Final = (
    (apigateway.HttpMethod.POST, "/api/repair"),
    (apigateway.HttpMethod.GET, "/api/export"),
)

_ACCESS: Final = (
    '{"at":"$context.requestTime","request":"$context.requestId","ip":"$context.identity.sourceIp",'
    '"route":"$context.routeKey","status":"$context.status","user":"$context.authorizer.claims.sub",'
    '"refused":"$context.authorizer.error","took":"$context.responseLatency"}'
)


def engine_address(stack: Stack) -> str:
    """Where the local engine answers, as `cdk deploy --parameters EngineAddress=…` says."""
    return CfnParameter(
        stack,
        ENGINE_ADDRESS,
        default="http://127.0.0.1:4566",
        description="Where the local engine answers",
    ).value_as_string


class SupportView(Construct):
    """Everything that people reach with a browser."""

    def __init__(self, scope: Construct, id_: str, *, around: Surroundings) -> None:
        super().__init__(scope, id_)
        self._around = around
        self.people = People(self, "People", stage=around.stage)
        # Known when an engine runs, not when the stack is written; there is none on AWS.
        self._engine = engine_address(Stack.of(self)) if around.stage.is_local else None
        self.api = apigateway.HttpApi(
            self,
            "Api",
            # Unlike other names, this one is not made unique: two stages would list the same.
            api_name=Stack.of(self).stack_name,
            description="Oncely: the support view",
            create_default_stage=False,
        )
        self._stage()
        client = self.people.client(f"{self.url}/")
        self.reader = self._reader(client)
        self.repairer = self._repairer()
        self._routes(client)

    @property
    def url(self) -> str:
        """Where the page is."""
        if self._engine is None:
            return self.api.api_endpoint
        port = Fn.select(2, Fn.split(":", self._engine))
        return f"http://{self.api.api_id}.execute-api.localhost:{port}"

    def _stage(self) -> None:
        apigateway.CfnStage(
            self,
            "Default",
            api_id=self.api.api_id,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=apigateway.CfnStage.AccessLogSettingsProperty(
                destination_arn=log_group_of(self, stage=self._around.stage).log_group_arn,
                format=_ACCESS,
            ),
            default_route_settings=apigateway.CfnStage.RouteSettingsProperty(
                throttling_rate_limit=RATE, throttling_burst_limit=BURST
            ),
        )

    def _reader(self, client: cognito.UserPoolClient) -> JobFunction:
        around = self._around
        tables = around.tables
        function = JobFunction(
            self,
            "Read",
            entry="read_jobs",
            description="serves the support view's page, and what it reads",
            stage=around.stage,
            layers=around.layers,
            timeout=TIMEOUT,
            memory=around.stage.worker_memory_mb,
            environment={
                **tables.variables(),
                "ARCHIVE_BUCKET": around.archive.name,
                # The engine serves the sign-in page of every pool at its own address.
                "SIGN_IN_URL": self._engine or self.people.sign_in_url,
                "CLIENT_ID": client.user_pool_client_id,
                "STACK_NAME": Stack.of(self).stack_name,
            },
        )
        indexes = (BY_SUBJECT, BY_CUSTOMER, BY_REFERENCE, ATTENTION_INDEX, DUE)
        function.allow("dynamodb:Query", on=tables.index_arns(JOBS, *indexes))
        function.allow("dynamodb:GetItem", "dynamodb:BatchGetItem", on=[tables.arn(JOBS)])
        around.archive.let_read_history(function)
        return function

    def _repairer(self) -> JobFunction:
        around = self._around
        demand, tables = around.demand, around.tables
        function = JobFunction(
            self,
            "Repair",
            entry="repair_jobs",
            description="does what operators of the support view ask for",
            stage=around.stage,
            layers=around.layers,
            timeout=TIMEOUT,
            memory=around.stage.worker_memory_mb,
            secrets=demand.secrets,
            environment={**around.asking_variables(), "ARCHIVE_BUCKET": around.archive.name},
        )
        around.let_ask(function)
        function.allow("dynamodb:Query", on=tables.index_arns(JOBS, ATTENTION_INDEX, DUE))
        function.allow("dynamodb:BatchGetItem", on=[tables.arn(JOBS)])
        around.archive.let_read_history(function)
        function.allow("sqs:SendMessage", on=around.queues.arns())
        return function

    def _routes(self, client: cognito.UserPoolClient) -> None:
        get = apigateway.HttpMethod.GET
        reads = integrations.HttpLambdaIntegration("Reads", self.reader.function)
        repairs = integrations.HttpLambdaIntegration("Repairs", self.repairer.function)
        signed_in = authorizers.HttpUserPoolAuthorizer(
            "SignedIn", self.people.pool, user_pool_clients=[client]
        )
        for path in PUBLIC:
            for route in self.api.add_routes(path=path, methods=[get], integration=reads):
                Validations.of(route).acknowledge(
                    Acknowledgment(
                        id="AwsSolutions-APIG4",
                        reason="The page itself holds nothing; what it shows needs a token.",
                    )
                )
        for path in READING:
            self.api.add_routes(path=path, methods=[get], integration=reads, authorizer=signed_in)
        for method, path in REPAIRING:
            self.api.add_routes(
                path=path, methods=[method], integration=repairs, authorizer=signed_in
            )
