"""What the mailer must do: in memory, behind botocore, and over HTTP."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from oncely.core.effect_outcomes import Ambiguous, Declined, EffectOutcome, NotSent, Succeeded
from oncely.core.keys import IdempotencyKey, JobKey, claim_tag
from oncely.providers.interfaces import Email
from oncely.providers.ses.mailer import NO_RETRIES, SesMailer
from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.memory_aws.wire import WireClients
from tests.conformance.payment_harnesses import SANDBOX_FAULTS
from tests.support.fakes import START
from tests.support.mail import RATE_LIMITED, MemoryMail, ses_mailer
from tests.support.provider_fault import ProviderFault
from tests.support.shipped_sandbox import ShippedSandbox

KEY = IdempotencyKey("receipt.send:order_18452:send:0")
JOB = JobKey("receipt.send:order_18452")
TAG = claim_tag(JOB, deployment="dev", fence=1, key="secret")
RECEIPT = Email(
    to="seven@example.com",
    subject="Receipt for order 18452",
    text="Thank you. We received 12.50 € for order 18452.\n",
)


@dataclass
class MemoryHarness:
    mailer: MemoryMail | SesMailer
    mail: MemoryMail

    def sent(self) -> list[Email]:
        return self.mail.sent

    def fail_next(self, fault: ProviderFault) -> None:
        self.mail.fail_next(fault)

    def limit_rate(self) -> None:
        self.mail.fail_next(RATE_LIMITED)


@dataclass
class SesHarness:
    sandbox: ShippedSandbox
    mailer: SesMailer

    def sent(self) -> list[Email]:
        mails = self.sandbox.ses.ledger.mails
        return [Email(to=one.to[0], subject=one.subject, text=one.text) for one in mails]

    def fail_next(self, fault: ProviderFault) -> None:
        self.sandbox.faults.add(SANDBOX_FAULTS[fault])

    def limit_rate(self) -> None:
        self.sandbox.faults.add("rate_limit")


MailerHarness = MemoryHarness | SesHarness


@pytest.fixture(params=["memory", "wire", "sandbox"])
def rig(request: pytest.FixtureRequest, no_profile: None) -> Iterator[MailerHarness]:
    if request.param != "sandbox":
        mail = MemoryMail()
        account = MemoryAws(now=lambda: START, services={"sesv2": mail.client})
        account.intercept = mail.intercept
        over_wire = replace(
            mail.mailer, new_client=lambda: WireClients(account).new_client("sesv2", NO_RETRIES)
        )
        yield MemoryHarness(mail if request.param == "memory" else over_wire, mail)
        return
    with ShippedSandbox() as sandbox:
        yield SesHarness(sandbox, ses_mailer(sandbox.url))


def send(rig: MailerHarness, mail: Email = RECEIPT) -> EffectOutcome:
    return rig.mailer.send(mail, idempotency_key=KEY, job_key=JOB, tag=TAG)


def test_mail_is_sent_once_with_message_id_as_reference(rig: MailerHarness) -> None:
    answer = send(rig)
    assert isinstance(answer, Succeeded)
    assert answer.ref
    assert (answer.ref, rig.sent()) == (answer.result["message_id"], [RECEIPT])


def test_idempotency_key_does_not_prevent_second_mail(rig: MailerHarness) -> None:
    first = send(rig)
    second = send(rig)

    assert isinstance(first, Succeeded)
    assert isinstance(second, Succeeded)
    assert first.ref != second.ref
    assert len(rig.sent()) == 2


@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER])
def test_missing_reply_is_ambiguous(rig: MailerHarness, fault: ProviderFault) -> None:
    rig.fail_next(fault)
    assert isinstance(send(rig), Ambiguous)
    assert len(rig.sent()) == int(fault is ProviderFault.TIMEOUT_AFTER)


@pytest.mark.parametrize("limited", [False, True])
def test_refused_send_raises_alarm_unless_limited(rig: MailerHarness, *, limited: bool) -> None:
    if limited:
        rig.limit_rate()
    else:
        rig.fail_next(ProviderFault.UNAUTHORIZED)

    answer = send(rig)
    assert isinstance(answer, NotSent)
    assert answer.credentials_rejected is not limited
    assert rig.sent() == []


def test_rejected_mail_is_declined(rig: MailerHarness) -> None:
    answer = send(rig, replace(RECEIPT, to="rejected@example.com"))
    assert isinstance(answer, Declined)
    assert (answer.code, rig.sent()) == ("MessageRejected", [])
