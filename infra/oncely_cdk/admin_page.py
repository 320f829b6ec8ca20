"""The admin page: an HTTP API, a function that reads, one that repairs, and their users."""

from typing import Final

from aws_cdk import CfnParameter, Duration, Fn, RemovalPolicy, Stack
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from oncely.operate.job_index import ATTENTION_INDEX, BY_CUSTOMER, BY_REFERENCE, BY_SUBJECT
from oncely.operate.own_tables import DUE_INDEX, GATES, JOBS
from oncely.operate.page_access import OPERATOR_GROUP, SUPPORT_GROUP
from oncely_cdk import job_items
from oncely_cdk.job_function import OncelyFunction, create_log_group
from oncely_cdk.nag import acknowledge
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.stages import ENGINE_ADDRESS, OncelySettings

# Requests per second. Users click, so a higher rate is a bug or an attack.
RATE_LIMIT: Final = 20
BURST_LIMIT: Final = 40
# API Gateway stops waiting after 30 s.
TIMEOUT_SECONDS: Final = 29

PUBLIC_ROUTES: Final = ("/", "/config.json", "/page/{version}/{file}")
READ_ROUTES: Final = (
    *("/api/me", "/api/find", "/api/jobs", "/api/job", "/api/counts", "/api/gates"),
    *("/api/overview", "/api/metrics", "/api/rejects", "/api/audits", "/api/audit"),
)
# Routes of the function with the API keys, which are read-only if there are such keys.
REPAIR_ROUTES: Final = (
    (apigateway.HttpMethod.GET, "/api/resolve"),
    (apigateway.HttpMethod.GET, "/api/lookup"),
    (apigateway.HttpMethod.POST, "/api/repair"),
    (apigateway.HttpMethod.POST, "/api/pause"),
    (apigateway.HttpMethod.POST, "/api/bulk"),
    (apigateway.HttpMethod.POST, "/api/bulk/continue"),
    (apigateway.HttpMethod.POST, "/api/rejects/resend"),
    (apigateway.HttpMethod.GET, "/api/export"),
)

_ACCESS_LOG_FORMAT: Final = (
    '{"at":"$context.requestTime","request":"$context.requestId","ip":"$context.identity.sourceIp",'
    '"route":"$context.routeKey","status":"$context.status","user":"$context.authorizer.claims.sub",'
    '"refused":"$context.authorizer.error","took":"$context.responseLatency"}'
)

_GROUPS: Final = {SUPPORT_GROUP: "reads jobs", OPERATOR_GROUP: "reads, repairs and exports jobs"}


def api_url(api: apigateway.HttpApi, engine: str | None) -> str:
    """Return the address of an API: on AWS its own, locally a host name of the engine."""
    if engine is None:
        return api.api_endpoint
    port = Fn.select(2, Fn.split(":", engine))
    return f"http://{api.api_id}.execute-api.localhost:{port}"


