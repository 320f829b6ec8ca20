"""What a contract may use."""

from datetime import timedelta
from typing import Any, Protocol, TypeVar

from oncely.aws.business_tables import BusinessTable
from oncely.aws.sqs import MessageSender
from oncely.contracts.resources import JobSettings
from oncely.core.schedule import Clock
from oncely.core.store import JobStore
from oncely.plugins.provider import AnyProvider, Provider

T = TypeVar("T")
S = TypeVar("S", bound=JobSettings)


class Dependencies(Protocol):
    """What a contract may use. Each is created on first use."""

    @property
    def clock(self) -> Clock:
        """The clock, for a precheck that depends on the time."""

    def table(self, name: str) -> BusinessTable:
        """Return a business table by its short name, such as `orders`."""

    def retention(self, table: str) -> timedelta:
        """Return how long rows of a business table are kept, if its schema has a default."""

    def job_store(self) -> JobStore:
        """Return the job table, to read other jobs."""

    def secret(self, name: str) -> str:
        """Return a secret by its short name, such as `acme`."""

    def job_settings(self, settings_type: type[S]) -> S:
        """Return the settings that the contract's resources declare."""

    def message_sender(self, queue: str) -> MessageSender:
        """Return the sender of a queue by its short name, such as `sync`."""

    def provider(self, plugin: Provider[T, Any]) -> T:
        """Return the client of a provider in the contract's resources."""

    def is_configured(self, plugin: AnyProvider) -> bool:
        """Return whether a provider's optional settings are present, such as a sender address."""
