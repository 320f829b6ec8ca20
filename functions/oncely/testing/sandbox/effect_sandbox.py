"""The sandbox of a provider with one kind of effect, for a team's own provider."""

from collections.abc import Callable
from typing import ClassVar, Literal

from oncely.testing.sandbox.http_messages import (
    SandboxHandler,
    SandboxRequest,
    SandboxResponse,
    new_id,
)
from oncely.testing.sandbox.ledger import ProviderLedger, RecordedEffect, job_key_in
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions


class EffectSandbox(ProviderSandbox):
    """An HTTP API: POST <path>/<id> performs the effect, and GET <path>/<id> looks it up.

    Both respond with its reference as `id`. The API key is a bearer token.
    """

    path: ClassVar[str]  # such as /vouchers
    kind: ClassVar[str]  # plural, as reports show it
    # What makes a second POST return the first effect: the same key, or the same id in the path.
    deduplicates_by: ClassVar[Literal["key", "path"] | None] = "key"

    ledger: "EffectLedger"

    def __init_subclass__(cls) -> None:
        """Name the requests, for faults."""
        cls.path_prefix = f"{cls.path}/"
        cls.requests = {
            "do": {"method": "POST", "path": f"{cls.path}/*"},
            "find": {"method": "GET", "path": f"{cls.path}/*"},
        }

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.ledger = EffectLedger(self.kind)

    def error_response(self, request: SandboxRequest, *, status: int) -> SandboxResponse:
        del request
        return SandboxResponse(status, {"error": status})

    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        if self.api_key and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return self.error_response(request, status=401)
        match request.method:
            case "POST":
                return wrap(lambda: self._perform(request))
            case "GET":
                return wrap(lambda: self._look_up(request))
            case _:
                return self.error_response(request, status=405)

    def _perform(self, request: SandboxRequest) -> SandboxResponse:
        key = request.idempotency_key or ""
        same: str | None = None
        if self.deduplicates_by == "path":
            same = request.path
        elif self.deduplicates_by == "key" and self.options.honors_idempotency_keys:
            same = key or None
        reference = self.ledger.perform(path=request.path, key=key, same=same)
        return SandboxResponse(201, {"id": reference})

    def _look_up(self, request: SandboxRequest) -> SandboxResponse:
        if (reference := self.ledger.references.get(request.path)) is None:
            return self.error_response(request, status=404)
        return SandboxResponse(200, {"id": reference})


class EffectLedger(ProviderLedger):
    """The effects that really happened."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self._by_identity: dict[str, str] = {}  # references
        self.references: dict[str, str] = {}  # of the first effects, by path

    def perform(self, *, path: str, key: str, same: str | None) -> str:
        """Record an effect, or return the reference of the first with this identity."""
        with self.lock:
            reference = new_id(self._kind.rstrip("s"))
            first = self._by_identity.setdefault(same or reference, reference)
            if first != reference:
                return first
            effect = RecordedEffect(kind=self._kind, key=job_key_in(key), reference=reference)
            self.put(reference, effect)
            self.references.setdefault(path, reference)
            return reference

    def effects(self) -> tuple[RecordedEffect, ...]:
        return self.all(RecordedEffect)