class AdminPage(Construct):
    """Everything that a browser reaches."""

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        self._shared = shared
        self.user_pool = AdminUserPool(self, "Users", stage=shared.stage)
        self.engine: str | None = None
        if shared.stage.is_local:
            # Known when the local engine runs, not at synthesis.
            self.engine = CfnParameter(
                Stack.of(self),
                ENGINE_ADDRESS,
                default="http://127.0.0.1:4566",
                description="Address of the local engine",
            ).value_as_string
        self.api = apigateway.HttpApi(
            self,
            "Api",
            # CloudFormation does not make this name unique, so two stages would look the same.
            api_name=Stack.of(self).stack_name,
            description="Oncely: admin page",
            create_default_stage=False,
        )
        self.access_log_secret = self._create_access_log_secret()
        self._add_stage()
        client = self.user_pool.add_page_client(f"{self.url}/")
        self.reader = self._create_reader(client)
        self.repairer = self._create_repairer()
        self._add_routes(client)

    @property
    def url(self) -> str:
        return api_url(self.api, self.engine)

    def _create_access_log_secret(self) -> str:
        """Generate the key of the digests in the access log. Returns its ARN."""
        retain = self._shared.stage.retain_data
        secret = secretsmanager.Secret(
            self,
            "AccessLogKey",
            description="Oncely: key of the digests in the access log of the admin page",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                password_length=64, exclude_punctuation=True
            ),
            removal_policy=RemovalPolicy.RETAIN if retain else RemovalPolicy.DESTROY,
        )
        acknowledge(secret, "SMG4", "Digests of an earlier key could not be recognized.")
        resource = secret.node.default_child
        assert isinstance(resource, secretsmanager.CfnSecret)  # noqa: S101  # for the type checker
        # Not its reference: that is the ARN on AWS, but the name in the local engine.
        return resource.attr_id

    def _add_stage(self) -> None:
        apigateway.CfnStage(
            self,
            "Default",
            api_id=self.api.api_id,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=apigateway.CfnStage.AccessLogSettingsProperty(
                destination_arn=create_log_group(
                    self,
                    stage=self._shared.stage,
                    retention_days=self._shared.stage.access_log_retention_days,
                ).log_group_arn,
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
            log_retention_days=shared.stage.access_log_retention_days,
            environment={
                **shared.job_env_vars(),
                **tables.env_vars(),
                **tables.table_env_vars(GATES),
                # For links to the consoles of providers.
                **shared.stage.provider_env_vars(shared.required.configured_providers),
                "ACCESS_LOG_SECRET": self.access_log_secret,
                "ARCHIVE_BUCKET": shared.archive.name,
                **shared.queues.env_vars(),
                "DEAD_LETTER_QUEUE_URL": shared.queues.dead_letters.queue_url,
                "REJECTS_QUEUE_URL": shared.queues.rejects.queue_url,
                # The limits of their gates.
                **shared.stage.provider_env_vars(shared.required.configured_providers),
                # The local engine serves the sign-in pages of all pools at its own address.
                "SIGN_IN_URL": self.engine or self.user_pool.sign_in_url,
                "SIGN_IN_CLIENT_ID": client.user_pool_client_id,
                "STACK_NAME": Stack.of(self).stack_name,
            },
        )
        indexes = (BY_SUBJECT, BY_CUSTOMER, BY_REFERENCE, ATTENTION_INDEX, DUE_INDEX)
        function.grant("dynamodb:Query", resources=tables.index_arns(JOBS, *indexes))
        function.grant("dynamodb:GetItem", "dynamodb:BatchGetItem", resources=[tables.arn(JOBS)])
        function.grant("dynamodb:Scan", resources=[tables.arn(GATES)])
        queues = shared.queues
        function.grant(
            "sqs:GetQueueAttributes",
            resources=[
                *queues.arns(),
                queues.dead_letters.queue_arn,
                queues.rejects.queue_arn,
            ],
        )
        # The action supports neither resources nor conditions, so it covers the whole account.
        function.grant("cloudwatch:GetMetricData", resources=["*"])
        function.grant("secretsmanager:GetSecretValue", resources=[self.access_log_secret])
        shared.archive.grant_read_history(function)
        shared.archive.grant_read_reports(function)
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
            log_retention_days=shared.stage.access_log_retention_days,
            environment={
                **shared.lookup_env_vars(),
                "ACCESS_LOG_SECRET": self.access_log_secret,
                "USER_POOL_ID": self.user_pool.pool.user_pool_id,
                **shared.resubmission_env_vars(),
                **shared.second_operator_env_vars(),
                "ARCHIVE_BUCKET": shared.archive.name,
            },
        )
        shared.grant_lookup(function)
        function.grant(
            "dynamodb:UpdateItem", resources=[tables.arn(GATES)], leading_keys=job_items.PAUSES
        )
        # A resubmission is a new row. A dry run reads the rows that a repair would write.
        shared.grant_jobs(function, "PartiQLInsert", leading_keys=[job_items.ANY_JOB])
        function.grant("dynamodb:GetItem", resources=tables.arns(required.written_tables))
        function.grant(
            "dynamodb:Query",
            resources=tables.index_arns(JOBS, ATTENTION_INDEX, BY_REFERENCE, BY_SUBJECT, DUE_INDEX),
        )
        function.grant("dynamodb:BatchGetItem", resources=[tables.arn(JOBS)])
        shared.archive.grant_read_history(function)
        shared.archive.grant_bulk_runs(function)
        shared.archive.grant_resend_rejects(function)
        function.grant("sqs:SendMessage", resources=shared.queues.arns())
        function.grant("secretsmanager:GetSecretValue", resources=[self.access_log_secret])
        # A token may be older than the removal of its user.
        function.grant(
            *("cognito-idp:AdminGetUser", "cognito-idp:AdminListGroupsForUser"),
            resources=[self.user_pool.pool.user_pool_arn],
        )
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


