"""Sends the requests of an `HttpProvider`, and reads the outcome from each response."""

import math
import re
from base64 import b64encode
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from json import dumps, loads
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlencode

from urllib3 import PoolManager, Retry, Timeout
from urllib3.exceptions import MaxRetryError

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    Json,
    LookupFailed,
    LookupOutcome,
    NotFound,
    NotSent,
    Pending,
    Succeeded,
    after_send,
)
from oncely.core.errors import GateClosedError
from oncely.plugins.http_provider import (
    REJECTED_KEY,
    SUCCESSES,
    WRONG_ADDRESS,
    Answers,
    HttpProvider,
    HttpSettings,
    JsonScalar,
)
from oncely.plugins.provider import ProviderAccess
from oncely.plugins.request_deadline import (
    CONNECT_TIMEOUT,
    apply_deadline,
    request_deadline,
    was_never_sent,
)

# An outcome needs a few fields. A larger body could fill the memory of a worker.
MAX_BODY_BYTES: Final = 1_000_000
# Of a reference, and of a field that is kept. More than providers document, and small in a row.
MAX_TEXT_LENGTH: Final = 500
_MAX_CODE_LENGTH: Final = 50
_CHUNK_BYTES: Final = 65_536
_ACCEPTED: Final = 202
_NO_CONTENT: Final = 204
# As in RFC 3986, without a query. Anything else comes from an id that is not quoted.
_PATH: Final = re.compile(r"(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)+")
_DOT_SEGMENTS: Final = frozenset({".", ".."})


class _Response(NamedTuple):
    status: int
    body: bytes
    retry_after: timedelta | None


class _MalformedBodyError(ValueError):
    """A body without what a success must have."""


