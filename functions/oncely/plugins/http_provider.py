"""The plug-in of an HTTP API with JSON. What its responses mean is data, with safe defaults."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    LookupFailed,
    NotFound,
    NotSent,
    Pending,
    Succeeded,
)
from oncely.core.errors import NotConfiguredError
from oncely.core.keys import MAX_IDEMPOTENCY_KEY_LENGTH
from oncely.core.profiles import ProviderProfile
from oncely.plugins.provider import Provider, ProviderAccess, ProviderSettings

if TYPE_CHECKING:
    from oncely.plugins.http_client import HttpClient

JsonScalar: TypeAlias = str | int | float | bool | None
_State: TypeAlias = Succeeded | Declined | Pending | Anomalous
EffectMeaning: TypeAlias = type[_State | NotSent | Ambiguous]
LookupMeaning: TypeAlias = type[_State | NotFound | LookupFailed]
# By status (422), by class of statuses ("4xx"), or by the values of a field: {"status": {…}}.
EffectAnswers: TypeAlias = Mapping[int | str, EffectMeaning | Mapping[JsonScalar, EffectMeaning]]
LookupAnswers: TypeAlias = Mapping[int | str, LookupMeaning | Mapping[JsonScalar, LookupMeaning]]

SUCCESSES: Final = range(200, 300)
# Our API key is wrong, or that of a proxy.
REJECTED_KEY: Final = frozenset({401, 403, 407})
# Our address, path or method is wrong. A lookup may also get a 404 for an effect that is absent.
WRONG_ADDRESS: Final = frozenset({404, 405, 410, 421})
TOO_MANY_REQUESTS: Final = 429

# A status counts before its class, and what is not listed proves nothing.
EFFECT_DEFAULTS: Final[Mapping[int | str, Any]] = {
    **dict.fromkeys((200, 201, 204), Succeeded),
    202: Ambiguous,  # only accepted: the lookup tells
    "4xx": Declined,
    **dict.fromkeys((*REJECTED_KEY, *WRONG_ADDRESS, TOO_MANY_REQUESTS), NotSent),
    # A timeout, or a conflict with a request that may be this one.
    **dict.fromkeys((408, 409, 423, 425, 499), Ambiguous),
}
LOOKUP_DEFAULTS: Final[Mapping[int | str, Any]] = {200: Succeeded, 404: NotFound}

_STATES: Final = (Succeeded, Declined, Pending, Anomalous)
_EFFECT_MEANINGS: Final = (*_STATES, NotSent, Ambiguous)
_LOOKUP_MEANINGS: Final = (*_STATES, NotFound, LookupFailed)
_STATUSES: Final = range(200, 600)
_CLASSES: Final = frozenset({"2xx", "3xx", "4xx", "5xx"})
# What all statuses of a class can prove. After a 5xx, anything may have happened.
_PROVED_BY_CLASS: Final = {"2xx": (Succeeded, Pending), "4xx": (Declined, NotSent)}

_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})
# At most this share of a key's window is left unused, so that a short one is of use.
_MAX_MARGIN_SHARE: Final = 4
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_STAGE_URL: Final = re.compile(r"https?://[^\s?#@]+")  # the local stack has no TLS
_BASE_URL: Final = re.compile(r"https://[^\s?#@]+")
_DURATION: Final = re.compile(r"(\d{1,6})([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the responses to an effect, or to a lookup, mean."""

    statuses: Mapping[int | str, type]
    # The field of a success, or of a 202, whose value decides instead of the status.
    field: str  # "" if the status alone decides
    values: Mapping[JsonScalar, type]

    def of_status(self, status: int) -> type:
        """Return the meaning of a status. `LookupFailed` and `Ambiguous` prove nothing."""
        return self.statuses.get(status) or self.statuses.get(f"{status // 100}xx", LookupFailed)

    def of_value(self, value: Any) -> type:  # noqa: ANN401  # any JSON
        """Return the meaning of a value of the field. One that is not listed proves nothing."""
        return (
            LookupFailed if isinstance(value, dict | list) else self.values.get(value, LookupFailed)
        )


class HttpSettings(ProviderSettings):
    """The address in a stage: `vouchers_api_base` under `[provider_settings]` in its file."""

    api_base: str | None = None


