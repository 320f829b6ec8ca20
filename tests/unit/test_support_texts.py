"""Texts for support agents contain no ARN, table, queue, account or stack trace."""

import json
import traceback
from collections.abc import Callable
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError

from oncely.admin_page.http_api import Api, ApiRequest, ApiResponse, Route
from oncely.admin_page.job_export import ExportFormat, export_jobs
from oncely.alerts import alert_texts
from oncely.app import App
from oncely.contracts.settings import Settings
from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    NotSent,
)
from oncely.core.errors import OncelyError, UnreadableRowError
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Status
from oncely.core.text import mask_aws_names
from oncely.operate.job_lists import JobFilter
from oncely.providers.ses.mailer import SesMailer
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.unit.job_view_fixtures import KEY
from tests.unit.samples import make_job
from tests.unit.test_aws_errors import ALWAYS_RETURNED, CALLS, call, ports_failing_with

ACCOUNT: Final = "123456789012"
TABLE: Final = "Oncely-prod-TablesJobs4F1A-1X2Y3Z"
QUEUE: Final = f"https://sqs.eu-central-1.amazonaws.com/{ACCOUNT}/Oncely-prod-Payments-9"
POOL: Final = "eu-central-1_Ab12Cd34"
BUCKET: Final = "oncely-prod-archivebucket-7q"
ROLE: Final = f"arn:aws:sts::{ACCOUNT}:assumed-role/Oncely-prod-Worker-1/Oncely-prod-Worker"
ARNS: Final = {
    name: f"arn:aws:{name}:eu-central-1:{ACCOUNT}:Oncely-prod-{name}"
    for name in ("sns", "states", "secretsmanager")
}
NAMES: Final = (ACCOUNT, TABLE, "arn:", "amazonaws", POOL, BUCKET, "Oncely-prod-", "Traceback")
SETTINGS: Final = Settings(
    jobs_table=TABLE,
    archive_bucket=BUCKET,
    alert_topic_arn=ARNS["sns"],
    event_bus_name="Oncely-prod-Events",
    reconciler_arn=ARNS["states"],
    rejects_queue_url=QUEUE,
    queue_url=QUEUE,
    user_pool_id=POOL,
    access_log_secret=ARNS["secretsmanager"],
    queues={"payments": QUEUE},
    tables={"orders": f"{TABLE}-orders"},
    secrets={"stripe": ARNS["secretsmanager"]},
)
TRACE: Final = f'Traceback (most recent call last):\n  File "/var/task/x.py", line 1\n{TABLE}'


def service_error(code: str, message: str, status: int = 400) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "RequestId": "r-1"},
    }
    return ClientError(response, "GetItem")


# As AWS and its SDK word them.
LEAKS: Final[dict[str, Exception]] = {
    "denied": service_error(
        "AccessDeniedException",
        f"User: {ROLE} is not authorized to perform: dynamodb:GetItem on resource: "
        f"arn:aws:dynamodb:eu-central-1:{ACCOUNT}:table/{TABLE} because no identity-based policy",
    ),
    "no table": service_error(
        "ResourceNotFoundException", f"Requested resource not found: Table: {TABLE} not found"
    ),
    "no queue": service_error("QueueDoesNotExist", f"The queue {QUEUE} does not exist"),
    "throttled": service_error("ThrottlingException", f"Rate exceeded for account {ACCOUNT}"),
    "account": service_error("AccountDisabled", f"Account ID: {ACCOUNT}, key AKIAIOSFODNN7EXAMPLE"),
    "server": service_error("InternalServerError", TRACE, 500),
    "local queue": service_error("X", f"http://127.0.0.1:4566/{ACCOUNT}/Oncely-prod-Mail is gone"),
    "unreachable": EndpointConnectionError(endpoint_url=QUEUE),
    "invalid": ParamValidationError(report=f"QueueUrl {QUEUE}"),
}
FOREIGN: Final = {**LEAKS, "bug": RuntimeError(TRACE), "value": ValueError(f"no such role: {ROLE}")}


