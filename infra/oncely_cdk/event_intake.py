"""The intake of provider events: rules, an HTTPS endpoint, one queue and one function.

Created only if the stage turns on the events of a provider.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from aws_cdk import Stack
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely.contracts.settings import pascal_case
from oncely.plugins.events import EventRule
from oncely.plugins.provider import AnyProvider
from oncely.reconcile.webhooks import EVENTS_QUEUE
from oncely_cdk import job_items
from oncely_cdk.admin_page import api_url
from oncely_cdk.alarms import PERIOD, AlarmSpec
from oncely_cdk.job_function import OncelyFunction, create_log_group
from oncely_cdk.nag import acknowledge
from oncely_cdk.queues import create_queue
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.stages import DEAD_LETTER_RETENTION_DAYS

# Requests per second. A provider repeats what is refused; a flood costs no more than this.
RATE_LIMIT: Final = 50
BURST_LIMIT: Final = 100
WEBHOOK_TIMEOUT_SECONDS: Final = 15

_ACCESS_LOG_FORMAT: Final = (
    '{"at":"$context.requestTime","request":"$context.requestId","ip":"$context.identity.sourceIp",'
    '"status":"$context.status","took":"$context.responseLatency"}'
)


class EventIntakeConstruct(Construct):
    """Receives events. They can only lead to lookups, evidence and alerts."""

    def __init__(
        self, scope: Construct, id_: str, *, shared: SharedResources, engine: str | None
    ) -> None:
        super().__init__(scope, id_)
        self._shared, stage = shared, shared.stage
        self.dead_letters = create_queue(
            self, "DeadLetters", stage=stage, days=DEAD_LETTER_RETENTION_DAYS
        )
        self.queue = create_queue(
            self,
            "Queue",
            stage=stage,
            days=stage.queue_retention_days,
            dead_letters=sqs.DeadLetterQueue(
                queue=self.dead_letters, max_receive_count=stage.max_receive_count
            ),
        )
        self.receiver = self._create_receiver()
        rules = [
            self._add_rule(f"{pascal_case(plugin.name)}{rule.name}", rule)
            for plugin in shared.required.providers
            for rule in plugin.event_rules(stage.settings_of(plugin))
            # The local engine has no events of AWS services and partners.
            if not stage.is_local
        ]
        served = stage.webhook_providers(shared.required)
        self.webhook = (
            WebhookApi(
                self, "Webhook", shared=shared, plugins=served, queue=self.queue, engine=engine
            )
            if served
            else None
        )
        self._refuse_others(rules)

    @property
    def outputs(self) -> dict[str, str]:
        urls = self.webhook.urls if self.webhook else {}
        queues = {
            "EventsQueueUrl": self.queue.queue_url,
            "EventsDeadLetterQueueUrl": self.dead_letters.queue_url,
        }
        return {**queues, **urls}

    def _create_receiver(self) -> OncelyFunction:
        """Create the function, with access to the providers whose events are on."""
        stage, required = self._shared.stage, self._shared.required
        shared = replace(self._shared, required=required.calling(stage.event_providers(required)))
        function = OncelyFunction(
            self,
            "Receive",
            entry="receive_events",
            description="receives provider events",
            layers=shared.layers,
            memory_mb=shared.stage.worker_memory_mb,
            providers=shared.required.providers,
            environment={
                **shared.lookup_env_vars(),
                **shared.alerts.env_vars(),
                "EVENT_ACCOUNT": Stack.of(self).account,
                "QUEUE_URL": self.queue.queue_url,
                "MAX_RECEIVE_COUNT": str(shared.stage.max_receive_count),
            },
        )
        shared.grant_lookup(function, leading_keys=job_items.job_rows(shared.required.job_types))
        shared.grant_jobs(function, "UpdateItem", leading_keys=[job_items.ANY_ALERT_BUDGET])
        shared.grant_publish(function)
        function.grant("events:PutEvents", resources=[shared.bus.event_bus_arn])
        shared.alerts.grant_publish(function)
        # With the lowest concurrency: a lookup takes a second, and the gate limits all of them.
        function.add_queue_source(self.queue)
        return function

    def _add_rule(self, id_: str, rule: EventRule) -> str:
        """Send the ids in matching events to the queue. Returns the ARN of the rule."""
        created = events.CfnRule(
            self,
            id_,
            description="Oncely: events of a provider",
            event_bus_name=rule.bus,
            event_pattern=rule.pattern,
            targets=[
                events.CfnRule.TargetProperty(
                    id="Intake",
                    arn=self.queue.queue_arn,
                    input_transformer=events.CfnRule.InputTransformerProperty(**transformer(rule)),
                    dead_letter_config=events.CfnRule.DeadLetterConfigProperty(
                        arn=self.dead_letters.queue_arn
                    ),
                )
            ],
        )
        for queue in (self.queue, self.dead_letters):
            queue.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=f"Allow{id_}",
                    principals=[iam.ServicePrincipal("events.amazonaws.com")],
                    actions=["sqs:SendMessage"],
                    resources=[queue.queue_arn],
                    conditions={"ArnEquals": {"aws:SourceArn": created.attr_arn}},
                )
            )
        return created.attr_arn

    def _refuse_others(self, rules: Sequence[str]) -> None:
        """Deny all other senders, whatever their permissions. Operators resend at the provider."""
        allowed: dict[str, Any] = {}
        if rules:
            allowed["aws:SourceArn"] = list(rules)
        if self.webhook is not None:
            allowed["aws:PrincipalArn"] = [self.webhook.function.role.role_arn]
        if self._shared.stage.is_local:
            return  # the sandbox sends with the credentials of the account
        self.queue.add_to_resource_policy(
            iam.PolicyStatement(
                sid="OnlyRulesAndEndpoint",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["sqs:SendMessage"],
                resources=[self.queue.queue_arn],
                # All of these must differ, since a request has at most one of them.
                conditions={"ArnNotEquals": allowed},
            )
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
            timeout_seconds=WEBHOOK_TIMEOUT_SECONDS,
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


def event_alarms(intake: EventIntakeConstruct | None) -> Iterator[AlarmSpec]:
    """The alarm on events that could not be processed, if events are on."""
    if intake is None:
        return
    yield AlarmSpec(
        name="EventsNotProcessed",
        metric=intake.dead_letters.metric_approximate_number_of_messages_visible(
            period=PERIOD, statistic="Maximum"
        ),
        impact=(
            "No job is lost: the reconciler resolves jobs without events. Alerts for a "
            "dispute or for a refund made by hand may be missing."
        ),
        runbook_section="events-not-processed",
    )


def transformer(rule: EventRule) -> dict[str, Any]:
    """The input transformer of a rule: the envelope with these fields of the detail alone."""
    paths = {path.replace(".", "-"): f"$.detail.{path}" for path in rule.fields}
    named = {"source": "$.source", "account": "$.account", "type": "$.detail-type"}
    envelope = {
        "source": "<source>",
        "account": "<account>",
        "detail-type": "<type>",
        "detail": _nested(rule.fields),
    }
    # Without quotes, EventBridge puts in the value as JSON.
    template = json.dumps(envelope).replace('"<', "<").replace('>"', ">")
    keys = {f"detail-{key}": path for key, path in paths.items()}
    return {"input_paths_map": {**named, **keys}, "input_template": template}


def _nested(fields: Sequence[str]) -> Mapping[str, Any]:
    nested: dict[str, Any] = {}
    for path in fields:
        *parents, last = path.split(".")
        inner = nested
        for name in parents:
            inner = inner.setdefault(name, {})
        inner[last] = f"<detail-{path.replace('.', '-')}>"
    return nested
