"""Lambda: audits the payments of one earlier day. Each day runs once for each day of the window."""

import tempfile
from pathlib import Path
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App
from oncely.handlers.lambda_init import once_with_app
from oncely.handlers.telemetry import instrumented


@once_with_app
def get_app(app: App) -> App:
    """Build once per execution environment."""
    _ = app.daily_audit, app.payment_auditor, app.notifier, app.ports.audit_reports
    return app


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Audit, alert if anything new differs, and store the report."""
    with tempfile.TemporaryDirectory() as folder:
        scheduled_at = event.get("scheduled_at")
        return get_app().daily_audit.run(Path(folder), scheduled_at=scheduled_at).to_json()
