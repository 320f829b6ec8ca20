"""The SES adapter under every faulty response, over real sockets."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, CredentialRetrievalError, InvalidRegionError

from oncely.aws.signals import CREDENTIALS_REJECTED
from oncely.contracts.settings import Settings
from oncely.core.effect_outcomes import Ambiguous, Declined, EffectOutcome, NotSent, Succeeded
from oncely.core.errors import NotConfiguredError
from oncely.core.keys import IdempotencyKey, JobKey, claim_tag
from oncely.core.lifecycle import Status
from oncely.handlers.telemetry import signal_for
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.ports import Ports
from oncely.providers.interfaces import Email
from oncely.providers.ses import SES
from oncely.providers.ses.events import job_tag
from oncely.providers.ses.mailer import NO_RETRIES, SesMailer
from oncely.testing.sandbox import FaultKind
from oncely_local.engine import free_port
from tests.integration.faulty_sends import FAULTY_SENDS
from tests.support.in_memory_stack import InMemoryStack
from tests.support.mail import SENDER, ses_client, ses_mailer
from tests.support.outcomes import is_finished
from tests.support.shipped_sandbox import ShippedSandbox
from tests.support.tls import busy_server, untrusted_server

SEND = "POST /v2/email/outbound-emails"
KEY = IdempotencyKey("receipt.send:order_18452:send:0")
JOB = JobKey("receipt.send:order_18452")
TAG = claim_tag(JOB, deployment="dev", fence=1, key="secret")
# A busy machine may respond after a second. Only a missing response takes the full timeout.
TIMEOUTS = NO_RETRIES.merge(Config(connect_timeout=10, read_timeout=10))
SHORT_TIMEOUTS = NO_RETRIES.merge(Config(connect_timeout=10, read_timeout=1))
MAIL = Email(to="seven@example.com", subject="Receipt", text="Thank you.")


@pytest.fixture
def sandbox(no_profile: None) -> Iterator[ShippedSandbox]:
    with ShippedSandbox() as running:
        yield running


def send_mail(
    url: str, *, to: str = MAIL.to, sender: str = SENDER, config: Config = TIMEOUTS
) -> EffectOutcome:
    mailer = ses_mailer(url, sender=sender, config=config)
    return mailer.send(replace(MAIL, to=to), idempotency_key=KEY, job_key=JOB, tag=TAG)


@pytest.mark.parametrize(("fault", "expected", "mails"), FAULTY_SENDS)
def test_faulty_send_makes_one_request_and_at_most_one_mail(
    sandbox: ShippedSandbox, fault: FaultKind, expected: type, mails: int
) -> None:
    sandbox.faults.add(fault, times=None)
    hangs = fault is FaultKind.ACCEPT_THEN_HANG
    config = SHORT_TIMEOUTS if hangs else TIMEOUTS
    assert isinstance(send_mail(sandbox.url, config=config), expected)
    assert (sandbox.ledger.paths[SEND], len(sandbox.ses.ledger.mails)) == (1, mails)


def test_slow_reply_is_accepted(sandbox: ShippedSandbox) -> None:
    sandbox.faults.add(FaultKind.SLOW, seconds=0.1)
    answer = send_mail(sandbox.url)
    assert isinstance(answer, Succeeded)
    assert [one.message_id for one in sandbox.ses.ledger.mails] == [answer.ref]


def test_receipts_are_sent_when_provider_forgot_connection(sandbox: ShippedSandbox) -> None:
    """A Lambda function thaws ten times with a dead connection of its last invocation."""
    mailer = ses_mailer(sandbox.url, config=TIMEOUTS)

    for _ in range(10):
        assert isinstance(mailer.send(MAIL, idempotency_key=KEY, job_key=JOB, tag=TAG), Succeeded)
        sandbox.generation += 1

    assert len(sandbox.ses.ledger.mails) == 10


def test_send_is_never_retried(sandbox: ShippedSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_RETRY_MODE", raising=False)
    monkeypatch.delenv("AWS_MAX_ATTEMPTS", raising=False)
    sandbox.faults.add(FaultKind.ACCEPT_THEN_DROP, times=None)

    with closing(ses_client(sandbox.url, config=None)) as client, pytest.raises(BotoCoreError):
        client.send_email(
            FromEmailAddress=SENDER,
            Destination={"ToAddresses": ["seven@example.com"]},
            Content={"Simple": {"Subject": {"Data": "-"}, "Body": {"Text": {"Data": "-"}}}},
        )
    assert len(sandbox.ses.ledger.mails) == 3
    assert isinstance(send_mail(sandbox.url), Ambiguous)
    assert len(sandbox.ses.ledger.mails) == 4


def test_environment_enables_no_retry(
    sandbox: ShippedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    monkeypatch.setenv("AWS_RETRY_MODE", "adaptive")
    sandbox.faults.add(FaultKind.ACCEPT_THEN_DROP, times=None)
    send_mail(sandbox.url)
    assert len(sandbox.ses.ledger.mails) == 1


@pytest.mark.parametrize(
    ("to", "code"),
    [("rejected@example.com", "MessageRejected"), ("no address", "BadRequestException")],
)
def test_unsendable_mail_is_declined(sandbox: ShippedSandbox, to: str, code: str) -> None:
    answer = send_mail(sandbox.url, to=to)
    assert isinstance(answer, Declined)
    assert answer.code == code
    assert "request req_" in answer.reason
    assert sandbox.ses.ledger.mails == ()


@pytest.mark.parametrize(
    ("name", "code"),
    {
        "unverified": "MessageRejected",
        "nomx": "MailFromDomainNotVerifiedException",
        "noset": "NotFoundException",
        "oldset": "BadRequestException",
        "invalid": "ValidationException",
        "unrecognized": "UnrecognizedClientException",
        "expired": "RequestExpired",
        "denied": "AccessDeniedException",
        "paused": "SendingPausedException",
        "suspended": "AccountSuspendedException",
        "stopped": "MessageRejected",
        "blocked": "MessageRejected",
    }.items(),
)
def test_configuration_error_sends_nothing(sandbox: ShippedSandbox, name: str, code: str) -> None:
    answer = send_mail(sandbox.url, sender=f"{name}@example.com")
    assert isinstance(answer, NotSent)
    assert answer.credentials_rejected
    assert code in answer.reason
    assert sandbox.ses.ledger.mails == ()


def test_unverified_recipient_raises_alarm_in_ses_sandbox(sandbox: ShippedSandbox) -> None:
    answer = send_mail(sandbox.url, to="unverified@example.com")
    assert isinstance(answer, NotSent)
    assert answer.credentials_rejected


def test_receipt_is_sent_once_after_configuration_is_fixed(sandbox: ShippedSandbox) -> None:
    world = InMemoryStack(mail=ses_mailer(sandbox.url, sender="unverified@example.com"))
    world.add_order(status="paid")
    receipt = {"job": "receipt.send", "v": 1, "order_id": "18452"}

    metrics = [signal_for(world.run(receipt)).metric for _ in range(3)]
    job = world.job("receipt.send:order_18452")
    world.mail = ses_mailer(sandbox.url)
    world.clock.advance(hours=1)

    assert metrics == [CREDENTIALS_REJECTED] * 3
    assert (job.status, job.attempts, job.first_sent_at) == (Status.READY, 0, None)
    assert is_finished(world.run(receipt))
    assert len(sandbox.ses.ledger.mails) == 1
    assert world.alerts.sent == []  # one alarm for all receipts, and no alert for each


@pytest.mark.parametrize("host", ["127.0.0.1:{closed}", "no-such-host.invalid:80"])
def test_failed_connection_sends_nothing(no_profile: None, host: str) -> None:
    answer = send_mail("http://" + host.format(closed=free_port()))
    assert isinstance(answer, NotSent)
    assert not answer.credentials_rejected


def test_connect_timeout_sends_nothing(no_profile: None) -> None:
    with busy_server() as url:
        config = NO_RETRIES.merge(Config(connect_timeout=0.3, read_timeout=10))
        assert isinstance(send_mail(url, config=config), NotSent)


def test_untrusted_server_is_sent_nothing(no_profile: None, tmp_path: Path) -> None:
    with untrusted_server(tmp_path) as url:
        answer = send_mail(url)
    assert isinstance(answer, NotSent)
    assert "CERTIFICATE_VERIFY_FAILED" in answer.reason


def test_missing_credentials_send_nothing_and_raise_alarm(
    sandbox: ShippedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SESV2", sandbox.url)

    answer = mailer_from_env().send(MAIL, idempotency_key=KEY, job_key=JOB, tag=TAG)
    assert isinstance(answer, NotSent)
    assert answer.credentials_rejected
    assert sandbox.ledger.requests == ()


@pytest.mark.parametrize(
    "error",
    [
        CredentialRetrievalError(provider="iam-role", error_msg="no answer"),
        InvalidRegionError(region_name="eu west 1"),
        ValueError("Invalid endpoint: http://a b"),
    ],
)
def test_failed_client_creation_sends_nothing_and_raises_alarm(error: Exception) -> None:
    def no_client() -> NoReturn:
        raise error

    answer = SesMailer(new_client=no_client, sender=SENDER).send(
        MAIL, idempotency_key=KEY, job_key=JOB, tag=TAG
    )

    assert isinstance(answer, NotSent)
    assert answer.credentials_rejected


def test_mail_has_idempotency_key_header_and_tags(sandbox: ShippedSandbox) -> None:
    send_mail(sandbox.url)
    (mail,) = sandbox.ses.ledger.mails
    assert mail.headers == {"X-Oncely-Key": KEY}
    assert mail.tags == {"oncely_key": TAG, "oncely_job": job_tag(JOB)}
    assert mail.configuration_set is None


def test_mail_names_configuration_set_that_publishes_its_events(sandbox: ShippedSandbox) -> None:
    mailer = replace(ses_mailer(sandbox.url), configuration_set="receipts")
    long = JobKey(f"receipt.send:order_{'a' * 181}")  # too long for a tag

    assert isinstance(mailer.send(MAIL, idempotency_key=KEY, job_key=long, tag=TAG), Succeeded)

    (mail,) = sandbox.ses.ledger.mails
    assert mail.configuration_set == "receipts"
    assert mail.tags == {"oncely_key": TAG}


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SESV2"])
def test_mailer_uses_boto3_endpoint(
    sandbox: ShippedSandbox, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, sandbox.url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    sandbox.faults.add(FaultKind.ACCEPT_THEN_DROP)

    assert isinstance(
        mailer_from_env().send(MAIL, idempotency_key=KEY, job_key=JOB, tag=TAG), Ambiguous
    )
    assert [one.sender for one in sandbox.ses.ledger.mails] == [SENDER]


def test_mailer_is_not_configured_without_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    ports = Ports(Settings.from_env({"GATES_TABLE": "gates"}, SHIPPED_JOBS))
    assert not ports.is_configured(SES)
    with pytest.raises(NotConfiguredError, match="SES_SENDER_ADDRESS"):
        ports.provider(SES)


def mailer_from_env() -> SesMailer:
    environ = {"GATES_TABLE": "gates", "SES_SENDER_ADDRESS": SENDER}
    return Ports(Settings.from_env(environ, SHIPPED_JOBS)).provider(SES)
