"""The ledger: every request, and what really happened at a provider."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from oncely.testing.sandbox.http_messages import SandboxRequest


@dataclass(frozen=True)
class RecordedRequest:
    """A received request, whatever its outcome."""

    method: str
    path: str
    idempotency_key: str | None
    params: Mapping[str, Any]
    at: datetime
    request_id: str
    fault: str | None


class RequestLedger:
    """A thread-safe record. A read followed by a write must hold `lock`.

    Each provider extends it with its own entries; a sandbox of several providers combines them.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._requests: list[RecordedRequest] = []

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        with self.lock:
            return tuple(self._requests)

    @property
    def paths(self) -> Counter[str]:
        """The number of requests by method and path, such as `GET /v1/refunds`."""
        return Counter(f"{one.method} {one.path}" for one in self.requests)

    def record(self, request: SandboxRequest, *, fault: str | None) -> None:
        entry = RecordedRequest(
            method=request.method,
            path=request.path,
            idempotency_key=request.idempotency_key,
            params=request.params,
            at=request.at,
            request_id=request.request_id,
            fault=fault,
        )
        with self.lock:
            self._requests.append(entry)

    def save(self, *entries: object, at: datetime) -> None:
        with self.lock:
            for entry in entries:
                self._save_entry(entry, at)

    def _save_entry(self, entry: object, at: datetime) -> None:
        raise TypeError(f"no ledger at {at} keeps a {type(entry).__name__}")

    def to_dict(self) -> dict[str, Any]:
        with self.lock:
            return {"requests": [asdict(one) for one in self.requests], "paths": dict(self.paths)}
