"""A team's own queue and worker function in the construct."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from oncely_cdk import Oncely, OncelySettings, StageError
from oncely_cdk.layers import ON_THIS_MACHINE, layers_for
from tests.infra.assembly import CONTEXT, LAMBDA, Assembly
from tests.infra.other_teams import INVOICES, VOUCHERS, own_package
from tests.infra.policies import Permission, permissions

SETTINGS: Final = OncelySettings(name="dev", existing_tables={"customers": "customers"})
TIMEOUT: Final = Duration.seconds(20)
VISIBILITY: Final = Duration.seconds(120)  # 6 timeouts


# Beside INVOICES: the same job in another queue.
SECOND_QUEUE: Final = """

class PayBill(PayInvoice):
    job_type = "bill.pay"
    queue = "bills"
    reads = ("bills",)
"""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    with own_package(tmp_path_factory.mktemp("shop"), "shop_jobs", VOUCHERS) as module:
        yield [module.VoucherIssue]


def own_queue(stack: Stack, **changes: Any) -> sqs.Queue:  # noqa: ANN401  # of the CDK
    return sqs.Queue(stack, "Orders", **{"visibility_timeout": VISIBILITY, **changes})


def own_function(stack: Stack, **changes: Any) -> lambda_.Function:  # noqa: ANN401  # of the CDK
    properties: dict[str, Any] = {
        "runtime": lambda_.Runtime.PYTHON_3_13,
        "architecture": lambda_.Architecture.ARM_64,
        "handler": "shop.handler",
        "code": lambda_.Code.from_inline("handler = print"),
        "timeout": TIMEOUT,
        "environment": {"SHOP": "1"},
    }
    return lambda_.Function(stack, "Issue", **properties | changes)


@pytest.fixture(scope="module")
def shop(jobs: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    folder = tmp_path_factory.mktemp("assembly")
    app = App(outdir=str(folder), context=CONTEXT, analytics_reporting=False)
    stack = Stack(app, "Shop")
    Oncely(
        stack,
        "Jobs",
        jobs=jobs,
        settings=SETTINGS,
        queues={"vouchers": own_queue(stack)},
        workers={"vouchers": own_function(stack)},
    )
    app.synth()
    return Assembly(folder, "Shop")


def worker(shop: Assembly) -> dict[str, Any]:
    return shop.properties("AWS::Lambda::Function")["Issue"]


def test_own_function_gets_layers_and_variables(shop: Assembly) -> None:
    layers = {shop.path(one["Ref"]) for one in worker(shop)["Layers"]}
    variables = worker(shop)["Environment"]["Variables"]

    assert layers == {"Jobs/Layers/Engine", "Jobs/Layers/Runtime"}
    assert variables["ONCELY_JOBS"] == "shop_jobs.jobs:VoucherIssue"
    assert variables["QUEUE_NAME"] == "vouchers"
    assert variables["SHOP"] == "1"
    assert variables.keys() >= {"JOBS_TABLE", "QUEUE_URL", "ALERT_TOPIC_ARN", "VOUCHER_API_SECRET"}


def test_own_function_gets_rights_of_a_worker(shop: Assembly) -> None:
    role = "Issue/ServiceRole"
    granted = {one for one in permissions(shop) if one.role == role}

    assert Permission(role, "sqs:ReceiveMessage", "Orders") in granted
    assert Permission(role, "sqs:ChangeMessageVisibility", "Orders") in granted
    assert Permission(role, "secretsmanager:GetSecretValue", "Jobs/ProviderSecrets/VoucherApi") in (
        granted
    )
    assert "dynamodb:UpdateItem" in {one.action for one in granted if one.leading_keys}


def test_own_queue_gets_mapping_and_redrive(shop: Assembly) -> None:
    queue = shop.properties("AWS::SQS::Queue")["Orders"]
    mappings = shop.properties("AWS::Lambda::EventSourceMapping").values()
    sources = [shop.path(one["EventSourceArn"]["Fn::GetAtt"][0]) for one in mappings]

    target = queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]
    assert shop.path(target) == "Jobs/Queues/DeadLetters"
    assert queue["RedrivePolicy"]["maxReceiveCount"] == SETTINGS.max_receive_count
    assert queue["MaximumMessageSize"]
    assert sources.count("Orders") == 1
    assert "Jobs/Queues/Vouchers" not in shop.of_type("AWS::SQS::Queue")


# Like Lambda's init phase: the layers, the variables, no network, and nothing else.
INIT: Final = """
import importlib, sys
sys.path[:0] = sys.argv[1:]
def audit(event, args):
    if event.startswith("socket."):
        raise RuntimeError(f"{event}{args}")
