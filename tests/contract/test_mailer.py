"""What any mailer must do; the fake and the SES adapter are held to the same."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pytest

from infra.local.sandbox import ProviderSandbox
from oncely.adapters.ses_mail import SesMailer
from oncely.domain.answers import Done, NotSent, Refused, Unclear
from oncely.domain.keys import JobKey, ProviderKey, claim_tag
from oncely.providers import Mail, Mailer
from tests.support.mail import FakeMailer, ses_mailer
from tests.support.payments import Fault

KEY = ProviderKey("receipt.send:order_18452:send:0")
TAG = claim_tag(JobKey("receipt.send:order_18452"), deployment="dev", fence=1)
RECEIPT = Mail(
    to="seven@example.com",
    subject="Receipt for order 18452",
    text="Thank you. We received 12.50 € for order 18452.\n",
)


class Bench(Protocol):
    """A mailer, the mail that left, and ways to make it fail."""

    @property
    def mailer(self) -> Mailer: ...

    def sent(self) -> list[Mail]: ...

    def fails(self, fault: Fault) -> None: ...

    def limits_rate(self) -> None: ...

    def rejected(self) -> Mail: ...


@dataclass
class FakeBench:
    mailer: FakeMailer = field(default_factory=FakeMailer)

    def sent(self) -> list[Mail]:
        return self.mailer.sent

    def fails(self, fault: Fault) -> None:
        self.mailer.fails(fault)

    def limits_rate(self) -> None:
        self.mailer.fails(NotSent("the rate is limited"))

    def rejected(self) -> Mail:
        self.mailer.fails(Refused("rejected", code="MessageRejected"))
        return RECEIPT


@dataclass
class SesBench:
    sandbox: ProviderSandbox
    mailer: SesMailer

    def sent(self) -> list[Mail]:
        mails = self.sandbox.ledger.mails
        return [Mail(to=one.to[0], subject=one.subject, text=one.text) for one in mails]

    def fails(self, fault: Fault) -> None:
        kinds = {
            Fault.TIMEOUT_BEFORE: "drop_before",
            Fault.TIMEOUT_AFTER: "accept_then_drop",
            Fault.UNAUTHORIZED: "unauthorized",
        }
        self.sandbox.faults.add(kinds[fault])

    def limits_rate(self) -> None:
        self.sandbox.faults.add("rate_limit")

    def rejected(self) -> Mail:
        return Mail(to="rejected@example.com", subject=RECEIPT.subject, text=RECEIPT.text)


@pytest.fixture(params=["fake", "ses"])
def bench(request: pytest.FixtureRequest, no_profile: None) -> Iterator[Bench]:
    if request.param == "fake":
        yield FakeBench()
        return
    with ProviderSandbox() as sandbox:
        yield SesBench(sandbox, ses_mailer(sandbox.url))


def test_mail_is_sent_once_with_message_id_as_reference(bench: Bench) -> None:
    answer = bench.mailer.send(RECEIPT, key=KEY, tag=TAG)

    assert isinstance(answer, Done)
    assert answer.ref
    assert answer.ref == answer.result["message_id"]
    assert bench.sent() == [RECEIPT]


def test_idempotency_key_does_not_prevent_second_mail(bench: Bench) -> None:
    first = bench.mailer.send(RECEIPT, key=KEY, tag=TAG)
    second = bench.mailer.send(RECEIPT, key=KEY, tag=TAG)

    assert isinstance(first, Done)
    assert isinstance(second, Done)
    assert first.ref != second.ref
    assert len(bench.sent()) == 2


@pytest.mark.parametrize("fault", [Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER])
def test_missing_reply_is_ambiguous_with_at_most_one_mail(bench: Bench, fault: Fault) -> None:
    bench.fails(fault)

    answer = bench.mailer.send(RECEIPT, key=KEY, tag=TAG)

    assert isinstance(answer, Unclear)
    assert len(bench.sent()) == int(fault is Fault.TIMEOUT_AFTER)


def test_rejected_credentials_send_nothing_and_raise_alarm(
    bench: Bench,
) -> None:
    bench.fails(Fault.UNAUTHORIZED)

    answer = bench.mailer.send(RECEIPT, key=KEY, tag=TAG)

    assert isinstance(answer, NotSent)
    assert answer.alarm
    assert bench.sent() == []


def test_rate_limit_sends_nothing_without_alarm(bench: Bench) -> None:
    bench.limits_rate()

    answer = bench.mailer.send(RECEIPT, key=KEY, tag=TAG)

    assert isinstance(answer, NotSent)
    assert not answer.alarm
    assert bench.sent() == []


def test_rejected_mail_is_declined(bench: Bench) -> None:
    mail = bench.rejected()

    answer = bench.mailer.send(mail, key=KEY, tag=TAG)

    assert isinstance(answer, Refused)
    assert answer.code == "MessageRejected"
    assert bench.sent() == []
