"""The HTTP requests and responses of the sandbox."""

import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from http.client import responses
from typing import Any, Final
from urllib.parse import parse_qsl

NowFunction = Callable[[], datetime]
SandboxHandler = Callable[[], "SandboxResponse"]

_FORM_NAME_PARTS: Final = re.compile(r"[^\[\]]+")
# The caller chooses its keys, so numeric keys do not make it a list.
_FREE_FORM: Final = "metadata"


def now() -> datetime:
    """The current time."""
    return datetime.now(UTC)


def new_id(prefix: str) -> str:
    """Generate an id such as `pi_4f0c…`."""
    return f"{prefix}_{uuid.uuid4().hex[:24]}"


def counting_ids() -> Callable[[str], str]:
    """Ids such as `pi_1` and `pi_2`, the same in every run."""
    numbers: Counter[str] = Counter()

    def next_id(prefix: str) -> str:
        numbers[prefix] += 1
        return f"{prefix}_{numbers[prefix]}"

    return next_id


@dataclass(frozen=True)
class SandboxRequest:
    """A complete HTTP request."""

    method: str
    path: str
    at: datetime
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    request_id: str = field(default_factory=lambda: new_id("req"))
    fault: str | None = None  # that hit it, in the ledger

    @property
    def idempotency_key(self) -> str | None:
        return self.headers.get("idempotency-key") or None

    @cached_property
    def params(self) -> dict[str, Any]:
        if "json" in self.headers.get("content-type", ""):
            try:
                document = json.loads(self.body)
            except ValueError:
                return {}
            return document if isinstance(document, dict) else {}
        text = self.body.decode(errors="replace") if self.body else self.query
        return _parse_form(parse_qsl(text, keep_blank_values=True))


@dataclass(frozen=True)
class SandboxResponse:
    """An HTTP response with a JSON body, or with a text of another type."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None  # instead of `body`
    content_type: str = "application/json"

    @property
    def content(self) -> bytes:
        """The body as it is sent."""
        text = json.dumps(self.body, default=str) if self.text is None else self.text
        return text.encode()

    def with_headers(self, **more: str) -> "SandboxResponse":
        """Add headers. A `_` in a name stands for `-`."""
        named = {name.replace("_", "-"): value for name, value in more.items()}
        return replace(self, headers={**self.headers, **named})


def encode_response(
    response: SandboxResponse, content: bytes | None = None, *, cut: bool = False
) -> bytes:
    """Write a response as HTTP, with other content than its own, or cut in the middle of it."""
    sent = response.content if content is None else content
    headers = {
        **response.headers,
        "Content-Type": response.content_type,
        "Content-Length": str(len(sent)),
    }
    lines = [f"HTTP/1.1 {response.status} {responses.get(response.status, '')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head + (sent[: len(sent) // 2] if cut else sent)


def _parse_form(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Parse nested form fields such as `metadata[job_key]=…` and `expand[0]=…`."""
    root: dict[str, Any] = {}
    for name, value in fields:
        *path, last = _FORM_NAME_PARTS.findall(name) or [name]
        branch = root
        for part in path:
            branch = branch.setdefault(part, {})
        branch[last] = value
    return {
        name: value if name == _FREE_FORM else _with_lists(value) for name, value in root.items()
    }


def _with_lists(value: object) -> object:
    if not isinstance(value, dict):
        return value
    inner = {name: _with_lists(item) for name, item in value.items()}
    if inner and all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner
