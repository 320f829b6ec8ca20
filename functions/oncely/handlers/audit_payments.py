"""Lambda: audits the payments of one earlier day. Each day runs once for each day of the window."""

import os
import tempfile
from pathlib import Path
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App, app_from_env
from oncely.contracts.job_names import jobs_from_env
from oncely.handlers.lambda_init import once
from oncely.handlers.telemetry import instrumented


@once
def get_app() -> App:
    """Build once per execution environment."""
    app = app_from_env(os.environ, jobs_from_env(os.environ))
    _ = app.daily_audit, app.payment_auditor, app.notifier, app.ports.audit_reports
    return app


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Audit, alert if anything new differs, and store the report."""
    with tempfile.TemporaryDirectory() as folder:
        scheduled_at = event.get("scheduled_at")
        return get_app().daily_audit.run(Path(folder), scheduled_at=scheduled_at).to_json()