sys.addaudithook(audit)
handler = importlib.import_module("issue").handler
from oncely.handlers.process_queue import get_worker
message = '{"job": "voucher.issue", "v": 1, "voucher_id": "7"}'
job = get_worker().runner.parse(message)
print(callable(handler), get_worker.cache_info().currsize, job.job_type)
"""
OWN_FUNCTION: Final = """
import oncely
from shop_jobs.jobs import VoucherIssue
handler = oncely.worker(jobs=[VoucherIssue])
"""


@pytest.fixture
def code(jobs: list[Any], tmp_path: Path) -> Path:
    """The code of the team's function, as the team packs it."""
    package = Path(sys.modules["shop_jobs"].__path__[0])
    shutil.copytree(package, tmp_path / "shop_jobs")
    (tmp_path / "issue.py").write_text(OWN_FUNCTION, encoding="utf-8")
    return tmp_path


def start(shop: Assembly, code: Path) -> "subprocess.CompletedProcess[str]":
    packages = layers_for(ON_THIS_MACHINE)["runtime"].unpacked
    variables = worker(shop)["Environment"]["Variables"]
    texts = {name: value if isinstance(value, str) else "x" for name, value in variables.items()}
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", INIT, code, shop.engine / "python", packages],
        cwd="/",
        env={**LAMBDA, **texts, "LAMBDA_TASK_ROOT": str(code)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_own_function_starts_with_its_layers_and_variables(shop: Assembly, code: Path) -> None:
    done = start(shop, code)

    assert done.stdout == "True 1 voucher.issue\n", done.stderr


def test_own_function_starts_only_with_the_code_of_its_deployment(
    shop: Assembly, code: Path
) -> None:
    with (code / "shop_jobs" / "jobs.py").open("a", encoding="utf-8") as jobs:
        jobs.write("# changed after the deployment\n")

    assert "the job code of this function is" in start(shop, code).stderr


def test_identity_is_checked_before_own_function_is_updated(shop: Assembly) -> None:
    waits_for = shop.of_type("AWS::Lambda::Function")["Issue"]["DependsOn"]
    (identity,) = shop.of_type("Custom::OncelyIdentity")

    assert identity in {shop.path(id_) for id_ in waits_for}


def test_own_function_gets_messages_through_its_published_version(shop: Assembly) -> None:
    (mapping,) = (
        one
        for one in shop.properties("AWS::Lambda::EventSourceMapping").values()
        if shop.path(one["EventSourceArn"]["Fn::GetAtt"][0]) == "Orders"
    )
    called = json.dumps(mapping["FunctionName"])
    (alias,) = (
        one
        for id_, one in shop.resources.items()
        if one["Type"] == "AWS::Lambda::Alias" and f'"Ref": "{id_}"' in called
    )

    version = alias["Properties"]["FunctionVersion"]["Fn::GetAtt"][0]
    assert shop.path(version) == "Issue/CurrentVersion"


def with_dead_letters(stack: Stack) -> sqs.Queue:
    own = sqs.DeadLetterQueue(queue=sqs.Queue(stack, "Dead"), max_receive_count=3)
    return own_queue(stack, dead_letter_queue=own)


def of_another_stack(stack: Stack) -> sqs.Queue:
    return own_queue(Stack(stack.node.scope, "Other"))  # type: ignore[arg-type]  # it has one


QUEUES: Final[dict[str, Callable[[Stack], sqs.IQueue]]] = {
    "which has its own dead-letter queue: remove": with_dead_letters,
    "a visibility timeout of 119 s, but it must be at least 120 s for a worker that may run 20 s": (
        lambda stack: own_queue(stack, visibility_timeout=Duration.seconds(119))
    ),
    "a visibility timeout of 30 s, but": lambda stack: own_queue(stack, visibility_timeout=None),
    "which this stack does not create: Oncely sets its redrive": lambda stack: (
        sqs.Queue.from_queue_arn(stack, "There", "arn:aws:sqs:eu-west-1:111122223333:orders")
    ),
    "which this stack does not create": of_another_stack,
    "which is a FIFO queue": lambda stack: own_queue(stack, fifo=True),
    "which keeps messages for 9 days, longer than the setting queue_retention_days": lambda stack: (
        own_queue(stack, retention_period=Duration.days(9))
    ),
}


@pytest.mark.parametrize("sentence", QUEUES)
def test_unfit_queue_is_refused_with_one_sentence(jobs: list[Any], sentence: str) -> None:
    stack = Stack(App(), "Shop")
    queues, workers = {"vouchers": QUEUES[sentence](stack)}, {"vouchers": own_function(stack)}

    with pytest.raises(StageError, match=f"^queues has vouchers.*{sentence}") as caught:
        Oncely(stack, "Jobs", jobs=jobs, settings=SETTINGS, queues=queues, workers=workers)

    assert "\n" not in str(caught.value)


FUNCTIONS: Final[dict[str, Callable[[Stack], lambda_.IFunction]]] = {
    "workers has vouchers, which runs python3.12 on arm64, but Oncely's layers are for": (
        lambda stack: own_function(stack, runtime=lambda_.Runtime.PYTHON_3_12)
    ),
    "workers has vouchers, which runs python3.13 on x86_64": lambda stack: own_function(
        stack, architecture=lambda_.Architecture.X86_64
    ),
    "workers has vouchers, which this stack does not create": lambda stack: (
        lambda_.Function.from_function_name(stack, "There", "issue")
    ),
    "workers has vouchers with a timeout of 3 s, but it must be more than": lambda stack: (
        own_function(stack, timeout=None)
    ),
    "worker_timeout_seconds gives the queue vouchers a visibility timeout of 720 s, but": (
        lambda stack: own_function(stack, timeout=Duration.seconds(300))
    ),
    "workers has vouchers, whose role was imported": lambda stack: own_function(
        stack,
        role=iam.Role.from_role_arn(
            stack, "Role", "arn:aws:iam::111122223333:role/shop", mutable=False
        ),
    ),
}


@pytest.mark.parametrize("sentence", FUNCTIONS)
def test_unfit_function_is_refused_with_one_sentence(jobs: list[Any], sentence: str) -> None:
    stack = Stack(App(), "Shop")

    with pytest.raises(StageError, match=sentence) as caught:
        Oncely(
            stack,
            "Jobs",
            jobs=jobs,
            settings=SETTINGS,
            workers={"vouchers": FUNCTIONS[sentence](stack)},
        )

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("argument", ["queues", "workers"])
def test_name_that_no_job_uses_is_refused(jobs: list[Any], argument: str) -> None:
    stack = Stack(App(), "Shop")
    given: dict[str, Any] = {argument: {"voucher": own_queue(stack)}}

    with pytest.raises(StageError, match=f"{argument} has voucher, which no job uses"):
        Oncely(stack, "Jobs", jobs=jobs, settings=SETTINGS, **given)


@pytest.mark.parametrize("argument", ["queues", "workers"])
def test_resource_under_two_names_is_refused(tmp_path: Path, argument: str) -> None:
    invoices = INVOICES.replace('sends_to=("payments",),', "")
    with own_package(tmp_path, "shop_invoices", invoices + SECOND_QUEUE) as module:
        jobs = [module.PayInvoice, module.PayBill]
        stack = Stack(App(), "Shop")
        visible = Duration.seconds(720)
        own: Any = {
            "queues": own_queue(stack, visibility_timeout=visible),
            "workers": own_function(stack, timeout=Duration.seconds(60)),
        }[argument]
        given: Any = {argument: {"invoices": own, "bills": own}}
        settings = SETTINGS.model_copy(
            update={"existing_tables": dict.fromkeys(("invoices", "bills"), "x")}
        )

        with pytest.raises(StageError, match=f"{argument} has one resource under two"):
            Oncely(stack, "Jobs", jobs=jobs, settings=settings, **given)
