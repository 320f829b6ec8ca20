"""Deploys stage `local` to an engine with the CDK CLI. Synthesis is cached by source digests."""

import fcntl
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from oncely_cdk.paths import FUNCTIONS, REPOSITORY
from oncely_cdk.stages import ENGINE_ADDRESS, PROVIDERS_ADDRESS
from oncely_local.account import LocalAccount
from oncely_local.cdk_cli import CDK, run_cdk_command
from oncely_local.engine import ACCOUNT, REGION, account_environment, aws_environment

BUILD_FOLDER: Final = REPOSITORY / ".build" / "local"
CONTEXT: Final = {"stage": "local", "ses_sender_address": "receipts@example.com"}

_INFRA: Final = REPOSITORY / "infra"
_LOCAL: Final = _INFRA / "oncely_local"  # not part of the stack
# The stack derives queues, tables, variables, timeouts and statuses from these.
_DERIVED_FROM: Final = (
    *("jobs", "providers", "contract.py", "registry.py", "settings.py", "telemetry.py"),
    *("domain/lifecycle.py", "domain/profiles.py"),
)
_BUILD_ARTIFACTS: Final = frozenset({"__pycache__", ".DS_Store"})


class DeployError(Exception):
    """The CDK CLI failed. The message is its output."""


def run_cdk(environment: Mapping[str, str], *arguments: str) -> str:
    """Run a CDK command. Returns its output."""
    if not CDK.exists():
        raise DeployError("The CDK CLI is not installed. Run `make setup`.")
    done = run_cdk_command(*arguments, extra_env=environment, quiet=True)
    if done.returncode:
        raise DeployError(f"cdk {' '.join(arguments)}\n{done.stdout}")
    return done.stdout


def cached_assembly() -> Path:
    """The cloud assembly, synthesized only if one of its sources has changed."""
    folder = BUILD_FOLDER / f"assembly-{source_digest(synthesis_inputs(), CONTEXT)}"
    BUILD_FOLDER.mkdir(parents=True, exist_ok=True)
    # Concurrent test runs synthesize an assembly once.
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
    """Bootstrap the engine's account for the CDK."""
    run_cdk(aws_environment(url), "bootstrap", "--app", str(assembly))
    # The engine uses plain HTTP, which the bootstrap bucket's policy denies.
    bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    LocalAccount(url).client("s3").delete_bucket_policy(Bucket=bucket)


def deploy(url: str, assembly: Path, *, providers: str) -> str:
    """Deploy the assembly to the engine at `url`. Returns the CLI's output."""
    addresses = {ENGINE_ADDRESS: url, PROVIDERS_ADDRESS: providers}
    parameters = [f"--parameters={name}={value}" for name, value in addresses.items()]
    unattended = ("--app", str(assembly), "--require-approval", "never")
    output = run_cdk(aws_environment(url), "deploy", *unattended, *parameters)
    LocalAccount(url).protect_jobs()
    return output


def synthesis_inputs() -> Iterator[Path]:
    """All sources of a synthesis."""
    yield from stack_sources()
    yield from function_sources()


def stack_sources() -> Iterator[Path]:
    """The sources that can change more than a function's code."""
    yield from (path for path in _list_files(_INFRA) if not path.is_relative_to(_LOCAL))
    yield from (path for name in _DERIVED_FROM for path in _list_files(FUNCTIONS / "oncely" / name))
    yield from (REPOSITORY / "requirements").glob("layer-*.txt")
    yield from (REPOSITORY / name for name in ("cdk.json", "package-lock.json"))


def function_sources() -> Iterator[Path]:
    """The sources of the functions' code."""
    yield from _list_files(FUNCTIONS)


def source_digest(files: Iterable[Path], more: Mapping[str, str] | None = None) -> str:
    """Hash the contents of files, independent of the repository's location."""
    mark = hashlib.sha256(json.dumps(more or {}, sort_keys=True).encode())
    for path in sorted(set(files)):
        mark.update(f"\n{path.relative_to(REPOSITORY)}\n".encode())
        mark.update(hashlib.sha256(path.read_bytes()).digest())
    return mark.hexdigest()[:16]


def _list_files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*")):
        is_built = path.suffix == ".pyc" or _BUILD_ARTIFACTS.intersection(path.parts)
        if path.is_file() and not is_built:
            yield path
