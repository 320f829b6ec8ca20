"""Runs the CDK's command line, and says what to do when the account was never bootstrapped."""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from oncely_cdk.paths import REPOSITORY

CDK: Final = REPOSITORY / "node_modules" / ".bin" / "cdk"
# The bootstrap stack leaves its version here.
BOOTSTRAP_PARAMETER: Final = "/cdk-bootstrap/hnb659fds/version"


def cdk_environment(extra_env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that the command line runs with; it finds `python` and `node` by the path."""
    own = os.pathsep.join((str(REPOSITORY / ".venv" / "bin"), os.environ.get("PATH", os.defpath)))
    return {
        **os.environ,
        "PATH": own,
        # Node 20 does; a machine that has it keeps it.
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED": "true",
        **(extra_env or {}),
    }


def run_cdk_command(
    *arguments: str, extra_env: Mapping[str, str] | None = None, quiet: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run one command of it; `quiet` keeps what it says for the caller."""
    return subprocess.run(  # noqa: S603  # this repository's own copy of it
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
    """What to do first, if this account and region were never bootstrapped."""
    # boto3 alone reads AWS_DEFAULT_REGION only; the CDK and people say AWS_REGION.
    region = os.environ.get("AWS_REGION")
    try:
        boto3.client("ssm", region_name=region).get_parameter(Name=BOOTSTRAP_PARAMETER)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "ParameterNotFound":
            return (
                "This account was never bootstrapped for the CDK in this region; once is enough:\n"
                # Not the CDK itself: it finds `python` and `node` only on the path from here.
                "  .venv/bin/python -m oncely_local.cdk_cli bootstrap"
            )
    except BotoCoreError as error:
        return f"AWS could not be asked ({error}): sign in, and set AWS_PROFILE and AWS_REGION."
    return None


def main(arguments: list[str]) -> int:
    """Run a command for a person; when it fails, look for the usual reason."""
    local = any(argument == "stage=local" for argument in arguments)
    if local and "AWS_ENDPOINT_URL" not in os.environ:
        sys.stderr.write("The stage `local` is for one machine: `make local` deploys it there.\n")
        return 2
    code = run_cdk_command(*arguments).returncode
    if code and arguments[:1] != ["synth"] and (advice := bootstrap_hint()):
        sys.stderr.write(f"\n{advice}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
