"""How the command selects a stack, and what it prints if it cannot reach one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ProfileNotFound,
    SSOTokenLoadError,
)
from botocore.stub import Stubber

from oncely.app import App
from oncely.cli import local_stack
from oncely.cli.errors import describe_aws_error
from oncely.cli.local_stack import STATE_FILE, LocalState
from oncely.cli.stack_connection import StackConnection, StackSelector
from oncely_local.engine import REPOSITORY
from tests.support.cli import FakeStackConnection, run_cli, selector_for

NO_PROFILE = {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
NO_SECRET = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}


def run_python(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {"PYTHONPATH": f"{REPOSITORY}/functions", "PATH": "/usr/bin:/bin", **variables}
    return subprocess.run(
        [sys.executable, *words], env=env, capture_output=True, text=True, check=False
    )


def test_options_select_stack() -> None:
    given = selector_for("list", "--stack", "Mine", "--profile", "p", "--region", "eu-west-1")
    assert given == StackSelector(stack="Mine", profile="p", region="eu-west-1", local=False)


def test_environment_selects_stack_without_option(monkeypatch: pytest.MonkeyPatch) -> None:
    assert selector_for("list").stack is None
    monkeypatch.setenv("ONCELY_STACK", "Oncely-prod")
    assert selector_for("list").stack == "Oncely-prod"


def client_error(code: str, message: str = "AWS error text") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "DescribeStacks")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (NoCredentialsError(), "You are not signed in to AWS. Run `aws sso login`"),
        (SSOTokenLoadError(error_msg="gone"), "You are not signed in to AWS"),
        (NoRegionError(), "No AWS region is set. Pass --region or set AWS_REGION."),
        (ProfileNotFound(profile="x"), "List profiles with `aws configure list-profiles`."),
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:1"), "Cannot reach AWS"),
        (client_error("ExpiredToken"), "Your AWS session has expired. Run"),
        (client_error("ExpiredTokenException"), "Your AWS session has expired"),
        (client_error("InvalidClientTokenId"), "AWS rejected your credentials"),
        (client_error("AccessDeniedException", "not allowed: x"), "Access denied: not allow"),
        (client_error("ThrottlingException"), "AWS rejected DescribeStacks (ThrottlingException)"),
        (BotoCoreError(), "The AWS request failed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_aws_error_is_one_sentence(error: ClientError | BotoCoreError, message: str) -> None:
    assert message in str(describe_aws_error(error))

    class Broken(FakeStackConnection):
        @property
        def app(self) -> App:
            raise error

    result = run_cli("list", connection=Broken())

    assert result.exit_code == 3
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


def test_missing_provider_sdk_says_how_to_install_it() -> None:
    class WithoutStripe(FakeStackConnection):
        @property
        def app(self) -> App:
            raise ModuleNotFoundError("No module named 'stripe'", name="stripe")

    result = run_cli("list", connection=WithoutStripe())

    assert result.exit_code == 3
    assert "Package stripe is not installed" in result.stderr
    assert '".[command,acme]"' in result.stderr


def test_missing_stack_says_how_to_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    client = boto3.client(
        "cloudformation", "eu-west-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setattr(StackConnection, "client", lambda _self, _service: client)

    with Stubber(client) as stub:
        missing = "Stack with id Oncely-dev does not exist"
        stub.add_client_error("describe_stacks", "ValidationError", missing)
        result = run_cli("find", "18452", "--region", "eu-west-1")

    assert result.exit_code == 3
    assert "Stack Oncely-dev not found in eu-west-1. Name yours with --stack" in result.stderr


@pytest.mark.parametrize(
    ("where", "options"),
    [
        (StackSelector(), ""),
        (StackSelector(stack="Oncely-prod"), " --stack Oncely-prod"),
        (StackSelector(profile="shop", region="eu-west-1"), " --profile shop --region eu-west-1"),
    ],
)
def test_stack_knows_options_for_printed_commands(
    monkeypatch: pytest.MonkeyPatch, where: StackSelector, options: str
) -> None:
    monkeypatch.delenv("ONCELY_STACK", raising=False)
    assert StackConnection(where).cli_options == options
    monkeypatch.setenv("ONCELY_STACK", "Oncely-prod")
    assert StackConnection(StackSelector(stack="Oncely-prod")).cli_options == ""


def test_missing_credentials_are_reported_without_traceback() -> None:
    nowhere = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "eu-west-1", **NO_PROFILE}
    done = run_python("-m", "oncely.cli", "find", "18452", **nowhere, **NO_SECRET)

    assert done.returncode == 3
    assert done.stderr.startswith("You are not signed in to AWS")
    assert "Traceback" not in done.stderr


PROJECT = """
[tool.oncely]
jobs = ["oncely.jobs.shipped:SHIPPED_JOBS"]
stack = "Shop-dev"
"""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("infra/oncely_cdk", "functions/oncely", str(STATE_FILE.parent)):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_local_stack_is_found_by_state_file_in_clone(clone: Path) -> None:
    (clone / STATE_FILE).write_text(json.dumps({"endpoint": "http://127.0.0.1:4599"}))
    state = LocalState.read()
    assert state.boto3_env()["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4599"
    assert state.stack == "Oncely-local"


# The last one names a process that was killed.
@pytest.mark.parametrize(
    "left", [None, "", "[]", "{}", '{"endpoint": "http://127.0.0.1:1", "pid": 4194305}']
)
def test_missing_local_stack_says_how_to_start_one(clone: Path, left: str | None) -> None:
    if left is not None:
        (clone / STATE_FILE).write_text(left)

    result = run_cli("list", "--local")

    assert result.exit_code == 3
    assert "Start one with `oncely local`" in result.stderr


@pytest.mark.parametrize("what", ["demo", "local"])
def test_clone_commands_are_passed_on_with_their_options(clone: Path, what: str) -> None:
    package = clone / "infra" / "oncely_local"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import pathlib, sys; pathlib.Path('words').write_text(' '.join(sys.argv[1:])); sys.exit(7)"
    )

    assert run_cli(what, "--jobs", "5", "more", "--help").exit_code == 7
    assert (clone / "words").read_text() == f"{what} --jobs 5 more --help"


def test_project_of_a_team_has_its_own_local_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    roots = (str(REPOSITORY / name) for name in ("functions", "infra"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(roots))
    (tmp_path / "tests").mkdir()
    monkeypatch.chdir(tmp_path / "tests")

    assert run_cli("local", "redeploy").exit_code == 1
    assert "No local stack is running. Start one with `oncely local`." in capfd.readouterr().err


def test_missing_extras_of_the_local_stack_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local_stack, "_PACKAGES", ("no_such_package",))

    result = run_cli("demo")

    assert result.exit_code == 1
    assert 'pip install "oncely[cdk,testing]"' in result.stderr


def test_project_names_the_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONCELY_STACK", raising=False)

    project, other = (StackConnection(StackSelector(stack=one)) for one in (None, "Shop-prod"))

    assert (project.name, project.cli_options) == ("Shop-dev", "")
    assert (other.name, other.cli_options) == ("Shop-prod", " --stack Shop-prod")


def test_help_lists_commands_and_exit_codes() -> None:
    result = run_cli("--help", COLUMNS="200")
    assert result.exit_code == 0
    for word in ("find", "show", "list", "repair", "redrive", "doctor", "new-job", "Exit codes"):
        assert word in result.stdout


def test_help_loads_no_sdk() -> None:
    heavy = "{'boto3', 'botocore', 'pydantic', 'oncely.jobs', 'stripe'}"
    look = f"import sys, oncely.cli.main; print(sorted({heavy} & set(sys.modules)))"
    assert run_python("-c", look).stdout == "[]\n"


def test_shell_completes_commands_and_job_types() -> None:
    def completed(typed: str) -> str:
        return run_cli(
            _ONCELY_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(typed.count(" "))
        ).stdout

    assert "reconcile" in completed("oncely rec")
    assert "payment.charge" in completed("oncely contracts pay")
    assert "needs_review" in completed("oncely list --status nee")