def assert_clean(text: str) -> None:
    assert [name for name in NAMES if name in text] == [], text


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("name", sorted(set(CALLS) - ALWAYS_RETURNED))
def test_no_port_error_names_resource(name: str, leak: str) -> None:
    try:
        call(ports_failing_with(LEAKS[leak], SETTINGS), name)
    except OncelyError as error:
        assert_clean(str(error))


@pytest.mark.parametrize("leak", LEAKS)
def test_no_secret_or_business_write_error_names_resource(leak: str) -> None:
    ports = ports_failing_with(LEAKS[leak], SETTINGS)
    with pytest.raises(OncelyError) as raised:
        ports.secret("stripe")
    assert_clean(str(raised.value))
    with pytest.raises(OncelyError) as raised:
        ports.access_log_key()
    assert_clean(str(raised.value))
    try:
        assert_clean(str(call(ports, "job_store.conditional_write")))
    except OncelyError as error:
        assert_clean(str(error))


@pytest.mark.parametrize("leak", FOREIGN)
def test_api_answer_names_no_resource(leak: str) -> None:
    def fail(_: ApiRequest) -> ApiResponse:
        raise FOREIGN[leak]

    def fail_unreadable(_: ApiRequest) -> ApiResponse:
        raise UnreadableRowError(f"the row cannot be read: {FOREIGN[leak]}")

    for handler in (fail, fail_unreadable):
        answer = Api(routes={"GET /x": Route(handler)}, digest=str).handle({"routeKey": "GET /x"})
        assert answer["statusCode"] in {422, 500}
        assert_clean(answer["body"])


class Broken:
    """A provider whose every call fails, or returns the same outcome."""

    def __init__(self, failure: Exception | EffectOutcome) -> None:
        self.failure = failure

    def key_scope(self) -> str:
        return "test"

    def __getattr__(self, _: str) -> Callable[..., Any]:
        def fail(*_: object, **__: object) -> Any:  # noqa: ANN401  # of any call
            if isinstance(self.failure, Exception):
                raise self.failure
            return self.failure

        return fail


class BrokenRows:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def get(self, *_: object) -> None:
        raise self.error


def texts_for_support(world: InMemoryStack, job: JobRow) -> str:
    """The row as it is shown, and every alert."""
    view = world.inspector().get(KEY)
    assert view is not None
    texts = [
        json.dumps(view.to_json()),
        job.last_error or "",
        *(entry.reason for entry in job.evidence),
        *(f"{alert.subject}\n{alert.text}" for alert in world.alerts.sent),
        *(
            export_jobs(
                world.inspector().iter_pages(JobFilter(status=job.status)), form, max_jobs=9
            ).text
            for form in ExportFormat
        ),
        *(run_cli(*words, connection=FakeStackConnection(world)).output for words in READS),
    ]
    return "\n".join(texts)


READS: Final = (("show", KEY), ("find", KEY), ("list", "--status", "needs_review"))


@pytest.mark.parametrize("leak", FOREIGN)
def test_row_and_alert_of_failed_effect_name_no_resource(leak: str, world: InMemoryStack) -> None:
    broken = Broken(FOREIGN[leak])
    world.run(charge_message(), runner=world.runner(provider=broken))
    for _ in range(40):
        world.clock.advance(hours=1)
        app = world.app(provider=broken)
        if app.reconciler.resolve(KEY).needs_alert:
            app.review_alerter("reconciler").alert_if_due(KEY)
    job = world.job(KEY)

    assert len(world.alerts.sent) == 1
    assert_clean(texts_for_support(world, job))


