"""The plug-in of a provider: one object that engine, CLI, constructs and local stack read."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict

from oncely.core.effect_outcomes import Json, LookupFailed, NotFound
from oncely.core.hints import DropReason
from oncely.core.profiles import EndpointGroup, ProviderProfile, check_rate
from oncely.plugins.events import EffectChange, EventEnvelope, EventRule, ProviderEvent
from oncely.plugins.health import Finding

_SERVER_ERROR: Final = 500


class ProviderSettings(BaseModel):
    """Settings of one provider. The field `api_base` of `acme` is read from ACME_API_BASE."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    # Instead of the rates of the profile; "inf" for none. All functions share the gate.
    effects_per_second: Annotated[float, AfterValidator(check_rate)] | None = None
    lookups_per_second: Annotated[float, AfterValidator(check_rate)] | None = None

    def rate(self, group: EndpointGroup, profile: ProviderProfile) -> float | None:
        """Return the rate of the stage, or else of the profile. Returns None for no limit."""
        rate = {
            EndpointGroup.EFFECTS: self.effects_per_second or profile.effects_per_second,
            EndpointGroup.LOOKUPS: self.lookups_per_second or profile.lookups_per_second,
        }[group]
        return None if rate == math.inf else rate


@dataclass
class GatedResponse:
    """The HTTP status of a response, which the client sets."""

    status: int | None = None  # None if there was no response

    @property
    def failed(self) -> bool:
        """Whether the provider did not respond, or with a server error. A decline is no failure."""
        return self.status is None or self.status >= _SERVER_ERROR


class RequestGate:
    """The gate of one provider, as its client sees it. This one lets every request through."""

    @contextmanager
    def request(
        self, endpoint: str = "", *, group: EndpointGroup | None = None
    ) -> Iterator[GatedResponse]:
        """Wait for the turn of a request, and report its response.

        Without a group it is that of the run or lookup. A provider that counts all requests
        together has one endpoint. Raises GateClosedError if the request must not be sent.
        """
        del endpoint, group
        yield GatedResponse()


UNGATED: Final = RequestGate()


@dataclass(frozen=True)
class Network:
    """The clocks of clients, and what opens a connection to a host and a port."""

    monotonic: Callable[[], float] = time.monotonic  # of deadlines
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    # Returns a connected socket, or raises an OSError. None for a real connection.
    open_socket: Callable[[str, int], Any] | None = None


INTERNET: Final = Network()


T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S", bound=ProviderSettings)


@dataclass(frozen=True, kw_only=True)
class ProviderAccess(Generic[S]):
    """What a plug-in builds its client from."""

    settings: S
    api_key: str = ""  # empty if the provider has none
    gate: RequestGate = field(default=UNGATED)  # around each request
    network: Network = INTERNET
    # Creates a client of an AWS service, for providers that are one: (service, config).
    new_aws_client: Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True)
class ApiKeyCheck:
    """Whether a provider accepts an API key; None if the check failed."""

    accepted: bool | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class IamGrant:
    """Actions that a worker needs beyond its API key, with the narrowest condition."""

    actions: tuple[str, ...]
    service: str
    resource: str  # such as `identity/*`
    string_equals: Mapping[str, str]
    reason: str  # why the resource has a wildcard, if it has one, for cdk-nag


@dataclass(frozen=True, kw_only=True)
class StackResource:
    """An AWS resource that the stack creates for a provider, in CloudFormation's terms."""

    id: str  # unique in its plug-in
    type: str
    properties: Mapping[str, Any]
    setting: str | None = None  # the field of the plug-in's settings that gets its name


