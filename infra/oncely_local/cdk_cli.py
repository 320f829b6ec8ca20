"""Runs the CDK CLI, and hints at a missing bootstrap or sign-in if it fails."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import boto3

from oncely.cli.errors import CommandError
from oncely.core.aws_errors import AWS_ERRORS, error_code
from oncely_cdk import stage_file
from oncely_cdk.paths import REPOSITORY

# The bootstrap stack stores its version here.
BOOTSTRAP_PARAMETER: Final = "/cdk-bootstrap/hnb659fds/version"


def find_cdk(folder: Path = REPOSITORY) -> Path | None:
    """Find the CDK CLI in a project, or on the PATH."""
    own = folder / "node_modules" / ".bin" / "cdk"
    on_path = shutil.which("cdk")
    return own if own.exists() else Path(on_path) if on_path else None


def require_cdk(folder: Path) -> None:
    """Raise CommandError if Node or version 2 of the CDK CLI is missing, before anything is built.

    npm's latest version is 3, which cannot deploy what version 2 of the library synthesizes.
    """
    if shutil.which("node", path=cdk_environment()["PATH"]) is None:
        raise CommandError("Node is not installed. Install Node 20 or newer.")
    if find_cdk(folder) is not None:
        version = run_cdk_command("--version", quiet=True, folder=folder).stdout
        if re.search(r"^2\.", version, re.MULTILINE):
            return
    package = folder / "package.json"
    is_pinned = package.exists() and '"aws-cdk"' in package.read_text(encoding="utf-8")
    command = "npm install" if is_pinned else "npm install --save-dev aws-cdk@2"
    raise CommandError(f"Version 2 of the CDK CLI is not installed. Run `{command}`.")


def cdk_environment(extra_env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of the CDK CLI, which finds `python` and `node` on the PATH."""
    # Not resolved: the interpreter of an environment is a link to that of the system.
    own = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    return {
        **os.environ,
        "PATH": own,
        # Node 20 works, although it has reached its end of life.
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED": "true",
        **(extra_env or {}),
    }


def run_cdk_command(
    *arguments: str,
    extra_env: Mapping[str, str] | None = None,
    quiet: bool = False,
    folder: Path = REPOSITORY,
) -> "subprocess.CompletedProcess[str]":
    """Run a CDK command in a project. `quiet` captures its output."""
    return subprocess.run(  # noqa: S603  # the project's copy of the CLI, or the machine's
        [find_cdk(folder) or "cdk", *arguments, "--no-notices"],
        cwd=folder,
        env=cdk_environment(extra_env),
        stdin=subprocess.DEVNULL if quiet else None,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )


def bootstrap_hint() -> str | None:
    """Return a hint if the account is not bootstrapped or not reachable, otherwise None."""
    # boto3 ignores AWS_REGION, which the CDK uses.
    region = os.environ.get("AWS_REGION")
    try:
        boto3.client("ssm", region_name=region).get_parameter(Name=BOOTSTRAP_PARAMETER)
    except AWS_ERRORS as error:
        if not error_code(error):
            return f"Cannot reach AWS ({error}). Sign in, and set AWS_PROFILE and AWS_REGION."
        if error_code(error) == "ParameterNotFound":
            return (
                "This account is not bootstrapped for the CDK in this region. Run this once:\n"
                # Not the CDK directly: this module sets its PATH.
                "  .venv/bin/python -m oncely_local.cdk_cli bootstrap"
            )
    return None


def main(arguments: list[str]) -> int:
    """Run a CDK command, and print a hint if it fails. Returns the exit code.

    A deployment writes the identity of its stage to the stage's file.
    """
    stages = [one.removeprefix("stage=") for one in arguments if one.startswith("stage=")]
    if "local" in stages and "AWS_ENDPOINT_URL" not in os.environ:
        sys.stderr.write("Stage `local` runs on this machine only. Deploy it with `make local`.\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder) / "outputs.json"
        records = arguments[:1] == ["deploy"] and len(stages) == 1
        more = ("--outputs-file", str(outputs)) if records else ()
        code = run_cdk_command(*arguments, *more).returncode
        if not code and records and outputs.exists():
            stage_file.main([f"stages/{stages[0]}.toml", str(outputs)])
    if code and arguments[:1] != ["synth"] and (advice := bootstrap_hint()):
        sys.stderr.write(f"\n{advice}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
