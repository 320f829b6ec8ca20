"""Every command of README and docs runs as it is written, against the deployed stack."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

import pytest

from oncely_local.account import STACK_NAME
from oncely_local.engine import aws_environment
from tests.docs.pages import REPOSITORY, DocPage, ShellCommand, page, pages
from tests.e2e import scenarios
from tests.e2e.deployed_stack import StackClient
from tests.support.forked_cli import run_command

# The commands refund and repair the orders that other tests look at.
pytestmark = [pytest.mark.in_order, pytest.mark.last]

# Other tests run these.
_ELSEWHERE: Final = {
    "docs/adopt.md": "make consumer, from a project of its own",
    "docs/quickstart.md": "make consumer, in a fresh clone",
    "make local": "make consumer, with the quickstart",
    "oncely init": "make consumer",
}
# What a page may give as the reason that no test runs a command.
_REASONS: Final = frozenset(
    {
        "CI runs a shorter demo",
        "it needs an AWS account",
        "it needs npm's registry",
        "it needs a deployed stack with this job",
    }
)
# Exit codes other than 0: the job's state may not allow the repair, a reject of another stack is
# not found, and a check may find something that needs action. A job that another page sent may
# still be open when its data is erased. The deployed table needs no restore, so that is refused.
# A refund of an order that is not paid yet has no known amount, so it waits for a second operator.
_ANSWERS: Final = {
    **{name: {0, 4} for name in ("doctor", "reconcile", "archive", "erase", "send")},
    **{name: {0, 1} for name in ("repair", "rejects")},
    "cancel": {0, 1},
    "bulk": {0, 1},
    "restore-proofs": {1},
}
_API_KEYS: Final = {
    "sk_live_…": "StripeSecretArn",
    "<public key>:<private key>": "BraintreeSecretArn",
}
_ASKING: Final = frozenset({"cancel", "repair", "redrive", "restore-proofs"})


_QUICKSTART: Final = {one.line for one in page("docs/quickstart.md").commands()}


def _is_run_here(page: DocPage, command: ShellCommand) -> bool:
    elsewhere = (str(page), command.line)
    return not (
        command.not_run
        or command.line in _QUICKSTART
        or any(one.startswith(tuple(_ELSEWHERE)) for one in elsewhere)
    )


# Each once, in the order of the pages: one may build on another.
DOCUMENTED_COMMANDS: Final = list(
    dict.fromkeys(
        command.line
        for page in pages()
        for command in page.commands()
        if _is_run_here(page, command)
    )
)


def test_marked_commands_have_known_reason() -> None:
    reasons = {one.not_run for page in pages() for one in page.commands() if one.not_run}

    assert reasons <= _REASONS


def test_project_starts_as_consumer_starts_it() -> None:
    lines = {one.line for each in pages() for one in each.commands()}
    started = {one for one in lines if one.startswith("oncely init")}

    assert started <= {one.line for one in page("docs/adopt.md").commands()}


@pytest.fixture(scope="module")
def shell(
    deployment: StackClient, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, str]]:
    deployment.once(scenarios.successful_payment)
    scenarios.put_order(deployment, "7")
    deployment.send("PaymentsQueueUrl", scenarios.charge_message("7"))
    deployment.wait_for_job("payment.charge:order_7", "finished")
    folder = tmp_path_factory.mktemp("shell")
    (folder / "jobs.jsonl").write_text(json.dumps(scenarios.charge_message("18452")) + "\n")
    return folder, {
        **aws_environment(deployment.engine.url),
        **{_output_env_var(name): value for name, value in deployment.outputs.items()},
        "A_LONG_ONE": "Correct-Horse-Battery-7",
        "ONCELY_STACK": STACK_NAME,
        "PATH": os.environ["PATH"],
    }


@pytest.mark.parametrize("line", DOCUMENTED_COMMANDS)
def test_documented_command_runs_as_written(
    line: str, shell: tuple[Path, dict[str, str]], deployment: StackClient
) -> None:
    folder, environment = shell
    done = _run(_adapt_to_local_stack(line, deployment), folder, environment)
    assert done.returncode in _ANSWERS.get(line.split()[1], {0}), done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def _run(line: str, folder: Path, environment: dict[str, str]) -> CompletedProcess[str]:
    words = shlex.split(line)
    if words[0] in {"aws", "oncely"} and not set("|&;<>`*") & set(line) and "$(" not in line:
        given = [re.sub(r"\$(\w+)", lambda name: environment[name[1]], word) for word in words]
        if words[0] == "aws":
            # It does not read AWS_ENDPOINT_URL for SQS; on AWS there is no need to.
            given[1:1] = ["--endpoint-url", environment["AWS_ENDPOINT_URL"]]
        return run_command(given, env=environment, cwd=folder)
    return subprocess.run(
        ["/bin/sh", "-euc", line],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_documented_make_target_exists() -> None:
    named = {name for page in pages() for name in re.findall(r"`make ([a-z]+)\b", page.text)}
    told = subprocess.run(
        ["/usr/bin/env", "make", "help"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout

    assert named >= {"demo", "test", "deploy"}
    assert {name for name in named if f"  make {name} " not in told} == set()


def _adapt_to_local_stack(line: str, deployment: StackClient) -> str:
    """The same command, on this stack instead of the reader's, and without prompts."""
    first, second = line.split()[:2]
    # The keys of the sandbox: other tests use the stack as well.
    secrets = deployment.client("secretsmanager")
    for written, output in _API_KEYS.items():
        if written in line:
            stored = secrets.get_secret_value(SecretId=deployment.outputs[output])["SecretString"]
            line = line.replace(written, stored)
    line = re.sub(r"Oncely-(prod|dev)\b", STACK_NAME, line).replace(" --local", "")
    if first == "oncely" and second in _ASKING and "--yes" not in line:
        return f"{line} --yes"
    return line


def _output_env_var(output: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", output).upper()
