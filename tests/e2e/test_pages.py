"""Every command of README and docs runs as it is written, against the deployed stack."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

import pytest

from oncely_local.account import STACK_NAME
from tests.docs.pages import REPOSITORY, DocPage, pages
from tests.e2e import scenarios
from tests.e2e.deployed_stack import StackClient
from tests.support.forked_cli import run_command

pytestmark = pytest.mark.in_order

# Their own tests run these: a guide in a copy of the source, a stack that stays up, a new file.
_ELSEWHERE: Final = ("docs/add-a-job.md", "oncely demo", "oncely local", "oncely new-job")
# A repair that the job's state does not allow is answered so, and a look may find trouble. The
# deployed table is its own: there is nothing to restore, and the answer must say so.
_ANSWERS: Final = {
    **{name: {0, 4} for name in ("doctor", "reconcile", "archive")},
    "repair": {0, 1},
    "restore-proofs": {1},
}
_ASKING: Final = frozenset({"repair", "redrive", "restore-proofs"})


def commands(page: DocPage) -> Iterator[str]:
    for block in page.blocks():
        if block.language == "sh":
            lines = block.text.replace("\\\n", " ").splitlines()
            plain = (" ".join(line.partition(" # ")[0].split()) for line in lines)
            yield from (line for line in plain if line and not line.startswith("#"))


# Each once, in the order of the pages: one may build on another.
DOCUMENTED_COMMANDS: Final = list(
    dict.fromkeys(
        line
        for page in pages()
        if str(page) not in _ELSEWHERE
        for line in commands(page)
        if not line.startswith(_ELSEWHERE)
    )
)


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
        **deployment.engine.environment(),
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
        cwd=REPOSITORY if words[0] == "make" else folder,
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
    """The same command, on this stack instead of the reader's, and with nobody to ask."""
    first, second = line.split()[:2]
    secret = deployment.client("secretsmanager").get_secret_value(
        SecretId=deployment.outputs["StripeSecretArn"]
    )["SecretString"]
    line = line.replace("sk_live_…", secret)
    line = re.sub(r"Oncely-(prod|dev)\b", STACK_NAME, line)
    if first == "make":
        return line.replace("make ", "make --dry-run ", 1)
    if first == "oncely" and second in _ASKING and "--yes" not in line:
        return f"{line} --yes"
    return line


def _output_env_var(output: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", output).upper()
