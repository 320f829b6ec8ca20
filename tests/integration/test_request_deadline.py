"""A request has its own connection and one deadline, over real sockets that are slow."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
from urllib3.util.ssl_ import create_urllib3_context

from oncely.aws.clients import AwsClients
from oncely.core.effect_outcomes import Ambiguous, NotSent
from oncely.core.keys import IdempotencyKey
from oncely.plugins.requests_session import deadline_session
from oncely.providers.hubspot.crm import HubSpotClient, HubSpotCrm
from oncely.providers.ses.mailer import NO_RETRIES, SesMailer
from oncely.providers.stripe.payments import StripePayments, stripe_client
from tests.conformance.payment_harnesses import make_payment
from tests.integration.test_ses_mailer import JOB, KEY, MAIL, TAG
from tests.support.mail import SENDER
from tests.support.tls import tls_server, untrusted_server

LIMIT = 0.6
CHUNK_INTERVAL = 0.1  # seconds between two bytes: no single read ever waits for long
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n"
PAYMENT = make_payment("pm_card_visa")


class TricklingServer:
    """Sends these bytes immediately, and then one byte at intervals."""

    def __init__(self, at_once: bytes, then: bytes) -> None:
        self.at_once, self.then = at_once, then
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def close(self) -> None:
        self.over.set()
        self.listener.close()
        self.thread.join(5)

    def _serve(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        with connection:
            connection.recv(65536)
            try:
                connection.sendall(self.at_once)
                for _ in range(200):
                    if self.over.wait(CHUNK_INTERVAL):
                        return
                    connection.sendall(self.then)
            except OSError:
                return


@pytest.fixture(params=["the body", "the headers"])
def server(request: pytest.FixtureRequest) -> Iterator[TricklingServer]:
    at_once = HEAD if request.param == "the body" else HEAD[:40]
    trickling = TricklingServer(at_once, b" " if request.param == "the body" else b"x")
    yield trickling
    trickling.close()


def test_stripe_request_ends_at_deadline_when_reply_trickles(server: TricklingServer) -> None:
    limit = timedelta(seconds=LIMIT)
    client = stripe_client("sk_test_1", api_base=server.url, request_timeout=limit)
    began = time.monotonic()

    answer = StripePayments(client).prepare(PAYMENT, idempotency_key=IdempotencyKey("create:1"))
    assert isinstance(answer, Ambiguous)
    assert time.monotonic() - began < LIMIT * 3


@pytest.mark.parametrize(
    ("request_hubspot", "outcome"),
    [
        (lambda crm: crm.upsert_contact("shop#7", {"firstname": "Grace"}), Ambiguous),
        (lambda crm: crm.get_contact("7"), NotSent),
    ],
    ids=["push", "read"],
)
def test_hubspot_request_ends_at_deadline_when_reply_trickles(
    server: TricklingServer, request_hubspot: Callable[[HubSpotCrm], object], outcome: type
) -> None:
    limits = (LIMIT / 2, LIMIT / 2)
    crm = HubSpotCrm(client=HubSpotClient("pat-test-1", api_base=server.url, timeouts=limits))
    began = time.monotonic()
    assert isinstance(request_hubspot(crm), outcome)
    assert time.monotonic() - began < LIMIT * 3


@pytest.mark.parametrize("is_proxy", [False, True])
def test_email_ends_at_deadline_when_reply_trickles(
    server: TricklingServer, monkeypatch: pytest.MonkeyPatch, no_profile: None, *, is_proxy: bool
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SESV2", "http://ses.invalid" if is_proxy else server.url)
    monkeypatch.setenv("HTTP_PROXY", server.url if is_proxy else "")
    clients = AwsClients()
    mailer = SesMailer(
        new_client=lambda: clients.new_client("sesv2", NO_RETRIES),
        sender=SENDER,
        timeout=timedelta(seconds=LIMIT),
    )
    began = time.monotonic()

    assert isinstance(mailer.send(MAIL, idempotency_key=KEY, job_key=JOB, tag=TAG), Ambiguous)
    assert time.monotonic() - began < LIMIT * 4  # the client is made in this time, too


def test_trusted_certificates_are_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = Mock(wraps=create_urllib3_context)
    monkeypatch.setattr("oncely.plugins.request_deadline.create_urllib3_context", loaded)

    with tls_server(tmp_path) as (url, trusted), deadline_session() as session:
        answers = [session.get(url, verify=trusted, timeout=5).status_code for _ in range(2)]

    assert answers == [200, 200]
    assert loaded.call_count == 1


def test_stripe_is_sent_nothing_if_untrusted(tmp_path: Path) -> None:
    with untrusted_server(tmp_path) as url:
        client = stripe_client("sk_test_1", api_base=url)
        answer = StripePayments(client).prepare(PAYMENT, idempotency_key=IdempotencyKey("c:1"))
    assert isinstance(answer, NotSent)
