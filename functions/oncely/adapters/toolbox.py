"""Builds what contracts and services are made of; each part on first use, once."""

import threading
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import boto3

from oncely.adapters.aws import DYNAMODB, MESSAGING
from oncely.adapters.business_tables import DynamoTable
from oncely.adapters.dynamodb_jobs import DynamoJobStore
from oncely.adapters.secrets import secret_reader
from oncely.adapters.sns import SnsAlerts
from oncely.adapters.sqs import SqsInbox, SqsOutbox
from oncely.domain.errors import NotConfiguredError
from oncely.settings import WorkerSettings

if TYPE_CHECKING:
    from oncely.ports import Outbox, PaymentProvider, Table


class Toolbox:
    """The adapters of one worker; safe to share between its threads."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        # boto3's session is not safe to make clients from in two threads at once.
        self._lock = threading.RLock()
        self._session = boto3.Session()
        self.dynamodb = self._session.client("dynamodb", config=DYNAMODB)
        self._sqs = self._session.client("sqs", config=MESSAGING)
        self.inbox = SqsInbox(
            client=self._sqs,
            queue_url=settings.queue_url,
            rejects_url=settings.rejects_queue_url,
        )
        self.alerts = SnsAlerts(
            self._session.client("sns", config=MESSAGING), settings.alert_topic_arn
        )
        self._store = DynamoJobStore(
            client=self.dynamodb, table=settings.jobs_table, tables=settings.tables
        )
        self._payments = lru_cache(maxsize=2)(self._stripe)

    def jobs(self) -> DynamoJobStore:
        """Give the job table."""
        return self._store

    def table(self, name: str) -> "Table":
        """Give a business table by its short name."""
        try:
            return DynamoTable(self.dynamodb, self._settings.tables[name])
        except KeyError:
            raise NotConfiguredError(
                f"the table {name!r} is not among the needs of this queue's contracts"
            ) from None

    def outbox(self, queue: str) -> "Outbox":
        """Give a queue to send to: this worker's own, or one that its contracts name."""
        own = {self._settings.queue: self._settings.queue_url}
        try:
            return SqsOutbox(client=self._sqs, queue_url={**self._settings.queues, **own}[queue])
        except KeyError:
            raise NotConfiguredError(
                f"the queue {queue!r} is not among the needs of this queue's contracts"
            ) from None

    def secret(self, name: str) -> str:
        """Give a secret by its short name."""
        try:
            secret_id = self._settings.secrets[name]
        except KeyError:
            raise NotConfiguredError(
                f"the secret {name!r} is not among the needs of this queue's contracts"
            ) from None
        with self._lock:
            return self._read_secret(secret_id)

    def payments(self) -> "PaymentProvider":
        """Give Stripe, with the key as it is now: a rotated one makes a new client."""
        return self._payments(self.secret("stripe"))

    @cached_property
    def _read_secret(self) -> Callable[[str], str]:
        return secret_reader(self._session.client("secretsmanager", config=MESSAGING))

    def _stripe(self, api_key: str) -> "PaymentProvider":
        # Only the functions that charge carry Stripe's SDK.
        from oncely.adapters.stripe_payments import StripePayments  # noqa: PLC0415

        return StripePayments.with_key(api_key, api_base=self._settings.stripe_api_base)
