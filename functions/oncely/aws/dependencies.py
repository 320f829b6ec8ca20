"""The tools that contracts are built from; each is made on first use, once."""

import threading
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from oncely.aws.business_tables import DynamoBusinessTable
from oncely.aws.clients import AwsClients
from oncely.aws.dynamodb_job_store import DynamoJobStore
from oncely.aws.secrets_manager import cached_secret_reader
from oncely.aws.sqs import SqsMessageSender
from oncely.domain.errors import NotConfiguredError
from oncely.http.pace import RateLimiter
from oncely.providers.ses.mailer import SesMailer
from oncely.settings import DependencySettings

if TYPE_CHECKING:
    from oncely.ports import BusinessTable, MessageSender
    from oncely.providers.interfaces import Crm, Mailer, PaymentProvider

# The adapters that load a provider's SDK, by the secret that opens the provider; only the
# functions that have the secret carry the SDK.
_SDK_MODULES: Final = {
    "stripe": "oncely.providers.stripe.payments",
    "hubspot": "oncely.providers.hubspot.crm",
}


class AwsDependencies:
    """The tools of one function; safe to share between its threads."""

    def __init__(
        self,
        settings: DependencySettings,
        clients: AwsClients,
        *,
        queues: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._clients = clients
        self._queues = settings.queues if queues is None else queues
        self._secret_lock = threading.Lock()
        self._stripe_rate_limiter = RateLimiter(settings.stripe_reads_per_second)
        self._hubspot_rate_limiter = RateLimiter(settings.hubspot_reads_per_second)
        self._payments = lru_cache(maxsize=2)(self._stripe)
        self._crm = lru_cache(maxsize=2)(self._hubspot)

    def preload(self) -> None:
        """Load what the first message needs; no connection is opened."""
        for name in self._settings.secrets:
            _ = self._read_secret
            if sdk := _SDK_MODULES.get(name):
                import_module(sdk)

    def job_store(self) -> DynamoJobStore:
        """Give the job table."""
        settings = self._settings
        return DynamoJobStore(
            client=self._clients.dynamodb,
            table=settings.jobs_table,
            tables=settings.tables,
            due_shards=settings.due_shards,
        )

    def table(self, name: str) -> "BusinessTable":
        """Give a business table by its short name."""
        return DynamoBusinessTable(
            self._clients.dynamodb, _require_name(name, self._settings.tables, "table")
        )

    def message_sender(self, queue: str) -> "MessageSender":
        """Give a queue to send to by its short name."""
        return SqsMessageSender(
            client=self._clients.sqs, queue_url=_require_name(queue, self._queues, "queue")
        )

    def secret(self, name: str) -> str:
        """Give a secret by its short name."""
        secret_id = _require_name(name, self._settings.secrets, "secret")
        with self._secret_lock:
            return self._read_secret(secret_id)

    def payments(self) -> "PaymentProvider":
        """Give Stripe, with the key as it is now: a rotated one makes a new client."""
        return self._payments(self.secret("stripe"))

    def crm(self) -> "Crm":
        """Give HubSpot, with the token as it is now."""
        return self._crm(self.secret("hubspot"))

    def mailer(self) -> "Mailer | None":
        """Give SES, if there is an address to send from."""
        sender = self._settings.sender_address
        return SesMailer(new_client=self._clients.new_ses, sender=sender) if sender else None

    @cached_property
    def _read_secret(self) -> Callable[[str], str]:
        return cached_secret_reader(self._clients.secrets)

    def _stripe(self, api_key: str) -> "PaymentProvider":
        # Only the functions that charge carry Stripe's SDK.
        from oncely.providers.stripe.payments import StripePayments  # noqa: PLC0415

        base = self._settings.stripe_api_base
        return StripePayments.from_api_key(api_key, api_base=base, pace=self._stripe_rate_limiter)

    def _hubspot(self, token: str) -> "Crm":
        # Only the functions that talk to the CRM carry HubSpot's SDK.
        from oncely.providers.hubspot.crm import HubSpotCrm  # noqa: PLC0415

        settings = self._settings
        names = (name.strip() for name in settings.hubspot_properties.split(","))
        return HubSpotCrm.from_token(
            token,
            api_base=settings.hubspot_api_base,
            properties=tuple(name for name in names if name),
            id_property=settings.hubspot_id_property,
            pace=self._hubspot_rate_limiter,
        )


def _require_name(name: str, known: Mapping[str, str], kind: str) -> str:
    try:
        return known[name]
    except KeyError:
        raise NotConfiguredError(
            f"the {kind} {name!r} is not among the needs of this function's contracts"
        ) from None
