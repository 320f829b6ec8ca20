"""What a provider is asked and what it answers, whatever the provider."""

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import parse_qsl

from oncely.providers.stripe.sandbox.forms import parse_nested

NowFunction = Callable[[], datetime]
SandboxHandler = Callable[[], "SandboxResponse"]


def now() -> datetime:
    """Read the machine's clock."""
    return datetime.now(UTC)


def new_id(prefix: str) -> str:
    """Make an id of the provider's look, like `pi_4f0c…`."""
    return f"{prefix}_{uuid.uuid4().hex[:24]}"


@dataclass(frozen=True)
class SandboxRequest:
    """One HTTP request, read to its end."""

    method: str
    path: str
    at: datetime
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    request_id: str = field(default_factory=lambda: new_id("req"))

    @property
    def idempotency_key(self) -> str | None:
        """The caller's key, if it sent one."""
        return self.headers.get("idempotency-key") or None

    @cached_property
    def params(self) -> dict[str, Any]:
        """The query, the form or the JSON document, as nested values."""
        if "json" in self.headers.get("content-type", ""):
            try:
                document = json.loads(self.body)
            except ValueError:
                return {}
            return document if isinstance(document, dict) else {}
        text = self.body.decode(errors="replace") if self.body else self.query
        return parse_nested(parse_qsl(text, keep_blank_values=True))


@dataclass(frozen=True)
class SandboxResponse:
    """One HTTP answer; the body is sent as JSON."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    def with_headers(self, **more: str) -> "SandboxResponse":
        """Add headers, with `_` for `-` in their names."""
        named = {name.replace("_", "-"): value for name, value in more.items()}
        return SandboxResponse(self.status, self.body, {**self.headers, **named})


class ProviderApi(Protocol):
    """One provider's HTTP interface."""

    def serves(self, path: str) -> bool:
        """Say whether this path is this provider's."""

    def error_response(self, request: SandboxRequest, *, status: int) -> SandboxResponse:
        """Give the provider's own form of an error that nobody caused on purpose."""

    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        """Answer the request; what changes anything runs inside `around`."""
