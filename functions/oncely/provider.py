"""The plug-in of a provider: one object that engine, CLI and constructs read."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from oncely.domain.profiles import ProviderProfile
from oncely.health import Finding
from oncely.http.pace import UNLIMITED, RateLimiter


class ProviderSettings(BaseModel):
    """Settings of one provider. The field `api_base` of `acme` is read from ACME_API_BASE."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    # Read rate of this function; None means unlimited.
    reads_per_second: Annotated[float, Field(gt=0)] | None = None


T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S", bound=ProviderSettings)


@dataclass(frozen=True, kw_only=True)
class ProviderAccess(Generic[S]):
    """What a plug-in builds its client from."""

    settings: S
    api_key: str = ""  # empty if the provider has none
    rate_limiter: RateLimiter = field(default_factory=lambda: UNLIMITED)
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
    reason: str  # why the resource has a wildcard, for cdk-nag


class Provider(ABC, Generic[T_co, S]):
    """A plug-in: everything that differs between two providers, and the client that jobs call."""

    name: ClassVar[str]  # such as `acme`: names its secret and settings
    profile: ClassVar[ProviderProfile]
    settings_type: ClassVar[type[ProviderSettings]] = ProviderSettings
    has_api_key: ClassVar[bool] = True
    secret: ClassVar[str | None] = None  # the short name of its secret, if that is not `name`
    api_key_prefixes: ClassVar[tuple[str, ...]] = ("",)
    test_key_prefixes: ClassVar[tuple[str, ...]] = ()
    # The layer with its SDK: requirements/layer-<name>.txt. None if the runtime layer has it.
    layer: ClassVar[str | None] = None
    # Reads that all functions of a stage may make together; test accounts may allow fewer.
    max_reads_per_second: ClassVar[int | None] = None
    max_test_reads_per_second: ClassVar[int | None] = None
    # Modules that the first call imports; loaded at start where the provider is used.
    preload: ClassVar[tuple[str, ...]] = ()
    # The environment variable that botocore reads its address from, if it is an AWS service.
    endpoint_env_var: ClassVar[str | None] = None

    @abstractmethod
    def connect(self, access: ProviderAccess[S]) -> T_co:
        """Build the client. Called again when the API key was rotated."""

    def is_configured(self, settings: S) -> bool:
        """Return whether its optional settings are present. Without them its jobs do nothing."""
        del settings
        return True

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

    def console_url(self, reference: str, *, key_scope: str) -> str | None:
        """Return the URL of the effect in the provider's console. Returns None if it has none."""
        del reference, key_scope
        return None

    @property
    def secret_name(self) -> str | None:
        """The short name of the secret with its API key."""
        return (self.secret or self.name) if self.has_api_key else None

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