class HttpClient:
    """An HTTP API. It never retries a request, follows a redirect or reuses a connection."""

    def __init__(
        self, provider: HttpProvider, access: ProviderAccess[HttpSettings], *, base_url: str
    ) -> None:
        self._provider, self.address = provider, base_url
        self._gate, self._network = access.gate, access.network
        self._pool = apply_deadline(PoolManager(), access.network)
        self._headers = {
            "Accept": "application/json",
            "User-Agent": "oncely",
            **provider.headers,
            **_credentials(provider.auth, access.api_key),
        }

    def perform(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        key: str | None = None,
        expect: Mapping[str, JsonScalar] | None = None,
    ) -> EffectOutcome:
        """Send a request that has an effect, with its idempotency key if it has one.

        A response with another value than `expect` is an anomaly. Quote an id in the path if it may
        hold more than letters and digits: `quote(order_id, safe="")`.
        """
        request, answers = f"{method} {path}", self._provider.answers
        try:
            _check_path(path)
            body = None if json is None else dumps(json, allow_nan=False)
        except (TypeError, ValueError) as error:
            return Anomalous(f"{request} was not sent: {error}")
        headers = {} if key is None else {self._provider.idempotency_header: key}
        try:
            response = self._send(method, path, headers, body)
        except GateClosedError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the effect may have happened
            reason = f"{request}: {_describe(error)}"
            return NotSent(reason) if was_never_sent(error) else Ambiguous(reason)
        reason, status = self._reason(request, response), response.status
        if answers.of_status(status) is NotSent:
            is_ours = status in REJECTED_KEY | WRONG_ADDRESS
            return NotSent(reason + _hint(status), response.retry_after, is_ours)
        return after_send(self._read(response, answers, reason, expect or {}))

    def look_up(
        self,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        expect: Mapping[str, JsonScalar] | None = None,
        one_of: str | None = None,
    ) -> LookupOutcome:
        """Read the effect. One with another value than `expect` is an anomaly.

        For a search, `one_of` is where the response has its list, or "" if it is one. An empty list
        means not found, and two entries are an anomaly. A search needs `expect`, since a provider
        may ignore a parameter that it does not know, and list the effects of others.
        """
        request = f"GET {path}"
        if one_of is not None and not expect:
            raise ValueError(
                f"{request}: a search needs a value that only this job's effect has, as in "
                "expect={'order': self.order_id}"
            )
        try:
            _check_path(path)
        except ValueError as error:
            return Anomalous(f"{request} was not sent: {error}")
        try:
            response = self._send("GET", f"{path}?{urlencode(params)}" if params else path)
        except GateClosedError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it says nothing of the effect
            return LookupFailed(f"{request}: {_describe(error)}")
        reason, answers = self._reason(request, response), self._provider.lookup_answers
        return self._read(response, answers, reason, expect or {}, one_of=one_of)

    def _send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] = MappingProxyType({}),
        body: str | None = None,
    ) -> _Response:
        limit = self._provider.profile.request_timeout
        connect_timeout = min(CONNECT_TIMEOUT, limit).total_seconds()
        content_type = {} if body is None else {"Content-Type": "application/json"}
        with self._gate.request() as gated, request_deadline(limit, self._network):
            response = self._pool.request(
                method,
                f"{self.address}{target}",
                body=body,
                headers={**self._headers, **content_type, **headers},
                timeout=Timeout(connect=connect_timeout, read=limit.total_seconds()),
                # Without it, urllib3 sends a read up to four times, and sleeps for any Retry-After.
                retries=Retry(0),
                redirect=False,
                preload_content=False,
            )
            content = bytearray()
            with closing(response):
                for chunk in response.stream(_CHUNK_BYTES):
                    content += chunk
                    if len(content) > MAX_BODY_BYTES:
                        break
            gated.status = response.status
        delay = _parse_retry_after(response.headers.get("Retry-After", ""), self._network.now())
        return _Response(response.status, bytes(content), delay)

    def _reason(self, request: str, response: _Response) -> str:
        return f"{request}: {self._provider.name} responded with {response.status}"

    def _read(
        self,
        response: _Response,
        answers: Answers,
        reason: str,
        expect: Mapping[str, JsonScalar],
        *,
        one_of: str | None = None,
    ) -> LookupOutcome:
        """Return what a response says of the effect: `LookupFailed` if it proves nothing."""
        status, meaning = response.status, answers.of_status(response.status)
        code, is_success = f"HTTP_{status}", meaning is Succeeded and status in SUCCESSES
        try:
            body = _parse_body(response)
            if meaning is NotFound:
                return self._absence(body, reason)
            if one_of is not None and is_success:
                body = _only_entry(body, one_of, reason)
                if isinstance(body, NotFound | Anomalous):
                    return body
            if answers.field and (is_success or status == _ACCEPTED):
                value = _find(body, answers.field)
                meaning, code = answers.of_value(value), str(value)[:_MAX_CODE_LENGTH]
                reason = f"{reason} and {answers.field}={code!r}"
            if meaning is NotFound:
                return NotFound(reason)
            if meaning in {Ambiguous, LookupFailed}:
                return LookupFailed(reason + _hint(status), response.retry_after)
            needs_ref = is_success and meaning is Succeeded and status != _NO_CONTENT
            ref = self._reference(body, is_required=needs_ref)
            result = {name: _find(body, name) for name in self._provider.result}
            result = {name: value for name, value in result.items() if _can_keep(value)}
            has_effect = meaning is Succeeded or status in SUCCESSES
            if has_effect and (difference := _difference(body, expect)):
                return Anomalous(f"{reason}, but {difference}", ref, result)
        except _MalformedBodyError as error:
            return LookupFailed(f"{reason}, but {error}", response.retry_after)
        return _outcome(meaning, reason, code=code, ref=ref, result=result)

    def _absence(self, body: object, reason: str) -> NotFound | LookupFailed:
        """Return what a 404 means. A wrong path gets one as well, but not the declared body."""
        declared = self._provider.absent_body
        if not declared:
            return LookupFailed(
                f"{reason}, as for a wrong path: declare in absent_body what the body has only if "
                "the effect is absent, as in {'error.code': 'not_found'}"
            )
        if all(_equals(_find(body, path), value) for path, value in declared.items()):
            return NotFound(f"{reason} and the body of an absent effect")
        return LookupFailed(f"{reason}, but without the declared absent_body: check the path")

    def _reference(self, body: object, *, is_required: bool) -> str | None:
        path = self._provider.reference
        value = None if path is None else _find(body, path)
        is_reference = isinstance(value, str | int) and not isinstance(value, bool)
        text = str(value) if is_reference else ""
        if text.isprintable() and 0 < len(text) <= MAX_TEXT_LENGTH:
            return text
        if is_required and path is not None:
            raise _MalformedBodyError(f"its body has no reference at {path!r}")
        return None


