"""Deploys stage `local` into an engine with the CDK's own command line; unchanged, nothing runs."""

import fcntl
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from oncely_cdk.paths import REPOSITORY
from oncely_cdk.stages import ENGINE_ADDRESS, PROVIDERS_ADDRESS
from oncely_local.account import LocalAccount
from oncely_local.cdk_cli import CDK, run_cdk_command
from oncely_local.engine import ACCOUNT, REGION, account_environment, aws_environment
from oncely_local.source_digests import source_digest, synthesis_inputs

BUILD_FOLDER: Final = REPOSITORY / ".build" / "local"
CONTEXT: Final = {"stage": "local", "ses_sender_address": "receipts@example.com"}


class DeployError(Exception):
    """The CDK's command line failed; what it said is the message."""


def run_cdk(environment: Mapping[str, str], *arguments: str) -> str:
    """Run one command of the CDK; returns its output."""
    if not CDK.exists():
        raise DeployError("no CDK command line: `make setup` installs it")
    done = run_cdk_command(*arguments, extra_env=environment, quiet=True)
    if done.returncode:
        raise DeployError(f"cdk {' '.join(arguments)}\n{done.stdout}")
    return done.stdout


def cached_assembly() -> Path:
    """The cloud assembly; synthesized only if a file that goes into it has changed."""
    folder = BUILD_FOLDER / f"assembly-{source_digest(synthesis_inputs(), CONTEXT)}"
    BUILD_FOLDER.mkdir(parents=True, exist_ok=True)
    # Two test runs that want the same assembly synthesize it once.
    with (BUILD_FOLDER / ".synthesizing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _synthesize(folder)
    return folder


def _synthesize(folder: Path) -> None:
    scratch = Path(tempfile.mkdtemp(dir=BUILD_FOLDER, prefix=".scratch-"))
    written = scratch / "assembly"
    context = [f"--context={name}={value}" for name, value in CONTEXT.items()]
    try:
        run_cdk(account_environment(), "synth", "--quiet", "--output", str(written), *context)
        for old in BUILD_FOLDER.glob("assembly-*"):
            shutil.rmtree(old, ignore_errors=True)
        written.replace(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def bootstrap(url: str, assembly: Path) -> None:
    """Prepare the engine's account for the CDK, as any account."""
    run_cdk(aws_environment(url), "bootstrap", "--app", str(assembly))
    # The engine speaks plain HTTP, which the bucket of the bootstrap refuses.
    bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    LocalAccount(url).client("s3").delete_bucket_policy(Bucket=bucket)


def deploy(url: str, assembly: Path, *, providers: str) -> str:
    """Deploy the assembly to the engine at `url`; returns the command line's output."""
    addresses = {ENGINE_ADDRESS: url, PROVIDERS_ADDRESS: providers}
    parameters = [f"--parameters={name}={value}" for name, value in addresses.items()]
    unattended = ("--app", str(assembly), "--require-approval", "never")
    output = run_cdk(aws_environment(url), "deploy", *unattended, *parameters)
    LocalAccount(url).protect_jobs()
    return output
