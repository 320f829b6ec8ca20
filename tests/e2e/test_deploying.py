"""The CDK CLI deploys the stack, finds no changes, and destroys it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncely_cdk.paths import REPOSITORY
from oncely_cdk.stage_file import IDENTITY_OUTPUT
from oncely_cdk.stages import OncelySettings, StageIdentity
from oncely_local.account import STACK_NAME, LocalAccount
from oncely_local.cdk_cli import cdk_environment
from oncely_local.deploy import DeployError, bootstrap, deploy, run_cdk
from oncely_local.engine import Engine, aws_environment, start_engine
from oncely_local.project import local_project
from oncely_local.redeploy import ENGINE_LAYER, update_engine
from tests.e2e.deployed_stack import ENGINE_SETTINGS, synthesize

pytestmark = pytest.mark.in_order

PROVIDERS = "http://127.0.0.1:9"  # nothing runs here that would call them
MEMORY_MB = 768  # of no function before


@pytest.fixture(scope="module")
def account(assembly: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    log = tmp_path_factory.mktemp("account") / "engine.log"
    with start_engine(log, settings=ENGINE_SETTINGS) as engine:
        bootstrap(engine.url, assembly)
        deploy(engine.url, assembly, providers=PROVIDERS)
        yield engine


def list_resources(engine: Engine) -> dict[str, list[str]]:
    def named(service: str, operation: str, listed: str, name: str | None) -> list[str]:
        answer: dict[str, Any] = getattr(LocalAccount(engine.url).client(service), operation)()
        found = [one if name is None else one[name] for one in answer.get(listed, [])]
        return sorted(one for one in found if STACK_NAME.lower() in str(one).lower())

    return {
        "tables": named("dynamodb", "list_tables", "TableNames", None),
        "queues": named("sqs", "list_queues", "QueueUrls", None),
        "functions": named("lambda", "list_functions", "Functions", "FunctionName"),
        "layers": named("lambda", "list_layers", "Layers", "LayerName"),
        "mappings": named(
            "lambda", "list_event_source_mappings", "EventSourceMappings", "FunctionArn"
        ),
        "machines": named("stepfunctions", "list_state_machines", "stateMachines", "name"),
        "schedules": named("scheduler", "list_schedules", "Schedules", "Name"),
        "topics": named("sns", "list_topics", "Topics", "TopicArn"),
        "secrets": named("secretsmanager", "list_secrets", "SecretList", "Name"),
        "roles": named("iam", "list_roles", "Roles", "RoleName"),
        "log groups": named("logs", "describe_log_groups", "logGroups", "logGroupName"),
        "alarms": named("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
        "buckets": named("s3", "list_buckets", "Buckets", "Name"),
    }


def test_second_deployment_changes_nothing(account: Engine, assembly: Path) -> None:
    stacks = LocalAccount(account.url).client("cloudformation")
    before = stacks.describe_stacks(StackName=STACK_NAME)["Stacks"]

    deploy(account.url, assembly, providers=PROVIDERS)

    after = stacks.describe_stacks(StackName=STACK_NAME)["Stacks"]
    assert after == before


def test_diff_is_empty_after_deployment(account: Engine, assembly: Path) -> None:
    said = run_cdk(aws_environment(account.url), "diff", "--app", str(assembly), "--fail")
    assert "Number of stacks with differences: 0" in said


@pytest.mark.slow
def test_changed_identity_is_rolled_back_before_any_function_is_updated(
    account: Engine, tmp_path: Path
) -> None:
    found, before = deployed_identity(account), function_memory(account)
    changed = found.model_copy(update={"deployment": "0123456789abcdef"})
    synthesize(with_identity(changed), tmp_path)

    with pytest.raises(DeployError, match=f"deployment is {found.deployment}, but"):
        deploy(account.url, tmp_path, providers=PROVIDERS)

    assert function_memory(account) == before


def test_recorded_identity_is_deployed(account: Engine, tmp_path: Path) -> None:
    synthesize(with_identity(deployed_identity(account)), tmp_path)

    deploy(account.url, tmp_path, providers=PROVIDERS)

    assert MEMORY_MB in function_memory(account).values()


def deployed_identity(engine: Engine) -> StageIdentity:
    return StageIdentity.model_validate_json(LocalAccount(engine.url).outputs()[IDENTITY_OUTPUT])


def with_identity(identity: StageIdentity) -> OncelySettings:
    changes = {"identity": identity, "worker_memory_mb": MEMORY_MB}
    return local_project().settings.model_copy(update=changes)


def function_memory(engine: Engine) -> dict[str, int]:
    pages = LocalAccount(engine.url).client("lambda").get_paginator("list_functions").paginate()
    return {one["FunctionName"]: one["MemorySize"] for page in pages for one in page["Functions"]}


def test_redeployed_engine_runs_where_mappings_call(account: Engine) -> None:
    before = live_engines(account)
    assert len(before) == 1

    update_engine(LocalAccount(account.url))

    after = live_engines(account)
    assert len(after) == 1
    assert after != before
    delete_layers(account, after)  # CloudFormation does not know of them


def live_engines(engine: Engine) -> set[str]:
    """The engine's layers in the versions that mappings call."""
    functions = LocalAccount(engine.url).client("lambda")
    called = (
        functions.get_function_configuration(FunctionName=one["FunctionArn"])
        for one in functions.list_event_source_mappings()["EventSourceMappings"]
    )
    return {
        layer["Arn"] for one in called for layer in one["Layers"] if ENGINE_LAYER in layer["Arn"]
    }


def delete_layers(engine: Engine, arns: set[str]) -> None:
    functions = LocalAccount(engine.url).client("lambda")
    for arn in arns:
        *_, name, version = arn.split(":")
        functions.delete_layer_version(LayerName=name, VersionNumber=int(version))


def test_destroy_leaves_only_archive(account: Engine, assembly: Path) -> None:
    before = list_resources(account)
    assert all(before.values()), [name for name, found in before.items() if not found]
    run_cdk(aws_environment(account.url), "destroy", "--app", str(assembly), "--force")
    after = list_resources(account)
    assert {name: found for name, found in after.items() if found} == {"buckets": before["buckets"]}


def test_deploy_names_bootstrap_command_when_not_bootstrapped(
    assembly: Path, tmp_path: Path
) -> None:
    with start_engine(tmp_path / "engine.log") as engine:
        variables = cdk_environment(aws_environment(engine.url))
        # Users and the CDK use AWS_REGION.
        del variables["AWS_DEFAULT_REGION"]
        done = subprocess.run(
            [sys.executable, "-m", "oncely_local.cdk_cli", "deploy", "--app", str(assembly)],
            cwd=REPOSITORY,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode != 0
    assert "not bootstrapped" in done.stderr
    # The CDK by itself would not find the `python` of .venv, and could not synthesize.
    assert ".venv/bin/python -m oncely_local.cdk_cli bootstrap" in done.stderr
