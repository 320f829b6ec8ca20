"""Lambda: audits yesterday's payments, once a day."""

import os
import tempfile
from pathlib import Path
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App
from oncely.aws.ports import app_from_env
from oncely.job_names import jobs_from_env
from oncely.lambda_init import once
from oncely.telemetry import instrumented


@once
def get_app() -> App:
    """Build once per execution environment."""
    app = app_from_env(os.environ, jobs_from_env(os.environ))
    _ = app.daily_audit
    return app


@instrumented
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Audit, store the report, and alert if anything differs."""
    with tempfile.TemporaryDirectory() as folder:
        return get_app().daily_audit.run(Path(folder)).to_json()
