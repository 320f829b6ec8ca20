"""Runs the CDK CLI, and hints at a missing bootstrap or sign-in if it fails."""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from oncely_cdk.paths import REPOSITORY

CDK: Final = REPOSITORY / "node_modules" / ".bin" / "cdk"
# The bootstrap stack stores its version here.
BOOTSTRAP_PARAMETER: Final = "/cdk-bootstrap/hnb659fds/version"


def cdk_environment(extra_env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of the CDK CLI, which finds `python` and `node` on the PATH."""
    own = os.pathsep.join((str(REPOSITORY / ".venv" / "bin"), os.environ.get("PATH", os.defpath)))
    return {
        **os.environ,
        "PATH": own,
        # Node 20 works, although it is past its end of life.
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED": "true",
        **(extra_env or {}),
    }


def run_cdk_command(
    *arguments: str, extra_env: Mapping[str, str] | None = None, quiet: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run a CDK command. `quiet` captures its output."""
    return subprocess.run(  # noqa: S603  # this repository's copy of the CLI
        [CDK, *arguments, "--no-notices"],
        cwd=REPOSITORY,
        env=cdk_environment(extra_env),
        stdin=subprocess.DEVNULL if quiet else None,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )


def bootstrap_hint() -> str | None:
    """What to do if the account is not bootstrapped or not reachable. Returns None otherwise."""
    # boto3 ignores AWS_REGION, which the CDK uses.
    region = os.environ.get("AWS_REGION")
    try:
        boto3.client("ssm", region_name=region).get_parameter(Name=BOOTSTRAP_PARAMETER)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "ParameterNotFound":
            return (
                "This account is not bootstrapped for the CDK in this region. Run this once:\n"
                # Not the CDK directly: this module sets its PATH.
                "  .venv/bin/python -m oncely_local.cdk_cli bootstrap"
            )
    except BotoCoreError as error:
        return f"Cannot reach AWS ({error}). Sign in, and set AWS_PROFILE and AWS_REGION."
    return None


def main(arguments: list[str]) -> int:
    """Run a CDK command, and print a hint if it fails. Returns the exit code."""
    local = any(argument == "stage=local" for argument in arguments)
    if local and "AWS_ENDPOINT_URL" not in os.environ:
        sys.stderr.write("Stage `local` runs on this machine only. Deploy it with `make local`.\n")
        return 2
    code = run_cdk_command(*arguments).returncode
    if code and arguments[:1] != ["synth"] and (advice := bootstrap_hint()):
        sys.stderr.write(f"\n{advice}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
