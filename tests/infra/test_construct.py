"""The `Oncely` construct in a team's own stack, with the team's job, resources and code."""

import json
import zipfile
from collections.abc import Iterator
from typing import Any, Final

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager

from oncely import OncelyError
from oncely.aws.code_stamp import STAMP_FILE
from oncely.core.table_guard import IDENTITY_KEY
from oncely_cdk import Oncely, OncelySettings, OncelyStack, StageError, function_code, layers
from oncely_cdk.layers import JOB_PACKAGES, ON_LAMBDA, layers_for
from tests.infra.assembly import CONTEXT, Assembly
from tests.infra.other_teams import VOUCHERS, own_package
from tests.infra.policies import Permission, permissions

STACK: Final = "Shop"
# Without a job that takes money, there is nothing to audit.
SETTINGS: Final = OncelySettings(name="dev", daily_payment_audit=True)
PINS: Final = "voucher-sdk==1.0 --hash=sha256:0\n"


@pytest.fixture(scope="module")
def vouchers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with own_package(tmp_path_factory.mktemp("shop"), "shop_jobs", VOUCHERS) as module:
        yield module


def customers(stack: Stack) -> dynamodb.Table:
    key = dynamodb.Attribute(name="customer_id", type=dynamodb.AttributeType.STRING)
    return dynamodb.Table(stack, "Customers", partition_key=key)


@pytest.fixture(scope="module")
def shop(vouchers: Any, tmp_path_factory: pytest.TempPathFactory) -> Assembly:  # noqa: ANN401  # a module
    folder = tmp_path_factory.mktemp("assembly")
    pins = tmp_path_factory.mktemp("pins") / "requirements-jobs.txt"
    pins.write_text(PINS, encoding="utf-8")
    for target in layers.TARGETS.values():
        zipfile.ZipFile(layers_for(target, jobs=pins)[JOB_PACKAGES].archive, "w").close()
    app = App(outdir=str(folder), context=CONTEXT, analytics_reporting=False)
    stack = Stack(app, STACK)
    jobs = Oncely(
        stack,
        "Jobs",
        jobs=[vouchers.VoucherIssue],
        settings=SETTINGS,
        tables={"customers": customers(stack)},
        secrets={"voucher_api": secretsmanager.Secret(stack, "VoucherKey")},
        environment={"VOUCHER_CURRENCY": "EUR"},
        requirements=pins,
    )
    site = lambda_.Function(
        stack,
        "Site",
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler="site.handler",
        code=lambda_.Code.from_inline("handler = print"),
    )
    jobs.grant_send(site)
    bucket = dynamodb.Table.from_table_name(stack, "Audit", "audit")
    bucket.grant_write_data(jobs.worker("vouchers"))
    app.synth()
    return Assembly(folder, STACK)


def test_worker_has_the_teams_resources_variables_and_job(shop: Assembly) -> None:
    worker = shop.functions["Jobs/VouchersWorker/Worker"]

    assert worker.variables["ONCELY_JOBS"] == "shop_jobs.jobs:VoucherIssue"
    assert worker.variables["CUSTOMERS_TABLE"] == "the Ref of CUSTOMERS_TABLE"
    assert worker.variables["VOUCHER_CURRENCY"] == "EUR"
    own = {"Jobs/Tables/Jobs", "Jobs/Tables/Gates"}
    assert set(shop.of_type("AWS::DynamoDB::Table")) == {"Customers", *own}
    secrets = shop.of_type("AWS::SecretsManager::Secret")
    assert not [path for path in secrets if path.startswith("Jobs/ProviderSecrets")]
    granted = permissions(shop)
    role = "Jobs/VouchersWorker/Worker"
    assert Permission(role, "dynamodb:GetItem", "Customers") in granted
    assert Permission(role, "secretsmanager:GetSecretValue", "VoucherKey") in granted


def test_own_variables_and_packages_are_only_where_jobs_are_imported(shop: Assembly) -> None:
    with_jobs = {name for name, one in shop.functions.items() if "ONCELY_JOBS" in one.variables}

    assert "Jobs/Reconciler/Resolve" in with_jobs
    assert "Jobs/Reconciler/Finish" not in with_jobs
    for name, function in shop.functions.items():
        assert ("VOUCHER_CURRENCY" in function.variables) == (name in with_jobs)
        assert ("jobs" in function.layers) == (name in with_jobs)


def test_only_used_layers_are_in_the_stack(shop: Assembly) -> None:
    found = set(shop.of_type("AWS::Lambda::LayerVersion"))

    assert found == {f"Jobs/Layers/{name}" for name in ("Engine", "Jobs", "Runtime")}


def test_code_is_the_teams_package_alone(shop: Assembly) -> None:
    folder = shop.functions["Jobs/VouchersWorker/Worker"].folder

    assert {path.name for path in folder.iterdir()} == {"shop_jobs", STAMP_FILE}
    assert (folder / "shop_jobs" / "jobs.py").is_file()
    assert sum(file.stat().st_size for file in folder.rglob("*.py")) < 10_000


def test_outputs_have_the_names_that_tools_read(shop: Assembly) -> None:
    assert shop.template["Outputs"].keys() >= {"JobsTableName", "VouchersQueueUrl", "AdminUrl"}


def test_producer_gets_rights_and_variables(shop: Assembly) -> None:
    granted = {one for one in permissions(shop) if one.role == "Site/ServiceRole"}
    environment = shop.properties("AWS::Lambda::Function")["Site"]["Environment"]["Variables"]

    assert set(environment) == {"JOBS_TABLE", "VOUCHERS_QUEUE_URL"}
    assert {one.action for one in granted} == {
        *("dynamodb:PartiQLInsert", "dynamodb:GetItem", "dynamodb:PartiQLUpdate"),
        "sqs:SendMessage",
    }
    assert all(one.leading_keys for one in granted if one.action.startswith("dynamodb:"))


