"""One provider in the sandbox. A plug-in sets its subclass, which the local stack uses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pkgutil import resolve_name
from typing import Any, ClassVar

from oncely.contracts.job import AnyJob
from oncely.plugins.http_provider import HttpProvider
from oncely.plugins.provider import AnyProvider
from oncely.testing.memory_aws.calls import MemoryClient
from oncely.testing.sandbox.faults import FaultKind
from oncely.testing.sandbox.http_messages import (
    NowFunction,
    SandboxHandler,
    SandboxRequest,
    SandboxResponse,
    new_id,
    now,
)
from oncely.testing.sandbox.ledger import ProviderLedger


@dataclass(frozen=True, kw_only=True)
class SandboxOptions:
    """The behavior of a sandbox's providers."""

    clock: NowFunction = now
    new_id: Callable[[str], str] = new_id  # with this prefix
    honors_idempotency_keys: bool = True
    key_window: timedelta | None = None  # None for the provider's own

    def now(self) -> datetime:
        """Read the clock."""
        return self.clock()


class ProviderSandbox(ABC):
    """The HTTP API of one provider, its ledger, and what a local stack needs to use it."""

    path_prefix: ClassVar[str]  # of its paths, which no other provider has
    # The requests of each method of the client, as `FaultSet.add` takes them.
    requests: ClassVar[Mapping[str, Mapping[str, str]]]
    # The number of `lookup` requests that a method makes before its own.
    reads_before: ClassVar[Mapping[str, int]] = {}
    # For the local stack: an API key that the sandbox accepts, and the plug-in's settings.
    api_key: ClassVar[str] = ""
    signing_secret: ClassVar[str] = ""  # of its events at an HTTPS endpoint
    settings: ClassVar[Mapping[str, str]] = {}
    # Values for sample rows, by what happens to them, such as `paid` and `declined`.
    samples: ClassVar[Mapping[str, str]] = {}
    # The faults of the demo: kind, method of the client, and percentage of its requests.
    fault_rates: ClassVar[tuple[tuple[FaultKind, str, float], ...]] = ()
    # The method whose response sometimes never ends. None if none should hang.
    hanging_call: ClassVar[str | None] = None
    # Where the model knowingly differs from the vendor's published description, in words, each with
    # patterns of the differences that tests find. None if the vendor publishes none as data.
    differs: ClassVar[Mapping[str, tuple[str, ...]] | None] = None

    ledger: ProviderLedger
    # Receives the provider's events in the format of its API. Must not block.
    on_event: Callable[[Mapping[str, Any]], None] = staticmethod(lambda _: None)

    def __init__(self, options: SandboxOptions) -> None:
        self.options = options

    def __getstate__(self) -> dict[str, Any]:
        # The receiver of events belongs to the running stack, not to its saved data.
        return {name: value for name, value in vars(self).items() if name != "on_event"}

    @abstractmethod
    def error_response(self, request: SandboxRequest, *, status: int) -> SandboxResponse:
        """Build an error response in the provider's format."""

    @abstractmethod
    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        """Handle the request. Everything with side effects runs inside `wrap`."""

    def aws_client(self) -> MemoryClient | None:
        """The client of its API in memory, if it is an AWS service."""
        return None

    def is_read(self, request: SandboxRequest) -> bool:
        """Whether the request changes nothing. Some vendors post their searches."""
        return request.method == "GET" or "search" in request.path.rpartition("/")[2]

    def request_name(self, request: SandboxRequest) -> str:
        """The method of the client that sends such a request, for schedules."""
        for name, pattern in self.requests.items():
            if fnmatchcase(request.method, pattern["method"]) and fnmatchcase(
                request.path, pattern["path"]
            ):
                return name
        return request.method.lower()

    def add_samples(self, number: int) -> list[str]:
        """Add records for jobs to read, such as contacts. Returns their ids."""
        del number
        return []

    def complete_pending_since(self, moment: datetime) -> None:
        """Decide the effects that have been pending since before this time."""
        del moment


def sandbox_type(plugin: AnyProvider, jobs: Sequence[type[AnyJob]] = ()) -> type[ProviderSandbox]:
    """The sandbox of a plug-in. That of an `HttpProvider` follows from the jobs that call it."""
    if plugin.sandbox is None and isinstance(plugin, HttpProvider):
        from oncely.testing.http_model import http_model  # noqa: PLC0415  # which imports this module

        return http_model(plugin, jobs)
    if plugin.sandbox is None:
        raise ValueError(f"the plug-in {plugin.name} has no model: set its `sandbox`")
    found: type[ProviderSandbox] = resolve_name(plugin.sandbox)
    return found
