"""A team's own tables, secrets, queues and archive: their KMS keys, and their columns."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from aws_cdk import App, Duration, Environment, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs

from oncely.contracts.settings import Settings
from oncely.jobs.payment_charge import PaymentCharge
from oncely_cdk import Oncely, OncelySettings, OncelyStack, StageError, read_stage_file
from oncely_cdk.stages import ExistingKeys
from tests.infra.assembly import CONTEXT, Assembly
from tests.infra.policies import permissions

ENVIRONMENT: Final = Environment(account="111122223333", region="eu-west-1")
COLUMNS: Final = {"order_id": "id", "amount": "total_cents"}
SETTINGS: Final = OncelySettings(name="dev", table_columns={"orders": COLUMNS})
WORKER: Final = "Jobs/PaymentsWorker/Worker"
STREAM: Final = "arn:aws:dynamodb:eu-west-1:111122223333:table/shop-jobs/stream/2026"
SECRET: Final = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:stripe-AbCdEf"


def key_arn(name: str) -> str:
    return f"arn:aws:kms:eu-west-1:111122223333:key/{name}"


def orders_table(stack: Stack, key: str = "id", **changes: Any) -> dynamodb.Table:  # noqa: ANN401  # of the CDK
    partition = dynamodb.Attribute(name=key, type=dynamodb.AttributeType.STRING)
    return dynamodb.Table(stack, "Orders", **{"partition_key": partition, **changes})


def synthesize(folder: Path, build: Any) -> Assembly:  # noqa: ANN401  # a function of a stack
    app = App(outdir=str(folder), context=CONTEXT, analytics_reporting=False)
    build(Stack(app, "Shop", env=ENVIRONMENT))
    app.synth()
    return Assembly(folder, "Shop")


def build_with_objects(stack: Stack) -> None:
    keys = {name: kms.Key(stack, f"{name}Key") for name in ("Table", "Secret", "Queue", "Bucket")}
    jobs = Oncely(
        stack,
        "Jobs",
        jobs=[PaymentCharge],
        settings=SETTINGS,
        tables={
            "orders": orders_table(
                stack,
                encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
                encryption_key=keys["Table"],
            )
        },
        secrets={"stripe": secretsmanager.Secret(stack, "Stripe", encryption_key=keys["Secret"])},
        queues={
            "payments": sqs.Queue(
                stack,
                "Payments",
                encryption_master_key=keys["Queue"],
                visibility_timeout=Duration.seconds(720),
            )
        },
        archive_bucket=s3.Bucket(stack, "Archive", encryption_key=keys["Bucket"], versioned=True),
    )
    site = lambda_.Function(
        stack,
        "Site",
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler="site.handler",
        code=lambda_.Code.from_inline("handler = print"),
    )
    jobs.grant_send(site)


def build_with_names(stack: Stack) -> None:
    settings = SETTINGS.model_copy(
        update={
            "existing_tables": {"jobs": "shop-jobs", "orders": "shop-orders"},
            "jobs_stream_arn": STREAM,
            "existing_secrets": {"stripe": SECRET},
            "read_only_secrets": {"stripe": f"{SECRET}R"},
            "existing_archive_bucket": "shop-archive",
            "existing_keys": ExistingKeys(
                tables={"jobs": key_arn("jobs"), "orders": key_arn("orders")},
                secrets={"stripe": key_arn("stripe")},
                read_only_secrets={"stripe": key_arn("reading")},
                archive_bucket=key_arn("archive"),
            ),
        }
    )
    Oncely(stack, "Jobs", jobs=[PaymentCharge], settings=settings)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesize(tmp_path_factory.mktemp("objects"), build_with_objects)


@pytest.fixture(scope="module")
def by_name(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesize(tmp_path_factory.mktemp("names"), build_with_names)


def key_rights(assembly: Assembly, key: str) -> dict[tuple[str, str], set[str]]:
    """The permissions on a key, by role and condition."""
    found: dict[tuple[str, str], set[str]] = {}
    for one in permissions(assembly):
        if one.resource == key and one.role != "Jobs/Alerts":
            actions = found.setdefault((one.role, one.condition), set())
            actions.add(one.action.removeprefix("kms:"))
    return found


def via(service: str) -> str:
    return f"kms:ViaService = {service}.eu-west-1.amazonaws.com"


READ: Final = {"Decrypt", "DescribeKey"}
WRITE: Final = {*READ, "Encrypt", "GenerateDataKey", "ReEncryptFrom", "ReEncryptTo"}
SEND: Final = {"Decrypt", "GenerateDataKey"}


def test_key_of_table_may_be_used_by_whoever_uses_the_table(shop: Assembly) -> None:
    condition = via("dynamodb")
    assert key_rights(shop, "TableKey") == {
        (WORKER, condition): WRITE,
        ("Jobs/Reconciler/Find", condition): READ,
        ("Jobs/Reconciler/Resolve", condition): WRITE,
        ("Jobs/AdminPage/Repair", condition): WRITE,
        ("Jobs/Policies/Operator", condition): WRITE,
    }


def test_key_of_secret_may_be_used_by_whoever_reads_it(shop: Assembly) -> None:
    condition = via("secretsmanager")
    roles = (WORKER, "Jobs/Reconciler/Resolve", "Jobs/AdminPage/Repair", "Jobs/Policies/Operator")
    assert key_rights(shop, "SecretKey") == {(role, condition): {"Decrypt"} for role in roles}


def test_key_of_queue_may_be_used_by_worker_and_senders(shop: Assembly) -> None:
    condition = via("sqs")
    senders = (
        *("Jobs/AdminPage/Repair", "Jobs/Reconciler/Resolve", "Jobs/Stream/Publish"),
        *("Jobs/Policies/Operator", "Jobs/Policies/PaymentsProducer", "Site/ServiceRole"),
    )
    assert key_rights(shop, "QueueKey") == {
        (WORKER, condition): {"Decrypt"},
        **{(role, condition): SEND for role in senders},
    }


def test_key_of_archive_may_be_used_by_readers_and_writers(shop: Assembly) -> None:
    condition = via("s3")
    found = key_rights(shop, "BucketKey")
    assert found[("Jobs/History/Write", condition)] == SEND
    assert found[("Jobs/Rejects/Archive", condition)] == SEND
    assert found[("Jobs/Policies/Reader", condition)] == {"Decrypt"}
    assert {condition for _, condition in found} == {via("s3")}


def test_keys_of_named_resources_come_from_the_settings(by_name: Assembly) -> None:
    found = {name: key_rights(by_name, key_arn(name)) for name in ("jobs", "orders", "archive")}

    assert found["orders"][(WORKER, via("dynamodb"))] == WRITE
    assert found["jobs"][(WORKER, via("dynamodb"))] == WRITE
    assert found["jobs"][("Jobs/History/Write", via("dynamodb"))] == READ, "it reads the stream"
    assert found["archive"][("Jobs/History/Write", via("s3"))] == SEND
    workers, readers = (key_rights(by_name, key_arn(name)) for name in ("stripe", "reading"))
    assert {role for role, _ in workers} == {WORKER}
    assert {role for role, _ in readers} == {
        *("Jobs/Reconciler/Resolve", "Jobs/AdminPage/Repair", "Jobs/Policies/Operator"),
    }
    assert {condition for _, condition in workers} == {via("secretsmanager")}


def test_given_archive_is_used_and_not_created(shop: Assembly, by_name: Assembly) -> None:
    assert set(shop.of_type("AWS::S3::Bucket")) == {"Archive"}
    assert not by_name.of_type("AWS::S3::Bucket")
    assert by_name.functions["Jobs/History/Write"].variables["ARCHIVE_BUCKET"] == "shop-archive"
    assert by_name.template["Outputs"]["ArchiveBucketName"]["Value"] == "shop-archive"


def test_functions_and_command_get_the_mapped_columns(shop: Assembly) -> None:
    with_orders = [one for one in shop.functions.values() if "ORDERS_TABLE" in one.variables]

    assert len(with_orders) > 2
    for function in with_orders:
        settings = Settings.from_env(function.variables, [PaymentCharge])
        assert settings.table_columns == {"orders": COLUMNS}
        assert settings.existing_tables == {"orders"}
    outputs = shop.template["Outputs"]
    assert json.loads(outputs["OrdersColumns"]["Value"]) == COLUMNS
    assert outputs["ExistingTables"]["Value"] == "orders"


def test_created_tables_need_no_mapping(prod: Assembly) -> None:
    variables = {name for one in prod.functions.values() for name in one.variables}
    assert not {name for name in variables if name.endswith("_COLUMNS")}
    assert "EXISTING_TABLES" not in variables
    assert "ExistingTables" not in prod.template["Outputs"]


REFUSED: Final[dict[str, dict[str, Any]]] = {
    "table_columns has orders, which is not an existing table": {"existing_tables": {}},
    "table_columns has customers, which is not an existing table": {
        "table_columns": {"customers": {"id": "x"}}
    },
    r"table_columns.orders: total is not a mappable column of orders \(these are: order_id": {
        "table_columns": {"orders": {"total": "x"}}
    },
    "table_columns.orders: amount and currency are both the column currency of the table": {
        "table_columns": {"orders": {"amount": "currency"}}
    },
    "existing_keys.tables has records, which the stack creates or no job uses": {
        "existing_keys": ExistingKeys(tables={"records": key_arn("a")})
    },
    "existing_keys.secrets has stripe, .* name yours as existing_secrets.stripe": {
        "existing_keys": ExistingKeys(secrets={"stripe": key_arn("a")})
    },
    "existing_keys.read_only_secrets has stripe, .* name yours as read_only_secrets.stripe": {
        "existing_keys": ExistingKeys(read_only_secrets={"stripe": key_arn("a")})
    },
    "existing_keys.archive_bucket is set, but the stack creates": {
        "existing_keys": ExistingKeys(archive_bucket=key_arn("a"))
    },
}


@pytest.mark.parametrize(("sentence", "settings"), REFUSED.items())
def test_setting_that_fits_no_resource_is_refused(sentence: str, settings: dict[str, Any]) -> None:
    update = {"existing_tables": {"orders": "shop-orders"}, **settings}

    with pytest.raises(StageError, match=sentence) as caught:
        OncelyStack(
            App(), "Shop", jobs=[PaymentCharge], settings=SETTINGS.model_copy(update=update)
        )

    assert "\n" not in str(caught.value)


def test_swapped_columns_are_accepted() -> None:
    swapped = {"amount": "currency", "currency": "amount"}
    update = {"existing_tables": {"orders": "x"}, "table_columns": {"orders": swapped}}
    OncelyStack(App(), "Shop", jobs=[PaymentCharge], settings=SETTINGS.model_copy(update=update))


@pytest.mark.parametrize(
    ("key", "kind", "sentence"),
    [
        ("order_id", "STRING", r"with the key order_id \(string\), but the jobs use id \(string\)"),
        ("id", "NUMBER", r"with the key id \(number\), but the jobs use id \(string\): map the"),
    ],
)
def test_table_with_another_key_is_refused(key: str, kind: str, sentence: str) -> None:
    stack = Stack(App(), "Shop")
    attribute = dynamodb.Attribute(name=key, type=dynamodb.AttributeType[kind])
    orders = orders_table(stack, partition_key=attribute)

    with pytest.raises(StageError, match=f"^tables has orders {sentence}"):
        Oncely(stack, "Jobs", jobs=[PaymentCharge], settings=SETTINGS, tables={"orders": orders})


def test_key_of_a_queue_that_only_the_template_knows_is_refused() -> None:
    stack = Stack(App(), "Shop")
    queue = sqs.Queue(stack, "Payments", visibility_timeout=Duration.seconds(720))
    queue.node.default_child.kms_master_key_id = "alias/shop"  # type: ignore[union-attr]  # a CfnQueue

    with pytest.raises(StageError, match="whose KMS key is known only to the template"):
        Oncely(
            stack,
            "Jobs",
            jobs=[PaymentCharge],
            settings=OncelySettings(name="dev"),
            queues={"payments": queue},
        )


def test_two_archive_buckets_are_refused() -> None:
    stack = Stack(App(), "Shop")
    bucket = s3.Bucket.from_bucket_name(stack, "Archive", "one")
    settings = OncelySettings(name="dev", existing_archive_bucket="another")

    with pytest.raises(StageError, match="and archive_bucket are both given: use one"):
        Oncely(stack, "Jobs", jobs=[PaymentCharge], settings=settings, archive_bucket=bucket)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[existing_keys]\nqueues = {a = "b"}', "unknown key existing_keys.queues; use one of"),
        (
            '[existing_keys.tables]\norders = "alias/shop"',
            "existing_keys.tables.orders: String should match pattern",
        ),
    ],
)
def test_wrong_key_in_file_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "dev.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(StageError, match=sentence):
        read_stage_file(file)


def test_file_has_columns_keys_and_job_settings(tmp_path: Path) -> None:
    file = tmp_path / "dev.toml"
    file.write_text(
        f"""
        [existing_tables]
        orders = "shop-orders"
        [table_columns.orders]
        amount = "total_cents"
        [existing_keys.tables]
        orders = "{key_arn("a")}"
        [job_settings]
        pages = 3
        """,
        encoding="utf-8",
    )
    settings = read_stage_file(file)
    assert settings.table_columns == {"orders": {"amount": "total_cents"}}
    assert settings.existing_keys.tables == {"orders": key_arn("a")}
    assert settings.job_settings == {"pages": "3"}