@pytest.mark.parametrize("leak", FOREIGN)
def test_failed_lookup_of_business_rows_names_no_resource(
    leak: str, unknown_charge: InMemoryStack
) -> None:
    world = unknown_charge
    world.clock.advance(minutes=5)
    app = world.app(rows=BrokenRows(FOREIGN[leak]))
    app.reconciler.resolve(KEY)

    job = world.job(KEY)
    assert "the business rows could not be read" in (job.last_error or "")
    assert_clean(texts_for_support(world, job))


@pytest.mark.parametrize("kind", [Ambiguous, Anomalous, Declined, NotSent])
def test_answer_of_provider_names_no_resource(kind: type[Any], world: InMemoryStack) -> None:
    code = {"code": "denied"} if kind is Declined else {}
    outcome: Any = kind(f"HTTP 403 AccessDenied: {LEAKS['denied']}", **code)
    world.run(charge_message(), runner=world.runner(provider=Broken(outcome)))

    assert "not authorized to perform" in texts_for_support(world, world.job(KEY))
    assert_clean(texts_for_support(world, world.job(KEY)))


def test_answer_of_ses_names_no_resource(world: InMemoryStack) -> None:
    class Ses:
        def send_email(self, **_: object) -> None:
            raise LEAKS["denied"]

        def close(self) -> None: ...

    new_client: Any = Ses
    world.mail = SesMailer(new_client=new_client, sender="shop@example.com")
    world.add_order(status="paid", charge_id="ch_1")
    world.run({"job": "receipt.send", "v": 1, "order_id": "18452"})

    job = world.job("receipt.send:order_18452")
    assert "AccessDenied" in (job.last_error or "")
    assert_clean(job.last_error or "")


@pytest.mark.parametrize("leak", FOREIGN)
def test_no_alert_names_resource(leak: str) -> None:
    reason = f"{type(FOREIGN[leak]).__name__}: {FOREIGN[leak]}"
    review = make_job(job_key=KEY, status=Status.NEEDS_REVIEW, last_error=reason)
    for alert in (
        alert_texts.conflict_alert(KEY, reason, stack="Oncely"),
        alert_texts.orphaned_outcome_alert(KEY, reason, stack="Oncely"),
        alert_texts.dead_letter_alert([(KEY, reason)], stack="Oncely"),
        alert_texts.summary_alert([review], stack="Oncely"),
    ):
        assert_clean(f"{alert.subject}\n{alert.text}")


def connection_failing_with(error: Exception) -> FakeStackConnection:
    class Failing(FakeStackConnection):
        @property
        def app(self) -> App:
            raise error

    return Failing()


@pytest.mark.parametrize("leak", LEAKS)
def test_reading_command_names_no_resource(leak: str) -> None:
    for words in (*READS, ("archive", "gaps")):
        result = run_cli(*words, connection=connection_failing_with(LEAKS[leak]))
        assert result.exit_code == 3
        assert_clean(result.output)


def test_deployer_and_log_see_names() -> None:
    with pytest.raises(OncelyError) as raised:
        call(ports_failing_with(LEAKS["no table"], SETTINGS), "job_store.get")
    assert TABLE in "".join(traceback.format_exception(raised.value))
    words = ("repair", KEY, "lookup", "--reason", "x")

    for error in (raised.value, LEAKS["no table"]):
        assert TABLE in run_cli(*words, connection=connection_failing_with(error)).output
    assert_clean(run_cli("show", KEY, connection=connection_failing_with(raised.value)).output)


@pytest.mark.parametrize(
    "text",
    [
        "order 123456789012 has other values",
        "Table for two: booked",
        "the job table: deploy the stack again",
        "see https://dashboard.stripe.com/payments/pi_1",
        "account acct_1 is not live",
    ],
)
def test_business_text_is_kept(text: str) -> None:
    assert mask_aws_names(text) == text


@pytest.mark.parametrize("hostile", ["http://" * 40_000, "arn:aws:" * 40_000, "account " * 40_000])
def test_masking_is_linear(hostile: str) -> None:
    assert len(mask_aws_names(hostile)) <= len(hostile)