def _credentials(auth: str | None, api_key: str) -> dict[str, str]:
    match auth:
        case None:
            return {}
        case "bearer":
            return {"Authorization": f"Bearer {api_key}"}
        case "basic":
            pair = api_key if ":" in api_key else f"{api_key}:"  # a user without a password
            return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
        case header:
            return {header: api_key}


def _check_path(path: str) -> None:
    """Raise ValueError for a path that does not start with `/`, or that an id could change."""
    segments = unquote(path).split("/")
    if not _PATH.fullmatch(path) or "//" in path or not _DOT_SEGMENTS.isdisjoint(segments):
        raise ValueError(
            "start the path with '/', pass a query as params, and quote each id that may hold "
            "other characters than letters and digits, as in quote(order_id, safe='')"
        )


def _describe(error: Exception) -> str:
    """Describe why there is no response. Other errors can quote what was sent or received."""
    cause = error.reason if isinstance(error, MaxRetryError) and error.reason else error
    shown = f": {str(cause)[:MAX_TEXT_LENGTH]}" if was_never_sent(error) else ""
    return f"{type(cause).__name__}{shown}"


def _hint(status: int) -> str:
    if status in REJECTED_KEY:
        return ": check its API key, and what the key permits"
    return ": check its address and the path" if status in WRONG_ADDRESS else ""


def _parse_retry_after(text: str, now: datetime) -> timedelta | None:
    """Parse seconds or an HTTP date. Returns None if it is neither."""
    try:
        if text.isdecimal():
            return timedelta(seconds=int(text))
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return max((at if at.tzinfo else at.replace(tzinfo=UTC)) - now, timedelta(0))


def _parse_body(response: _Response) -> Any:  # noqa: ANN401  # any JSON
    """Parse a body. One of a success must be JSON, or empty; others count as empty."""
    try:
        if len(response.body) > MAX_BODY_BYTES:
            raise _MalformedBodyError(f"its body is larger than {MAX_BODY_BYTES} bytes")
        return loads(response.body or b"{}")
    except (ValueError, RecursionError) as error:
        if response.status not in SUCCESSES:
            return {}
        if isinstance(error, _MalformedBodyError):
            raise
        raise _MalformedBodyError("its body is not JSON") from None


def _find(body: Any, path: str) -> Any:  # noqa: ANN401  # any JSON
    """Return the value at a dotted path. Returns None if it is missing."""
    for name in path.split(".") if path else ():
        body = body.get(name) if isinstance(body, dict) else None
    return body


def _only_entry(body: object, path: str, reason: str) -> Any:  # noqa: ANN401  # any JSON
    """Return the only entry of a list, or what it means if there is not exactly one."""
    entries = _find(body, path)
    if not isinstance(entries, list):
        raise _MalformedBodyError(f"its body has no list at {path!r}")
    if len(entries) > 1:
        return Anomalous(f"{reason} and {len(entries)} effects instead of one")
    return entries[0] if entries else NotFound(f"{reason} and an empty list")


def _can_keep(value: object) -> bool:
    """Return whether a row can hold a field: short text without control characters, or a number."""
    text = value if isinstance(value, str) else str(value)
    is_valid = math.isfinite(value) if isinstance(value, int | float) else isinstance(value, str)
    return is_valid and text.isprintable() and len(text) <= MAX_TEXT_LENGTH


def _equals(found: object, wanted: JsonScalar) -> bool:
    # In Python, 1 equals True.
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)


def _difference(body: object, expect: Mapping[str, JsonScalar]) -> str | None:
    """Describe the first field with another value. Returns None if there is none."""
    for path, wanted in expect.items():
        found = _find(body, path)
        if found is None and wanted is not None:
            raise _MalformedBodyError(f"its body has no {path!r}")
        if not _equals(found, wanted):
            # Other values may be personal data.
            are_numbers = isinstance(found, int | float) and isinstance(wanted, int | float)
            return f"{path} is {f'{found}, not {wanted}' if are_numbers else 'not as requested'}"
    return None


def _outcome(
    meaning: type, reason: str, *, code: str, ref: str | None, result: Mapping[str, Json]
) -> Succeeded | Declined | Pending | Anomalous:
    if meaning is Declined:
        return Declined(reason, code, result)
    if meaning is Pending:
        return Pending(reason)
    return (Succeeded if meaning is Succeeded else Anomalous)(reason, ref, result)
