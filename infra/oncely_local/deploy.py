"""Deploys stage `local` to an engine with the CDK CLI. Synthesis is cached by source digests."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from oncely.cli.errors import CommandError
from oncely_cdk.packaging import digest_files, list_sources
from oncely_cdk.paths import FUNCTIONS, PACKAGE, REPOSITORY
from oncely_cdk.stage_file import IDENTITY_OUTPUT
from oncely_cdk.stages import ENGINE_ADDRESS, PROVIDERS_ADDRESS
from oncely_local.account import LocalAccount
from oncely_local.cdk_cli import run_cdk_command
from oncely_local.engine import ACCOUNT, REGION, account_environment, aws_environment
from oncely_local.project import STAGE, local_project

_INFRA: Final = REPOSITORY / "infra"
_LOCAL: Final = _INFRA / "oncely_local"  # not part of the stack
# The stack derives queues, tables, variables, timeouts and statuses from these.
_DERIVED_FROM: Final = (
    *("contracts", "jobs", "plugins", "providers", "aws/alarm_description.py", "aws/signals.py"),
    *("core/lifecycle.py", "core/outcomes.py", "core/profiles.py", "operate/own_tables.py"),
)
# Of a team's project: what tools write, and what no synthesis reads.
_NOT_SOURCES: Final = frozenset({"__pycache__", "cdk.out", "node_modules", "tests"})


class DeployError(CommandError):
    """The CDK CLI failed. The message is its output."""


def run_cdk(environment: Mapping[str, str], *arguments: str) -> str:
    """Run a CDK command. Returns its output."""
    folder = local_project().folder
    done = run_cdk_command(*arguments, extra_env=environment, quiet=True, folder=folder)
    if done.returncode:
        raise DeployError(f"cdk {' '.join(arguments)}\n{done.stdout}")
    return done.stdout


def cached_assembly() -> Path:
    """The cloud assembly, synthesized only if one of its sources has changed."""
    build_folder = local_project().build_folder
    folder = build_folder / f"assembly-{source_digest(synthesis_inputs())}"
    build_folder.mkdir(parents=True, exist_ok=True)
    # Concurrent test runs synthesize an assembly once.
    with (build_folder / ".synthesizing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _synthesize(folder)
    return folder


def _synthesize(folder: Path) -> None:
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".scratch-"))
    written = scratch / "assembly"
    stage = ("-c", f"stage={STAGE}")
    try:
        run_cdk(account_environment(), "synth", "--quiet", "--output", str(written), *stage)
        for old in folder.parent.glob("assembly-*"):
            shutil.rmtree(old, ignore_errors=True)
        written.replace(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def stack_name(assembly: Path) -> str:
    """The stack of an assembly that has Oncely."""
    templates = {
        path.name.removesuffix(".template.json"): json.loads(path.read_text(encoding="utf-8"))
        for path in assembly.glob("*.template.json")
    }
    found = [name for name, one in templates.items() if IDENTITY_OUTPUT in one.get("Outputs", {})]
    if len(found) != 1:
        raise DeployError(
            f"The app has {len(found)} stacks with Oncely for `-c stage={STAGE}`. It needs one."
        )
    return found[0]


def bootstrap(url: str, assembly: Path) -> None:
    """Bootstrap the engine's account for the CDK."""
    run_cdk(aws_environment(url), "bootstrap", "--app", str(assembly))
    # The engine uses plain HTTP, which the bootstrap bucket's policy denies.
    bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    LocalAccount(url).client("s3").delete_bucket_policy(Bucket=bucket)


def deploy(url: str, assembly: Path, *, providers: str) -> LocalAccount:
    """Deploy the assembly to the engine at `url`. Returns the account with its stack."""
    addresses = {ENGINE_ADDRESS: url, PROVIDERS_ADDRESS: providers}
    parameters = [f"--parameters={name}={value}" for name, value in addresses.items()]
    unattended = ("--app", str(assembly), "--require-approval", "never")
    account = LocalAccount(url, stack_name(assembly))
    run_cdk(aws_environment(url), "deploy", account.stack_name, *unattended, *parameters)
    account.protect_jobs()
    return account


def synthesis_inputs() -> Iterator[Path]:
    """All sources of a synthesis."""
    yield from stack_sources()
    yield from function_sources()


def stack_sources() -> Iterator[Path]:
    """The sources that can change more than a function's code: in a team's project, all."""
    project = local_project()
    if not project.is_clone:
        yield from _list_project(project.folder)
        return
    yield project.stage_file
    yield from (path for path in list_sources(_INFRA) if not path.is_relative_to(_LOCAL))
    derived_from = [PACKAGE / name for name in _DERIVED_FROM]
    for path in list_sources(PACKAGE):
        if any(path.is_relative_to(one) for one in derived_from):
            yield path
    yield from (REPOSITORY / name for name in ("cdk.json", "package-lock.json"))


def function_sources() -> Iterator[Path]:
    """The sources of the functions' code that can change alone."""
    if local_project().is_clone:
        yield from list_sources(FUNCTIONS)


def source_digest(files: Iterable[Path]) -> str:
    """Hash the contents of files, independent of the project's location, and the version."""
    folder = local_project().folder
    sources = {str(path.relative_to(folder)): path for path in files}
    digests = f"{version('oncely')} {digest_files(sources, for_lambda=False)}"
    return hashlib.sha256(digests.encode()).hexdigest()[:16]


def _list_project(folder: Path) -> Iterator[Path]:
    """The files of a team's project, without those of its tools and its hidden folders."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if one not in _NOT_SOURCES and one[0] != "."]
        yield from (Path(parent) / name for name in names)