def test_functions_that_look_up_write_only_that_a_lookup_is_proved(shop: Assembly) -> None:
    """Without a job type that demands it, none of them may write the identity item."""
    writers = {
        one.role: one.attributes
        for one in permissions(shop)
        if one.action == "dynamodb:UpdateItem" and one.leading_keys == (IDENTITY_KEY,)
    }

    roles = ("VouchersWorker/Worker", "Reconciler/Resolve", "AdminPage/Repair")
    attributes = ("job_key", "lookup:voucher.issue")
    assert writers == {f"Jobs/{role}": attributes for role in roles}


def test_worker_can_be_granted_more(shop: Assembly) -> None:
    role = "Jobs/VouchersWorker/Worker"

    assert any(
        one.role == role and one.action == "dynamodb:PutItem" and one.resource.endswith("/audit")
        for one in permissions(shop)
    )


def import_secret(stack: Stack) -> secretsmanager.ISecret:
    return secretsmanager.Secret.from_secret_name_v2(stack, "Imported", "voucher-key")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tables": {"custmers": "customers"}}, "tables has custmers, which no job uses; did you"),
        ({"tables": {"jobs": "customers"}}, "tables has a job table without a stream"),
        ({"secrets": {"voucher": "secret"}}, "secrets has voucher, which no job uses; did you m"),
        ({"secrets": {"voucher_api": "secret"}}, "without the suffix of its ARN"),
        ({"environment": {"JOBS_TABLE": "x"}}, "environment sets JOBS_TABLE, which Oncely sets"),
        ({"environment": {"VOUCHER_API_SECRET": "x"}}, "environment sets VOUCHER_API_SECRET"),
        ({"tables": {}}, "requires the table 'customers', which has no schema"),
    ],
)
def test_wrong_argument_gets_one_sentence(
    vouchers: Any,  # noqa: ANN401  # a module
    arguments: dict[str, dict[str, str]],
    sentence: str,
) -> None:
    stack = Stack(App(), STACK)
    made: dict[str, Any] = {"customers": customers(stack), "secret": import_secret(stack)}
    given: dict[str, Any] = {
        name: {key: made.get(value, value) for key, value in group.items()}
        for name, group in {"tables": {"customers": "customers"}, **arguments}.items()
    }

    with pytest.raises(StageError, match=sentence) as caught:
        Oncely(stack, "Jobs", jobs=[vouchers.VoucherIssue], settings=SETTINGS, **given)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"existing_tables": {"custmers": "x"}}, "existing_tables has custmers, which no job uses"),
        ({"read_only_secrets": {"stripe": "x"}}, "read_only_secrets has stripe, which no job uses"),
        (
            {"queue_worker_concurrency": {"mail": 5}},
            "has mail, which no job uses; use one of vouchers",
        ),
        (
            {"provider_settings": {"ses_sender_address": "x"}},
            "provider_settings has ses_sender",
        ),
    ],
)
def test_setting_that_no_job_uses_is_refused(
    vouchers: Any,  # noqa: ANN401  # a module
    settings: dict[str, Any],
    sentence: str,
) -> None:
    with pytest.raises(StageError, match=sentence) as caught:
        OncelyStack(
            App(),
            STACK,
            jobs=[vouchers.VoucherIssue],
            settings=OncelySettings(name="dev", **settings),
        )

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("stage", ["dev", "local"])
def test_second_construct_in_a_stack_is_refused(
    vouchers: Any,  # noqa: ANN401  # a module
    stage: str,
) -> None:
    jobs = [vouchers.VoucherIssue]
    settings = OncelySettings(name=stage, existing_tables={"customers": "customers"})
    stack = OncelyStack(App(), STACK, jobs=jobs, settings=settings)

    with pytest.raises(StageError, match="Shop has two Oncely constructs"):
        Oncely(stack, "More", jobs=jobs, settings=settings)
    with pytest.raises(StageError, match="no job uses the queue 'refunds'; the jobs use vouchers"):
        stack.worker("refunds")


def test_provider_layer_without_pins_is_refused(
    vouchers: Any,  # noqa: ANN401  # a module
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vouchers.VoucherProvider, "layer", "acme")
    stack = Stack(App(), STACK)

    with pytest.raises(StageError, match="no pins for the layer acme"):
        Oncely(
            stack,
            "Jobs",
            jobs=[vouchers.VoucherIssue],
            settings=SETTINGS,
            tables={"customers": customers(stack)},
        )


def test_more_layers_than_lambda_allows_are_refused(
    vouchers: Any,  # noqa: ANN401  # a module
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(function_code, "MAX_LAYERS", 1)
    settings = SETTINGS.model_copy(update={"existing_tables": {"customers": "customers"}})

    with pytest.raises(StageError, match="needs the layers runtime, engine, but Lambda allows 1"):
        OncelyStack(App(), STACK, jobs=[vouchers.VoucherIssue], settings=settings)


def test_object_that_is_no_job_is_refused() -> None:
    wrong: Any = json
    with pytest.raises(OncelyError, match="is not a job: use a subclass of oncely"):
        OncelyStack(App(), STACK, jobs=[wrong], settings=SETTINGS)


def test_name_of_the_stage_sets_its_defaults() -> None:
    prod = OncelySettings(name="prod", log_retention_days=7)

    assert (prod.retain_data, prod.requires_mfa, prod.log_retention_days) == (True, True, 7)
    assert layers.JOB_PACKAGES not in layers_for(ON_LAMBDA)