class HttpProvider(Provider["HttpClient", HttpSettings]):
    """An HTTP API with JSON: its address, the facts that decisions rest on, and its answers.

    Take each number from the provider's documentation. Its API key is in the secret of its name.
    """

    settings_type = HttpSettings
    must_prove_lookups = True
    preload = ("oncely.plugins.http_client",)

    def __init__(
        self,
        name: str,
        *,
        base_url: str = "",  # a stage may set another
        key_ttl: str | timedelta | None = None,  # how long it remembers an idempotency key
        lookup_lag: str | timedelta | None = None,  # how long a lookup may miss a new effect
        timeout: str | timedelta = "10s",  # of a whole request
        auth: str | None = "bearer",  # or "basic", or a header such as "X-Api-Key"
        headers: Mapping[str, str] = _NOTHING,  # of each request, such as the API's version
        idempotency_header: str = "Idempotency-Key",
        max_key_length: int = MAX_IDEMPOTENCY_KEY_LENGTH,
        max_calls: int = 1,  # requests of one run, one after the other
        effects_per_second: float | None = None,  # that it accepts; None for no limit
        lookups_per_second: float | None = None,
        reference: str | None = "id",  # where a response has the reference, as in "data.id"
        result: str | tuple[str, ...] = (),  # fields of the response that the job's result keeps
        answers: EffectAnswers = _NOTHING,  # beside EFFECT_DEFAULTS
        lookup_answers: LookupAnswers = _NOTHING,  # beside LOOKUP_DEFAULTS
        absent_body: Mapping[str, JsonScalar] = _NOTHING,  # fields of the 404 of an absent effect
    ) -> None:
        self.name, self.base_url, self.auth, self.headers = name, base_url, auth, headers
        self.idempotency_header, self.has_api_key = idempotency_header, auth is not None
        self.reference, self.absent_body = reference, absent_body
        self.local_path = f"/{name}"
        self.result = (result,) if isinstance(result, str) else result
        try:
            self._check_texts()
            self.answers = _parse_answers("answers", answers)
            # A lookup reads the same field: without it, a failed effect would be called done.
            self.lookup_answers = _parse_answers("lookup_answers", lookup_answers, self.answers)
            ttl = None if key_ttl is None else _duration("key_ttl", key_ttl)
            lag = None if lookup_lag is None else _duration("lookup_lag", lookup_lag, least=0)
            margin = ProviderProfile.key_ttl_margin
            self.profile = ProviderProfile(
                name=name,
                request_timeout=_duration("timeout", timeout),
                max_calls=max_calls,
                key_ttl=ttl,
                key_ttl_margin=margin if ttl is None else min(margin, ttl / _MAX_MARGIN_SHARE),
                max_key_length=max_key_length,
                lookup_lag=lag,
                effects_per_second=effects_per_second,
                lookups_per_second=lookups_per_second,
            )
        except ValueError as error:
            raise ValueError(f"HttpProvider({name!r}): {error}") from None

    def connect(self, access: ProviderAccess[HttpSettings]) -> "HttpClient":
        """Build the client, which opens a connection for each request."""
        from oncely.plugins.http_client import HttpClient  # noqa: PLC0415

        base_url = access.settings.api_base or self.base_url
        if not base_url:
            raise NotConfiguredError(
                f"{self.name} has no address: set {self.env_var('api_base')}, or base_url of its "
                "HttpProvider, and deploy again"
            )
        if not _STAGE_URL.fullmatch(base_url):
            raise NotConfiguredError(
                f"{self.env_var('api_base')} is {base_url!r}: write it like "
                "https://api.example.com/v1, and deploy again"
            )
        return HttpClient(self, access, base_url=base_url.rstrip("/"))

    def is_configured(self, settings: HttpSettings) -> bool:
        return bool(settings.api_base or self.base_url)

    def _check_texts(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError("its name must be like 'acme_mail', since a secret has the same name")
        if self.base_url and not _BASE_URL.fullmatch(self.base_url):
            raise ValueError(
                f"base_url={self.base_url!r} must be like 'https://api.example.com/v1'; only the "
                f"setting {self.name}_api_base of a stage may be without TLS"
            )
        for header in (self.auth or "bearer", self.idempotency_header, *self.headers):
            if not _HEADER.fullmatch(header):
                raise ValueError(f"{header!r} is not a header: write it like 'X-Api-Key'")


def _parse_answers(
    argument: str, given: Mapping[int | str, Any], effect: Answers | None = None
) -> Answers:
    """Add what an author declares to the defaults. Raises ValueError for a mistake."""
    meanings, unclear = (
        (_EFFECT_MEANINGS, Ambiguous) if effect is None else (_LOOKUP_MEANINGS, LookupFailed)
    )
    statuses = dict(EFFECT_DEFAULTS if effect is None else LOOKUP_DEFAULTS)
    field, values = ("", {}) if effect is None else (effect.field, effect.values)
    if sum(isinstance(meaning, Mapping) for meaning in given.values()) > 1:
        raise ValueError(f"{argument} reads two fields of the body: choose one")
    for key, meaning in given.items():
        where = f"{argument}[{key!r}]"
        is_field, is_class = isinstance(meaning, Mapping), key in _CLASSES
        if is_field == (is_class or key in _STATUSES):
            raise ValueError(
                f"{where}: write a status as 404, all of a class as '4xx', and a field of the body "
                "with what its values mean, as in 'status': {'done': Succeeded}"
            )
        for one in meaning.values() if is_field else [meaning]:
            if one not in meanings:
                names = ", ".join(known.__name__ for known in meanings)
                raise ValueError(f"{where} cannot mean {one!r}: choose one of {names}")
        if is_field and (Succeeded not in meaning.values() or NotSent in meaning.values()):
            raise ValueError(
                f"{where} must list a value that means Succeeded, since a value that is not listed "
                "proves nothing, and none that means NotSent, since the request was processed"
            )
        if is_class and meaning not in {*_PROVED_BY_CLASS.get(str(key), ()), unclear}:
            raise ValueError(
                f"{where}: a {key} alone does not prove {meaning.__name__}; name each status for "
                "which the provider's documentation says so, as in 503: NotSent"
            )
        if is_field:
            field, values = str(key), meaning
        else:
            statuses[key] = meaning
    return Answers(statuses=statuses, field=field, values=values)


def _duration(argument: str, given: str | timedelta, *, least: int = 1) -> timedelta:
    found = _DURATION.fullmatch(given) if isinstance(given, str) else None
    duration = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else given
    if isinstance(duration, timedelta) and duration >= timedelta(seconds=least):
        return duration
    raise ValueError(f"{argument}={given!r} must be a number with its unit, as in '24h' or '10s'")
