"""The stack follows the contracts and the stage: new contracts, existing tables."""

import json
from pathlib import Path

import pytest
from aws_cdk import App, Environment, Validations
from cdk_nag import AwsSolutionsChecks

from oncely.contract import AnyContract, Resources
from oncely.jobs import CONTRACTS
from oncely.jobs.payment_charge import PaymentCharge
from oncely_cdk.paths import REPOSITORY
from oncely_cdk.stack import OncelyStack
from oncely_cdk.stages import Stage, StageError
from tests.infra.assembly import PROD, Assembly
from tests.infra.policies import Permission, permissions

# As for `cdk deploy`: the CDK's output depends on its feature flags.
FLAGS = json.loads((REPOSITORY / "cdk.json").read_text(encoding="utf-8"))["context"]
PATHS = {"aws:cdk:enable-path-metadata": True}


class PayInvoice(PaymentCharge):
    """A job of another team: its own queue, a table that we do not know, a key of its own."""

    job_type = "invoice.pay"
    resources = Resources(
        queue="invoices", tables=("invoices",), secrets=("ledger",), sends_to=("payments",)
    )


def synthesize_stack(
    folder: Path,
    *more: type[AnyContract],
    stage: str = "dev",
    account: str | None = None,
    **context: str,
) -> Assembly:
    contracts = (*CONTRACTS, *more)
    app = App(outdir=str(folder), context={**FLAGS, **PATHS}, analytics_reporting=False)
    settings = Stage.from_context({"stage": stage, **context}, contracts)
    env = Environment(account=account, region="eu-west-1") if account else None
    OncelyStack(app, f"Oncely-{stage}", stage=settings, contracts=contracts, env=env)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
    return Assembly(folder, f"Oncely-{stage}")


READING = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:stripe-reading-d4e5f6"


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesize_stack(
        tmp_path_factory.mktemp("derived"),
        PayInvoice,
        invoices_table="their-invoices",
        orders_table="shop-orders",
        jobs_table="restored-jobs",
        jobs_stream_arn="arn:aws:dynamodb:eu-west-1:123456789012:table/restored-jobs/stream/2026",
        stripe_secret_arn="arn:aws:secretsmanager:eu-west-1:123456789012:secret:stripe-a1b2c3",
        stripe_read_only_secret_arn=READING,
        invoices_worker_concurrency="3",
    )


def test_new_contract_gets_queue_worker_variables_and_secret(derived: Assembly) -> None:
    worker = derived.functions["InvoicesWorker/Worker"]

    assert "InvoicesQueueUrl" in derived.template["Outputs"]
    assert worker.variables["QUEUE_NAME"] == "invoices"
    assert worker.variables["INVOICES_TABLE"] == "their-invoices"
    assert set(worker.variables) >= {"LEDGER_SECRET", "PAYMENTS_QUEUE_URL"}
    assert "ProviderSecrets/Ledger" in derived.of_type("AWS::SecretsManager::Secret")


def test_new_contract_gets_permissions_and_concurrency_limit(derived: Assembly) -> None:
    granted = permissions(derived)
    mappings = derived.properties("AWS::Lambda::EventSourceMapping")

    role = "InvoicesWorker/Worker"
    assert Permission(role, "sqs:SendMessage", "Queues/Payments") in granted
    assert Permission(role, "secretsmanager:GetSecretValue", "ProviderSecrets/Ledger") in granted
    assert any(one.resource.endswith("table/their-invoices") for one in granted if one.role == role)
    assert mappings[f"{role}/Function/Messages"]["ScalingConfig"] == {"MaximumConcurrency": 3}


@pytest.mark.parametrize("asking", ["Reconciler/Resolve", "AdminPage/Repair"])
def test_lookup_functions_can_use_read_only_api_key(derived: Assembly, asking: str) -> None:
    granted = {one.resource for one in permissions(derived) if one.role == asking}

    assert derived.functions[asking].variables["STRIPE_SECRET"] == READING
    assert derived.functions["PaymentsWorker/Worker"].variables["STRIPE_SECRET"] != READING
    assert any(resource.endswith("stripe-reading-d4e5f6") for resource in granted)
    assert not any(resource.endswith("stripe-a1b2c3") for resource in granted)


def test_existing_resources_are_used_instead_of_created(derived: Assembly) -> None:
    worker = derived.functions["PaymentsWorker/Worker"]
    stream = derived.properties("AWS::Lambda::EventSourceMapping")["Stream/Publish/Stream"]

    assert set(derived.of_type("AWS::DynamoDB::Table")) == {"Tables/Records", "Tables/ImportEvents"}
    assert "ProviderSecrets/Stripe" not in derived.of_type("AWS::SecretsManager::Secret")
    assert worker.variables["ORDERS_TABLE"] == "shop-orders"
    assert worker.variables["STRIPE_SECRET"].endswith("stripe-a1b2c3")
    assert stream["EventSourceArn"].endswith("restored-jobs/stream/2026")


def test_external_table_and_mail_are_granted_when_account_is_known(tmp_path: Path) -> None:
    known = synthesize_stack(
        tmp_path,
        PayInvoice,
        account="123456789012",
        invoices_table="their-invoices",
        ses_sender_address="receipts@example.com",
    )

    granted = permissions(known)
    indexes = "arn:aws:dynamodb:eu-west-1:123456789012:table/their-invoices/index/*"
    assert Permission("Reconciler/Find", "dynamodb:Query", indexes) in granted
    assert {one.resource for one in granted if one.action == "ses:SendEmail"} == {
        "arn:aws:ses:eu-west-1:123456789012:identity/*",
        "arn:aws:ses:eu-west-1:123456789012:configuration-set/*",
    }


@pytest.mark.parametrize(
    ("contract", "context", "sentence"),
    [
        (PayInvoice, {}, "requires the table 'invoices', which has no schema"),
        (PaymentCharge, {"jobs_table": "x"}, "an existing job table needs the ARN of its stream"),
    ],
)
def test_missing_stage_information_is_reported(
    tmp_path: Path, contract: type[AnyContract], context: dict[str, str], sentence: str
) -> None:
    more = () if contract is PaymentCharge else (contract,)
    with pytest.raises(StageError, match=sentence):
        synthesize_stack(tmp_path, *more, **context)


def test_dev_stack_retains_only_archive(tmp_path: Path) -> None:
    dev = synthesize_stack(tmp_path)
    kept = {
        dev.path(id_)
        for id_, resource in dev.resources.items()
        if resource.get("DeletionPolicy", "Delete") != "Delete"
    }

    assert kept == {"Archive/Bucket"}


def test_same_inputs_give_same_template(prod: Assembly, tmp_path: Path) -> None:
    again = Assembly.from_folder(tmp_path, **PROD)

    assert again.template == prod.template
