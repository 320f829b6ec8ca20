"""Deploys stage `local` into an engine with the CDK's own command line; unchanged, nothing runs."""

import fcntl
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from infra import REPOSITORY
from infra.cdk_cli import CDK, cdk
from infra.local.account import Account
from infra.local.engine import ACCOUNT, REGION, account_environment, environment_of
from infra.local.sources import all_files, digest
from infra.stages import ENGINE_ADDRESS, PROVIDERS_ADDRESS

HOME: Final = REPOSITORY / ".build" / "local"
CONTEXT: Final = {"stage": "local", "sender_address": "receipts@example.com"}


class DeployError(Exception):
    """The CDK's command line failed; what it said is the message."""


def run_cdk(environment: Mapping[str, str], *arguments: str) -> str:
    """Run one command of the CDK; returns its output."""
    if not CDK.exists():
        raise DeployError("no CDK command line: `make setup` installs it")
    done = cdk(*arguments, more=environment, quiet=True)
    if done.returncode:
        raise DeployError(f"cdk {' '.join(arguments)}\n{done.stdout}")
    return done.stdout


def assembly_of_stack() -> Path:
    """The cloud assembly; synthesized only if a file that goes into it has changed."""
    folder = HOME / f"assembly-{digest(all_files(), CONTEXT)}"
    HOME.mkdir(parents=True, exist_ok=True)
    # Two test runs that want the same assembly synthesize it once.
    with (HOME / ".synthesizing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _synthesize(folder)
    return folder


def _synthesize(folder: Path) -> None:
    scratch = Path(tempfile.mkdtemp(dir=HOME, prefix=".scratch-"))
    written = scratch / "assembly"
    context = [f"--context={name}={value}" for name, value in CONTEXT.items()]
    try:
        run_cdk(account_environment(), "synth", "--quiet", "--output", str(written), *context)
        for old in HOME.glob("assembly-*"):
            shutil.rmtree(old, ignore_errors=True)
        written.replace(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def bootstrap(url: str, assembly: Path) -> None:
    """Prepare the engine's account for the CDK, as any account."""
    run_cdk(environment_of(url), "bootstrap", "--app", str(assembly))
    # The engine speaks plain HTTP, which the bucket of the bootstrap refuses.
    bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    Account(url).client("s3").delete_bucket_policy(Bucket=bucket)


def deploy(url: str, assembly: Path, *, providers: str) -> str:
    """Deploy the assembly to the engine at `url`; returns the command line's output."""
    addresses = {ENGINE_ADDRESS: url, PROVIDERS_ADDRESS: providers}
    parameters = [f"--parameters={name}={value}" for name, value in addresses.items()]
    unattended = ("--app", str(assembly), "--require-approval", "never")
    said = run_cdk(environment_of(url), "deploy", *unattended, *parameters)
    Account(url).protect_jobs()
    return said
