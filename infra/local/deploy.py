"""Deploys stage `local` into an engine with the CDK's own command line; unchanged, nothing runs."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from infra import REPOSITORY
from infra.cdk_cli import CDK, cdk
from infra.local.account import Account
from infra.local.engine import ACCOUNT, REGION, environment_of
from infra.local.sources import all_files, digest
from infra.stages import ENGINE_ADDRESS

HOME: Final = REPOSITORY / ".build" / "local"
SENDER: Final = "receipts@example.com"


class DeployError(Exception):
    """The CDK's command line failed; what it said is the message."""


def run_cdk(url: str, *arguments: str) -> str:
    """Run one command against the engine at an address; gives what it said."""
    if not CDK.exists():
        raise DeployError("no CDK command line: `make setup` installs it")
    done = cdk(*arguments, more=environment_of(url), quiet=True)
    if done.returncode:
        raise DeployError(f"cdk {' '.join(arguments)}\n{done.stdout}")
    return done.stdout


def settings_with(providers: str) -> dict[str, str]:
    """The context of stage `local`, with every provider at one address."""
    return {
        "stage": "local",
        "stripe_api_base": providers,
        "hubspot_api_base": providers,
        "ses_api_base": providers,
        "sender_address": SENDER,
    }


def synthesize(url: str, folder: Path, *, providers: str) -> None:
    """Write the cloud assembly of stage `local`."""
    given = [f"--context={name}={value}" for name, value in settings_with(providers).items()]
    run_cdk(url, "synth", "--quiet", "--output", str(folder), *given)


def assembly_of(url: str, *, providers: str) -> Path:
    """The cloud assembly, as an earlier run left it if all that goes into it is the same."""
    mark = digest(all_files(), settings_with(providers))
    folder = HOME / f"assembly-{mark}"
    if folder.exists():
        return folder
    HOME.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=HOME, prefix=".synthesizing-"))
    try:
        synthesize(url, scratch / "assembly", providers=providers)
        for old in HOME.glob("assembly-*"):
            shutil.rmtree(old, ignore_errors=True)
        (scratch / "assembly").replace(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def bootstrap(url: str, assembly: Path) -> None:
    """Prepare the engine's account for the CDK, as any account."""
    run_cdk(url, "bootstrap", "--app", str(assembly))
    # The engine speaks plain HTTP, which the bucket of the bootstrap refuses.
    bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    Account(url).client("s3").delete_bucket_policy(Bucket=bucket)


def deploy(url: str, assembly: Path) -> str:
    """Deploy what was synthesized; gives what the command line said."""
    told = f"--parameters={ENGINE_ADDRESS}={url}"  # the page must know where to sign in
    return run_cdk(url, "deploy", "--app", str(assembly), "--require-approval", "never", told)
