"""Synthesizes the stack of a stage: `cdk synth -c stage=prod` reads `stages/prod.toml`."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App, Environment, Validations
from cdk_nag import AwsSolutionsChecks

from oncely.core.errors import OncelyError
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely_cdk import (
    BytecodeError,
    LayerError,
    OncelySettings,
    OncelyStack,
    StageError,
    UnsafeStageError,
    read_stage_file,
)
from oncely_cdk.packaging import MISSING_PYTHON_WARNING, lambda_python
from oncely_cdk.paths import REPOSITORY


def build_app(
    settings: OncelySettings | None = None,
    *,
    context: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> App:
    """Build the app with these settings, or those of the stage in the context.

    Findings of cdk-nag are errors.
    """
    # The CDK CLI passes these flags too, but `python infra/app.py` does not.
    flags = json.loads((REPOSITORY / "cdk.json").read_text())["context"]
    app = App(
        context={**flags, **(context or {})},
        outdir=None if folder is None else str(folder),
        analytics_reporting=False,
    )
    stage = settings or read_stage_file(_stage_file(app))
    OncelyStack(app, f"Oncely-{stage.name}", jobs=SHIPPED_JOBS, settings=stage, env=_environment())
    # The local engine uses plain HTTP, which cdk-nag rejects.
    if not stage.is_local:
        Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
        if lambda_python() is None:
            sys.stderr.write(f"{MISSING_PYTHON_WARNING}\n")
    return app


def _stage_file(app: App) -> Path:
    """The file of the stage in the context. Other keys of the context belong to the CDK."""
    return Path("stages", f"{app.node.try_get_context('stage') or 'dev'}.toml")


def _environment() -> Environment | None:
    """The account and region of the CDK CLI. Returns None for an environment-agnostic stack."""
    account, region = (os.environ.get(f"CDK_DEFAULT_{name}") for name in ("ACCOUNT", "REGION"))
    return Environment(account=account, region=region) if account and region else None


def main() -> None:
    """Write the cloud assembly, or print why that is not possible."""
    try:
        build_app().synth()
    except (BytecodeError, LayerError, OncelyError, StageError, UnsafeStageError) as error:
        sys.exit(f"Cannot synthesize the stack: {error}")


if __name__ == "__main__":
    main()
