"""The HTTPS endpoint for events: a throttled API with one function that verifies signatures."""

from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely.contracts.settings import pascal_case
from oncely.plugins.provider import AnyProvider
from oncely.reconcile.webhooks import EVENTS_QUEUE
from oncely_cdk.admin_page import api_url
from oncely_cdk.job_function import OncelyFunction, create_log_group
from oncely_cdk.nag import acknowledge
from oncely_cdk.shared_resources import SharedResources

# Requests per second. A provider repeats what is refused; a flood costs no more than this.
RATE_LIMIT: Final = 50
BURST_LIMIT: Final = 100
TIMEOUT_SECONDS: Final = 15

_ACCESS_LOG_FORMAT: Final = (
    '{"at":"$context.requestTime","request":"$context.requestId","ip":"$context.identity.sourceIp",'
    '"status":"$context.status","took":"$context.responseLatency"}'
)


class WebhookApi(Construct):
    """Can read signing secrets and send to the intake queue, and nothing else."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        shared: SharedResources,
        plugins: tuple[AnyProvider, ...],
        queue: sqs.Queue,
        engine: str | None,
    ) -> None:
        super().__init__(scope, id_)
        self.function = self._create_function(shared, plugins, queue)
        api = apigateway.HttpApi(
            self,
            "Api",
            api_name=f"{Stack.of(self).stack_name}-events",
            description="Oncely: provider events",
            create_default_stage=False,
        )
        apigateway.CfnStage(
            self,
            "Default",
            api_id=api.api_id,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=apigateway.CfnStage.AccessLogSettingsProperty(
                destination_arn=create_log_group(self, stage=shared.stage).log_group_arn,
                format=_ACCESS_LOG_FORMAT,
            ),
            default_route_settings=apigateway.CfnStage.RouteSettingsProperty(
                throttling_rate_limit=RATE_LIMIT, throttling_burst_limit=BURST_LIMIT
            ),
        )
        for route in api.add_routes(
            path="/events/{provider}",
            methods=[apigateway.HttpMethod.POST],
            integration=integrations.HttpLambdaIntegration("Verify", self.function.function),
        ):
            acknowledge(route, "APIG4", "The provider signs each request; the function verifies.")
        base = api_url(api, engine)
        self.urls = {
            f"{pascal_case(one.name)}WebhookUrl": f"{base}/events/{one.name}" for one in plugins
        }

    def _create_function(
        self, shared: SharedResources, plugins: tuple[AnyProvider, ...], queue: sqs.Queue
    ) -> OncelyFunction:
        required = shared.required.calling(plugins)
        secrets = [one.webhook_secret_name for one in plugins]
        function = OncelyFunction(
            self,
            "Verify",
            entry="receive_webhook",
            description="verifies events that arrive over HTTPS",
            layers=shared.layers,
            timeout_seconds=TIMEOUT_SECONDS,
            memory_mb=shared.stage.worker_memory_mb,
            providers=plugins,
            environment={
                **shared.job_env_vars(required),
                **shared.stage.provider_env_vars(required.configured_providers),
                **shared.provider_secrets.env_vars(secrets),
                "EVENT_ACCOUNT": Stack.of(self).account,
                "QUEUE_NAME": EVENTS_QUEUE,
                "QUEUE_URL": queue.queue_url,
            },
        )
        keys = shared.provider_secrets.arns(secrets)
        function.grant("secretsmanager:GetSecretValue", resources=keys)
        function.grant("sqs:SendMessage", resources=[queue.queue_arn])
        return function
