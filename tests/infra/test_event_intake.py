"""Events that a stage turns on arrive through one queue. Only rules and the endpoint may send."""

import json
from typing import Any

import pytest

from oncely.providers.stripe.plugin import STRIPE
from oncely_cdk import OncelySettings
from oncely_cdk.event_intake import transformer
from tests.infra.assembly import PROD, Assembly
from tests.infra.policies import permissions
from tests.support.stripe_events import EMAIL, SOURCE, envelope, stripe_event

RECEIVE = "EventIntake/Receive"
VERIFY = "EventIntake/Webhook/Verify"


@pytest.fixture(scope="module")
def receiving(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """Both ways at the same time."""
    provider = {**PROD.provider_settings, "stripe_event_source": SOURCE, "stripe_webhook": "true"}
    settings = PROD.model_copy(update={"provider_settings": provider})
    return Assembly.from_folder(tmp_path_factory.mktemp("receiving"), settings)


def test_events_of_stripe_are_off_by_default(prod: Assembly) -> None:
    assert VERIFY not in prod.functions
    buses = {one.get("EventBusName") for one in prod.properties("AWS::Events::Rule").values()}
    assert buses == {None}  # only those of AWS services


def test_boolean_of_a_provider_may_be_one_in_the_file() -> None:
    settings = OncelySettings.model_validate(
        {"name": "dev", "provider_settings": {"stripe_webhook": True}}
    )
    assert STRIPE.read_settings(settings.provider_env_vars([STRIPE])).webhook  # type: ignore[attr-defined]  # Stripe's own


def test_endpoint_may_send_and_read_its_secret_and_nothing_else(receiving: Assembly) -> None:
    rights = {one.action for one in permissions(receiving) if one.role.startswith(VERIFY)}
    assert rights == {
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "secretsmanager:GetSecretValue",
        "sqs:SendMessage",
        "xray:PutTelemetryRecords",
        "xray:PutTraceSegments",
    }
    secrets = {
        one.resource
        for one in permissions(receiving)
        if one.role.startswith(VERIFY) and one.action == "secretsmanager:GetSecretValue"
    }
    assert len(secrets) == 1
    assert "StripeWebhook" in str(secrets)


def test_intake_has_no_right_to_create_or_delete_rows(receiving: Assembly) -> None:
    rights = {one.action for one in permissions(receiving) if one.role.startswith(RECEIVE)}
    assert rights.isdisjoint({"dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:Query"})
    assert {"dynamodb:UpdateItem", "events:PutEvents", "sns:Publish"} <= rights


def test_queue_accepts_only_the_rules_and_the_endpoint(receiving: Assembly) -> None:
    policy = receiving.properties("AWS::SQS::QueuePolicy")["EventIntake/Queue/Policy"]
    statements = policy["PolicyDocument"]["Statement"]
    allowed = [one for one in statements if one["Effect"] == "Allow"]
    assert {one["Principal"]["Service"] for one in allowed} == {"events.amazonaws.com"}
    assert all("aws:SourceArn" in one["Condition"]["ArnEquals"] for one in allowed)
    (denied,) = [one for one in statements if one.get("Sid") == "OnlyRulesAndEndpoint"]
    conditions = denied["Condition"]["ArnNotEquals"]
    assert (denied["Effect"], denied["Action"]) == ("Deny", "sqs:SendMessage")
    assert len(conditions["aws:SourceArn"]) == len(allowed)
    assert "Webhook" in json.dumps(conditions["aws:PrincipalArn"])


def test_rules_match_what_stripe_sends_and_pass_on_only_ids(receiving: Assembly) -> None:
    every = receiving.properties("AWS::Events::Rule")
    rules = {path: one for path, one in every.items() if "Stripe" in path}
    assert len(rules) == 2
    assert {one["EventBusName"] for one in rules.values()} == {SOURCE}
    for rule in STRIPE.event_rules(STRIPE.settings_type(event_source=SOURCE)):
        (found,) = [one for one in rules.values() if one["EventPattern"] == rule.pattern]
        (target,) = found["Targets"]
        assert target["InputTransformer"] == {
            "InputPathsMap": transformer(rule)["input_paths_map"],
            "InputTemplate": transformer(rule)["input_template"],
        }
        for type_ in rule.detail_types:
            event = stripe_event(type_, "pi_1")
            passed = _transform(target["InputTransformer"], json.loads(envelope(event)))
            assert json.loads(passed)["detail"] == rule.reduce(event)
            assert EMAIL not in passed


def _transform(given: dict[str, Any], event: dict[str, Any]) -> str:
    """Insert each value as JSON, as EventBridge does."""
    text: str = given["InputTemplate"]
    for name, path in given["InputPathsMap"].items():
        value: Any = event
        for part in path.removeprefix("$.").split("."):
            value = value[part]
        text = text.replace(f"<{name}>", json.dumps(value))
    return text


def test_endpoint_is_throttled(receiving: Assembly) -> None:
    stages = receiving.properties("AWS::ApiGatewayV2::Stage")
    (stage,) = [one for path, one in stages.items() if path.startswith("EventIntake/")]
    assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": 50, "ThrottlingBurstLimit": 100}
    assert "StripeWebhookUrl" in receiving.template["Outputs"]