class AdminUserPool(Construct):
    """The user pool, its groups, and its own sign-in page."""

    def __init__(self, scope: Construct, id_: str, *, stage: OncelySettings) -> None:
        super().__init__(scope, id_)
        self.pool = cognito.UserPool(
            self,
            "Pool",
            # An administrator adds users; the username is an email address.
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(username=True),
            sign_in_case_sensitive=False,
            mfa=cognito.Mfa.REQUIRED if stage.requires_mfa else cognito.Mfa.OPTIONAL,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            password_policy=cognito.PasswordPolicy(
                min_length=14,
                require_digits=True,
                require_lowercase=True,
                require_symbols=True,
                require_uppercase=True,
                temp_password_validity=Duration.days(3),
            ),
            # There is no phone or email for recovery: an administrator sets a new password.
            account_recovery=cognito.AccountRecovery.NONE,
            deletion_protection=stage.retain_data,
            removal_policy=RemovalPolicy.RETAIN if stage.retain_data else RemovalPolicy.DESTROY,
        )
        for name, what in _GROUPS.items():
            cognito.CfnUserPoolGroup(
                self,
                name.title(),
                user_pool_id=self.pool.user_pool_id,
                group_name=name,
                description=f"Oncely: {what}",
            )
        self._domain = self.pool.add_domain(
            "SignIn",
            cognito_domain=cognito.CognitoDomainOptions(domain_prefix=_domain_prefix(stage, self)),
        )
        acknowledge(self.pool, "COG8", "The Plus plan is priced per user; it is your choice.")
        if not stage.requires_mfa:
            reason = "Production requires MFA; elsewhere each user chooses."
            acknowledge(self.pool, "COG2", reason)

    @property
    def sign_in_url(self) -> str:
        return self._domain.base_url()

    def add_page_client(self, *addresses: str) -> cognito.UserPoolClient:
        """Add a public client for the page at these addresses (authorization code with PKCE)."""
        return self.pool.add_client(
            "Page",
            generate_secret=False,
            prevent_user_existence_errors=True,
            enable_token_revocation=True,
            # Only the sign-in page: a password alone must not yield a token that can change a user.
            auth_flows=cognito.AuthFlow(user_srp=False),
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(authorization_code_grant=True),
                scopes=[cognito.OAuthScope.OPENID, cognito.OAuthScope.EMAIL],
                callback_urls=list(addresses),
                logout_urls=list(addresses),
            ),
            supported_identity_providers=[cognito.UserPoolClientIdentityProvider.COGNITO],
            # Tokens cannot be revoked, so they are short-lived: a removed user reads until then.
            # Repairs and exports ask for the current groups. A session lasts a working day.
            access_token_validity=Duration.minutes(15),
            id_token_validity=Duration.minutes(15),
            refresh_token_validity=Duration.hours(10),
        )


def _domain_prefix(stage: OncelySettings, scope: Construct) -> str:
    """A prefix that is unique in its region, by the whole UUID of the stack.

    A part is not unique: the last group identifies a CloudFormation host.
    """
    unique = Fn.select(2, Fn.split("/", Stack.of(scope).stack_id))
    return f"oncely-{stage.name}-{unique}"
