"""`create_producer` takes its table and queues as arguments, or from what `grant_send` sets."""

from typing import Any

import pytest

from oncely import NotConfiguredError, create_producer
from oncely.aws.sqs import MessageSender
from oncely.enqueue.enqueuer import Enqueuer
from oncely.jobs.payment_charge import PaymentCharge

VARIABLES = {"JOBS_TABLE": "jobs", "PAYMENTS_QUEUE_URL": "https://sqs/payments"}


class NamedClients:
    def client(self, service: str, **_: object) -> str:
        return service


def producer(**given: Any) -> Enqueuer:  # noqa: ANN401  # arguments of each type
    session: Any = NamedClients()
    return create_producer([PaymentCharge], session=session, **given)


def queue_url(enqueuer: Enqueuer) -> str:
    sender = enqueuer.sender_for_queue("payments")
    assert isinstance(sender, MessageSender)
    return sender.queue_url


def test_producer_reads_the_variables_of_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)

    assert queue_url(producer()) == "https://sqs/payments"


def test_arguments_override_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "another")

    given = producer(jobs_table="jobs", queue_urls={"payments": "https://sqs/given"})

    assert queue_url(given) == "https://sqs/given"


def test_missing_table_or_queue_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(NotConfiguredError, match="JOBS_TABLE: missing"):
        producer()
    with pytest.raises(NotConfiguredError, match="PAYMENTS_QUEUE_URL: missing"):
        queue_url(producer(jobs_table="jobs"))
