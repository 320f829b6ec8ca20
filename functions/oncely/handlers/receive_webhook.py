"""Lambda: the HTTPS endpoint for events of providers, one path for each."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App
from oncely.handlers.lambda_init import once_with_app
from oncely.handlers.telemetry import instrumented, telemetry
from oncely.reconcile.webhooks import WebhookReceiver


@once_with_app
def get_receiver(app: App) -> WebhookReceiver:
    """Build once per execution environment."""
    return app.webhook_receiver


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer one request. The body of a response tells nothing."""
    provider = str((event.get("pathParameters") or {}).get("provider"))
    given = event.get("headers") or {}
    headers = {str(name).lower(): str(value) for name, value in given.items()}
    response = get_receiver().receive(
        provider,
        str(event.get("body") or ""),
        headers,
        is_base64=bool(event.get("isBase64Encoded")),
    )
    telemetry().webhook_answered(provider, response)
    return {"statusCode": int(response), "body": ""}
