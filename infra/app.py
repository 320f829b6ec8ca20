"""Synthesizes the stack: `cdk synth -c stage=prod -c alert_email=…`, or `python infra/app.py`."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App, Environment, Validations
from cdk_nag import AwsSolutionsChecks

from oncely.jobs import CONTRACTS
from oncely_cdk.guardrails import UnsafeStageError
from oncely_cdk.layers import LayerError
from oncely_cdk.packaging import MISSING_PYTHON_WARNING, BytecodeError, lambda_python
from oncely_cdk.paths import REPOSITORY
from oncely_cdk.stack import OncelyStack
from oncely_cdk.stages import Stage, StageError


def build_app(context: Mapping[str, Any] | None = None, *, folder: Path | None = None) -> App:
    """Build the app of the context's stage. Findings of cdk-nag are errors."""
    # The CDK CLI passes these flags too, but `python infra/app.py` does not.
    flags = json.loads((REPOSITORY / "cdk.json").read_text())["context"]
    app = App(
        context={**flags, **(context or {})},
        outdir=None if folder is None else str(folder),
        analytics_reporting=False,
    )
    stage = Stage.from_context(app.node.get_all_context(), CONTRACTS)
    OncelyStack(app, f"Oncely-{stage.name}", stage=stage, contracts=CONTRACTS, env=_environment())
    # The local engine uses plain HTTP, which cdk-nag rejects.
    if not stage.is_local:
        Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
        if lambda_python() is None:
            sys.stderr.write(f"{MISSING_PYTHON_WARNING}\n")
    return app


def _environment() -> Environment | None:
    """The account and region of the CDK CLI. Returns None for an environment-agnostic stack."""
    account, region = (os.environ.get(f"CDK_DEFAULT_{name}") for name in ("ACCOUNT", "REGION"))
    return Environment(account=account, region=region) if account and region else None


def main() -> None:
    """Write the cloud assembly, or print why that is not possible."""
    try:
        build_app().synth()
    except (BytecodeError, UnsafeStageError, LayerError, StageError) as error:
        sys.exit(f"Cannot synthesize the stack: {error}")


if __name__ == "__main__":
    main()