class Provider(ABC, Generic[T_co, S]):
    """A plug-in: everything that differs between two providers, and the client that jobs call."""

    # Of a class, or of each instance if one class serves several providers.
    name: str  # such as `acme`: names its secret and settings
    profile: ProviderProfile
    has_api_key: bool = True
    settings_type: ClassVar[type[ProviderSettings]] = ProviderSettings
    secret: ClassVar[str | None] = None  # the short name of its secret, if that is not `name`
    # The settings without which a stage does not use it: its jobs do nothing there.
    required_settings: ClassVar[tuple[str, ...]] = ()
    api_key_prefixes: ClassVar[tuple[str, ...]] = ("",)
    test_key_prefixes: ClassVar[tuple[str, ...]] = ()
    # The layer with its SDK: layer-<name>.txt in the pins of `oncely_cdk`. None if it needs none.
    layer: ClassVar[str | None] = None
    # Modules that the first call imports; loaded at start where the provider is used.
    preload: ClassVar[tuple[str, ...]] = ()
    # Its model, a `ProviderSandbox` of `oncely.testing.sandbox`: for tests, the explorer and the
    # local stack only, as "module:attribute", so that no function loads it.
    sandbox: ClassVar[str | None] = None
    # What it documents, a `ProviderFacts` for the docs only, in the same form.
    facts: ClassVar[str | None] = None
    # Whether absence counts only after a lookup has found an effect, since its path may be wrong.
    must_prove_lookups: bool = False
    # Before each path of its model on this machine: "/acme" if its own paths may be another's.
    local_path: str = ""
    webhook_header: ClassVar[str] = ""  # in lower case, with the signature of an event
    # The environment variable that botocore reads its address from, if it is an AWS service.
    endpoint_env_var: ClassVar[str | None] = None

    @abstractmethod
    def connect(self, access: ProviderAccess[S]) -> T_co:
        """Build the client. Called again when the API key was rotated."""

    def is_configured(self, settings: S) -> bool:
        """Return whether a stage uses it."""
        return all(getattr(settings, name) is not None for name in self.required_settings)

    def responds(self, client: Any) -> bool | None:  # noqa: ANN401  # its own client
        """Return whether the provider responds to one read, after an outage.

        Returns None if there is no such read. Then one job is the probe.
        """
        del client
        return None

    def check_api_key(self, api_key: str, settings: S) -> ApiKeyCheck | None:
        """Check an API key at the provider. Returns None if the provider has no such check."""
        del api_key, settings
        return None

    def check_health(self, access: ProviderAccess[S], *, is_production: bool) -> Iterator[Finding]:
        """Yield findings for `oncely doctor` beyond the API key."""
        del access, is_production
        yield from ()

    def iam_grants(self, settings: S) -> tuple[IamGrant, ...]:
        """Return the AWS permissions of a worker that calls it."""
        del settings
        return ()

    def stack_resources(
        self, settings: S, *, name: str, event_bus: str
    ) -> tuple[StackResource, ...]:
        """Return the AWS resources that the stack creates for it, each after those before it.

        `name` is unique in the account and its region, `event_bus` the ARN of the default bus.
        """
        del settings, name, event_bus
        return ()

    def console_url(
        self, reference: str, *, key_scope: str, settings: S, is_dispute: bool = False
    ) -> str | None:
        """Return the URL of an object in the provider's console. Returns None if it has none.

        Do not trust the id: a row may have been edited.
        """
        del reference, key_scope, settings, is_dispute
        return None

    def event_rules(self, settings: S) -> tuple[EventRule, ...]:
        """Return which events reach Oncely through EventBridge. None if they are off."""
        del settings
        return ()

    def webhook_rules(self, settings: S) -> tuple[EventRule, ...]:
        """Return which events reach Oncely through an HTTPS endpoint. None if it is off."""
        del settings
        return ()

    def verify_webhook(
        self, body: str, headers: Mapping[str, str], *, secrets: Sequence[str]
    ) -> Mapping[str, Json] | None:
        """Return the event in a request, if one of the signing secrets signed it just now.

        `headers` have lower-case names. Returns None for anything else.
        """
        del body, headers, secrets
        return None

    def all_event_rules(self, settings: S) -> tuple[EventRule, ...]:
        """Return the rules of both ways."""
        return (*self.event_rules(settings), *self.webhook_rules(settings))

    def read_event(self, envelope: EventEnvelope) -> ProviderEvent | DropReason:
        """Read an event of its rules, or return why it is dropped. Stores and asks nothing."""
        del envelope
        return DropReason.UNKNOWN_TYPE

    def read_change(
        self,
        client: Any,  # noqa: ANN401  # its own client
        event: ProviderEvent,
    ) -> EffectChange | NotFound | LookupFailed:
        """Ask the provider what an event with `ChangedLater` is about. Read-only."""
        del client
        return NotFound(f"{event.object_id} cannot be looked up")

    @property
    def secret_name(self) -> str | None:
        """The short name of the secret with its API key."""
        return (self.secret or self.name) if self.has_api_key else None

    @property
    def webhook_secret_name(self) -> str:
        """The short name of the secret with the signing secrets of its HTTPS endpoint."""
        return f"{self.name}_webhook"

    def env_var(self, field: str) -> str:
        """Return the environment variable of a setting."""
        return f"{self.name}_{field}".upper()

    def read_settings(self, environ: Mapping[str, str]) -> ProviderSettings:
        """Parse its settings, or raise pydantic's ValidationError."""
        values = {
            field: environ.get(self.env_var(field)) for field in self.settings_type.model_fields
        }
        return self.settings_type.model_validate(
            {field: value for field, value in values.items() if value}
        )


AnyProvider: TypeAlias = Provider[Any, Any]
