"""The stack follows the contracts and the stage: new contracts, existing tables."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Environment, Validations
from cdk_nag import AwsSolutionsChecks

from oncely.contracts.job import AnyJob
from oncely.core.errors import OncelyError
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely_cdk.paths import REPOSITORY
from oncely_cdk.stack import OncelyStack
from oncely_cdk.stages import OncelySettings, StageError
from tests.infra.assembly import CONTEXT, PROD, Assembly
from tests.infra.other_teams import INVOICES, own_package
from tests.infra.policies import Permission, permissions

# As for `cdk deploy`: the CDK's output depends on its feature flags.
FLAGS = json.loads((REPOSITORY / "cdk.json").read_text(encoding="utf-8"))["context"]


@pytest.fixture(scope="module")
def invoice_job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[type[AnyJob]]:
    """A job of another team."""
    with own_package(tmp_path_factory.mktemp("invoices"), "invoice_jobs", INVOICES) as module:
        yield module.PayInvoice


def synthesize_stack(
    folder: Path,
    *more: type[AnyJob],
    stage: str = "dev",
    account: str | None = None,
    **values: Any,  # noqa: ANN401  # settings
) -> Assembly:
    contracts = (*SHIPPED_JOBS, *more)
    app = App(outdir=str(folder), context={**FLAGS, **CONTEXT}, analytics_reporting=False)
    settings = OncelySettings(name=stage, **values)
    env = Environment(account=account, region="eu-west-1") if account else None
    OncelyStack(app, f"Oncely-{stage}", jobs=contracts, settings=settings, env=env)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
    return Assembly(folder, f"Oncely-{stage}")


READING = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:stripe-reading-d4e5f6"


@pytest.fixture(scope="module")
def derived(invoice_job: type[AnyJob], tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesize_stack(
        tmp_path_factory.mktemp("derived"),
        invoice_job,
        existing_tables={
            "invoices": "their-invoices",
            "jobs": "restored-jobs",
            "orders": "shop-orders",
        },
        jobs_stream_arn="arn:aws:dynamodb:eu-west-1:123456789012:table/restored-jobs/stream/2026",
        existing_secrets={
            "stripe": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:stripe-a1b2c3"
        },
        read_only_secrets={"stripe": READING},
        second_operator_above="eur:50000,usd:60000",
        queue_worker_concurrency={"invoices": 3},
    )


def test_new_contract_gets_queue_worker_variables_and_secret(derived: Assembly) -> None:
    worker = derived.functions["InvoicesWorker/Worker"]

    assert "InvoicesQueueUrl" in derived.template["Outputs"]
    assert worker.variables["QUEUE_NAME"] == "invoices"
    assert worker.variables["ONCELY_JOBS"] == "invoice_jobs.jobs:PayInvoice"
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
    assert mappings[f"{role}/Live/Messages"]["ScalingConfig"] == {"MaximumConcurrency": 3}


@pytest.mark.parametrize("asking", ["Reconciler/Resolve", "AdminPage/Repair"])
def test_lookup_functions_can_use_read_only_api_key(derived: Assembly, asking: str) -> None:
    granted = {one.resource for one in permissions(derived) if one.role == asking}

    assert derived.functions[asking].variables["STRIPE_SECRET"] == READING
    assert derived.functions["PaymentsWorker/Worker"].variables["STRIPE_SECRET"] != READING
    assert any(resource.endswith("stripe-reading-d4e5f6") for resource in granted)
    assert not any(resource.endswith("stripe-a1b2c3") for resource in granted)


def test_operator_reads_only_read_only_api_key(derived: Assembly) -> None:
    read = {
        one.resource
        for one in permissions(derived)
        if (one.role, one.action) == ("Policies/Operator", "secretsmanager:GetSecretValue")
    }

    assert READING in read
    assert not any("stripe-a1b2c3" in resource for resource in read)
    assert derived.template["Outputs"]["StripeReadOnlySecretArn"]["Value"] == READING


def test_repairs_on_page_and_command_line_know_second_operator(derived: Assembly) -> None:
    outputs = {name: one["Value"] for name, one in derived.template["Outputs"].items()}
    page = derived.functions["AdminPage/Repair"].variables
    assert page["SECOND_OPERATOR_ABOVE"] == outputs["SecondOperatorAbove"] == "eur:50000,usd:60000"


def test_existing_resources_are_used_instead_of_created(derived: Assembly) -> None:
    worker = derived.functions["PaymentsWorker/Worker"]
    stream = derived.properties("AWS::Lambda::EventSourceMapping")["Stream/Publish/Stream"]

    assert set(derived.of_type("AWS::DynamoDB::Table")) == {
        *("Tables/Records", "Tables/ImportEvents", "Tables/RefundRequests", "Tables/Refunds"),
        "Tables/Gates",
    }
    assert "ProviderSecrets/Stripe" not in derived.of_type("AWS::SecretsManager::Secret")
    assert worker.variables["ORDERS_TABLE"] == "shop-orders"
    assert worker.variables["STRIPE_SECRET"].endswith("stripe-a1b2c3")
    assert stream["EventSourceArn"].endswith("restored-jobs/stream/2026")


def test_external_table_and_mail_are_granted_when_account_is_known(
    invoice_job: type[AnyJob], tmp_path: Path
) -> None:
    known = synthesize_stack(
        tmp_path,
        invoice_job,
        account="123456789012",
        existing_tables={"invoices": "their-invoices"},
        provider_settings={"ses_sender_address": "receipts@example.com"},
    )

    granted = permissions(known)
    indexes = "arn:aws:dynamodb:eu-west-1:123456789012:table/their-invoices/index/*"
    assert Permission("Reconciler/Find", "dynamodb:Query", indexes) in granted
    assert {one.resource for one in granted if one.action == "ses:SendEmail"} == {
        "arn:aws:ses:eu-west-1:123456789012:identity/*",
        "arn:aws:ses:eu-west-1:123456789012:configuration-set/SesResources/ConfigurationSet",
    }


def test_table_without_schema_is_reported(invoice_job: type[AnyJob], tmp_path: Path) -> None:
    with pytest.raises(StageError, match="requires the table 'invoices', which has no schema"):
        synthesize_stack(tmp_path, invoice_job)


def test_existing_job_table_without_stream_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"existing_tables\.jobs needs the ARN"):
        synthesize_stack(tmp_path, existing_tables={"jobs": "x"})


@pytest.mark.parametrize(
    ("contract", "sentence"),
    [
        (PaymentCharge, "job PaymentCharge: payment.charge is registered twice"),
        (type("NoModule", (PaymentCharge,), {}), "NoModule' cannot be imported by its name"),
    ],
)
def test_wrong_list_of_jobs_is_reported(
    tmp_path: Path, contract: type[AnyJob], sentence: str
) -> None:
    with pytest.raises(OncelyError, match=sentence):
        synthesize_stack(tmp_path, contract)


def test_dev_stack_retains_only_archive(tmp_path: Path) -> None:
    dev = synthesize_stack(tmp_path)
    kept = {
        dev.path(id_)
        for id_, resource in dev.resources.items()
        if resource.get("DeletionPolicy", "Delete") != "Delete"
    }

    assert kept == {"Archive/Bucket"}


def test_same_inputs_give_same_template(prod: Assembly, tmp_path: Path) -> None:
    again = Assembly.from_folder(tmp_path, PROD)

    assert again.template == prod.template
