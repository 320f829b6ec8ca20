"""Parses HubSpot's responses: records, pages, and the outcomes of writes and errors."""

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from urllib3.exceptions import HTTPError

from oncely.core.effect_outcomes import Ambiguous, Declined, EffectOutcome, NotSent, Succeeded
from oncely.core.text import parse_time
from oncely.plugins.request_deadline import was_never_sent
from oncely.providers.hubspot.paths import is_contact_id
from oncely.providers.hubspot.plugin import DAILY_LIMIT_RECHECK_INTERVAL
from oncely.providers.interfaces import CrmConflict, CrmPage, CrmRecord

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse  # missing before urllib3 2, which Lambda may bring


class ErrorStatusError(Exception):
    """A response with an error status, of HubSpot or of a proxy in front of it."""

    def __init__(self, response: "BaseHTTPResponse") -> None:
        super().__init__(f"HTTP {response.status}")
        self.response = response


# ValueError: the body is not text, not JSON, or not the expected object.
REQUEST_ERRORS: Final = (ErrorStatusError, HTTPError, ValueError)
# HubSpot can request a delay of a day; a queue holds a message back for this long.
MAX_RETRY_AFTER: Final = timedelta(minutes=15)

_SUCCESSES: Final = range(200, 300)
_UNAUTHORIZED: Final = frozenset({401, 403})
# Rate limited, locked for 2 seconds, or account in migration: rejected before processing.
_RETRY_LATER_STATUSES: Final = frozenset({423, 429, 477})
_REJECTED_STATUSES: Final = frozenset({400, 404})
# The body or the URL is too large, for HubSpot or a proxy in front of it. Retrying cannot help.
_TOO_LARGE: Final = frozenset({413, 414})
_RATE_LIMITED: Final = 429
# The period in which HubSpot counts requests, for responses without Retry-After.
_POLICY_DELAYS: Final = {
    "SECONDLY": timedelta(seconds=1),
    "TEN_SECONDLY_ROLLING": timedelta(seconds=10),
}
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
# The same as the statuses above, for one input of a batch.
_STATUS_BY_CATEGORY: Final = {
    "CONFLICT": _CONFLICT,
    "OBJECT_ALREADY_EXISTS": _CONFLICT,
    "OBJECT_NOT_FOUND": _NOT_FOUND,
    "RATE_LIMITS": 429,
    "VALIDATION_ERROR": 400,
}

# The text with the id of the contact that has our value. Ids are numbers of about 12 digits.
_EXISTS: Final = "already exists"
_EXISTING_ID: Final = re.compile(rf"{_EXISTS}\. Existing ID: (\d{{1,20}})\b", re.ASCII)
_VERSION: Final = re.compile(r"\d{1,18}", re.ASCII)

ResponseBody = Mapping[str, Any]


class MalformedResponseError(ValueError):
    """A HubSpot response without the expected fields."""


def check_status(response: "BaseHTTPResponse") -> None:
    """Raise ErrorStatusError unless HubSpot reports success."""
    if response.status not in _SUCCESSES:
        raise ErrorStatusError(response)


def parse_body(response: "BaseHTTPResponse") -> ResponseBody:
    """Parse the JSON object of a response, or raise ValueError."""
    try:
        return _object(json.loads(response.data))
    except RecursionError:
        raise MalformedResponseError("HubSpot's response is nested too deeply") from None


def parse_record(body: ResponseBody) -> CrmRecord:
    """Parse a contact."""
    record_id, properties = body.get("id"), body.get("properties")
    if not (isinstance(record_id, str) and isinstance(properties, dict)):
        raise MalformedResponseError("HubSpot's response is not a contact")
    if not is_contact_id(record_id):
        raise MalformedResponseError("the id of HubSpot's contact is not a number")
    return CrmRecord(
        record_id=record_id,
        updated_at=parse_time(body.get("updatedAt")),
        archived=body.get("archived") is True,
        body=body,
    )


def property_text(body: ResponseBody, name: str) -> str | None:
    """Return a property of a contact. Returns None if it is missing or empty."""
    value = body["properties"].get(name)
    return value if isinstance(value, str) and value else None


def property_version(body: ResponseBody, name: str) -> int:
    """Return a version that we wrote. Returns 0 if there is none, or someone wrote another text."""
    text = property_text(body, name) or ""
    return int(text) if _VERSION.fullmatch(text) else 0


def parse_page(body: ResponseBody) -> CrmPage:
    """Parse a page of contacts with HubSpot's cursor."""
    results = body.get("results")
    if not isinstance(results, list):
        raise MalformedResponseError("HubSpot's response is not a page")
    next_page = _object(_object(body.get("paging") or {}).get("next") or {})
    after = next_page.get("after")
    if not isinstance(after, str | None):
        raise MalformedResponseError("HubSpot's cursor is not text")
    return CrmPage(tuple(parse_record(_object(one)) for one in results), after)


def write_outcome(response: "BaseHTTPResponse", *, id_property: str) -> EffectOutcome | CrmConflict:
    """Parse the outcome of a write to one contact, or of a batch with one input."""
    body = parse_body(response)
    if errors := body.get("errors"):
        return _error_outcome(_object(errors[0]), status=None, id_property=id_property)
    results = body.get("results", [body])
    if not isinstance(results, list) or len(results) != 1:
        raise MalformedResponseError("HubSpot's response does not contain the written contact")
    record = parse_record(_object(results[0]))
    crm_id, request_id = record.record_id, response.headers.get("x-hubspot-correlation-id")
    result = {"crm_id": crm_id, "request_id": request_id}
    return Succeeded(f"written as HubSpot contact {crm_id}", crm_id, result)


def read_error(error: Exception, now: datetime) -> NotSent:
    """Return the outcome of a failed read."""
    reason = f"HubSpot could not be read: {describe_error(error)}"
    alarm = http_status(error) in _UNAUTHORIZED or _is_daily_limit(error)
    return NotSent(reason, _retry_delay(error, now), credentials_rejected=alarm)


def write_error(
    error: Exception, now: datetime, *, id_property: str
) -> EffectOutcome | CrmConflict:
    """Return the outcome of a failed write."""
    status = http_status(error)
    if status in _UNAUTHORIZED:
        reason = f"HubSpot rejects our API key: {describe_error(error)}"
        return NotSent(reason, credentials_rejected=True)
    if status in _RETRY_LATER_STATUSES:
        reason = f"HubSpot asked to retry later: {describe_error(error)}"
        alarm = _is_daily_limit(error)
        return NotSent(reason, _retry_delay(error, now), credentials_rejected=alarm)
    if status in _TOO_LARGE:
        return Declined(f"too large for HubSpot: {describe_error(error)}", code=f"HTTP_{status}")
    if was_never_sent(error):
        return NotSent(f"HubSpot could not be reached: {describe_error(error)}")
    if (error_body := _parse_error_body(error)) is None:
        return Ambiguous(f"writing to HubSpot: {describe_error(error)}")
    return _error_outcome(error_body, status=status, id_property=id_property)


def is_not_found(error: Exception) -> bool:
    """Return whether HubSpot reports a missing contact. A 404 of a proxy does not count."""
    return http_status(error) == _NOT_FOUND and _parse_error_body(error) is not None


def describe_error(error: Exception) -> str:
    """Describe an error in one line, with the id that HubSpot's support needs."""
    status = http_status(error)
    if status is None:
        return f"{type(error).__name__}: {str(error)[:200]}"
    error_body = _parse_error_body(error) or {}
    request = f" (request {error_body['correlationId']})" if error_body.get("correlationId") else ""
    message = str(error_body.get("message", ""))[:200]
    return f"HTTP {status} {_error_category(error_body)}: {message}{request}"


def _error_outcome(
    error_body: ResponseBody, *, status: int | None, id_property: str
) -> EffectOutcome | CrmConflict:
    reason = f"{_error_category(error_body)}: {str(error_body.get('message', ''))[:200]}"
    match _STATUS_BY_CATEGORY.get(_error_category(error_body)) if status is None else status:
        case 429:
            return NotSent(f"HubSpot asked to retry later: {reason}")
        case 409 if taken := _parse_taken(error_body, reason, id_property=id_property):
            return taken
        case code if code in _REJECTED_STATUSES:
            return Declined(reason, code=_error_category(error_body))
        case _:
            return Ambiguous(f"writing to HubSpot: {reason}")


def _parse_taken(error_body: ResponseBody, reason: str, *, id_property: str) -> CrmConflict | None:
    # A conflict on our id alone may be two concurrent creates. Without the contact's id, the
    # outcome is ambiguous.
    errors = [one for one in error_body.get("errors") or () if isinstance(one, dict)]
    others = {str(one["in"]) for one in errors if one.get("in")} - {id_property}
    texts = [str(one.get("message", "")) for one in (error_body, *errors)]
    existing = next((match for text in texts if (match := _EXISTING_ID.search(text))), None)
    if existing is None and not others:
        only_ours = bool(errors) or _EXISTS not in texts[0]
        return None if only_ours else CrmConflict(reason)
    return CrmConflict(reason, existing and existing[1], frozenset(others))


def _retry_delay(error: Exception, now: datetime) -> timedelta | None:
    if _is_daily_limit(error):
        return _time_until_next(now, DAILY_LIMIT_RECHECK_INTERVAL)
    retry_after = _retry_after(error)
    return _POLICY_DELAYS.get(_rate_limit_policy(error)) if retry_after is None else retry_after


def _is_daily_limit(error: Exception) -> bool:
    if http_status(error) != _RATE_LIMITED:
        return False
    message = str((_parse_error_body(error) or {}).get("message", ""))
    return _rate_limit_policy(error) == "DAILY" or "daily limit" in message.lower()


def _rate_limit_policy(error: Exception) -> str:
    return str((_parse_error_body(error) or {}).get("policyName", "")).upper()


def _retry_after(error: Exception) -> timedelta | None:
    headers = error.response.headers if isinstance(error, ErrorStatusError) else {}
    try:
        seconds = float(headers.get("Retry-After", ""))
    except ValueError:
        return None
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return timedelta(seconds=min(seconds, MAX_RETRY_AFTER.total_seconds()))


def http_status(error: Exception) -> int | None:
    """Return the HTTP status of an error. Returns None if there was no response."""
    return error.response.status if isinstance(error, ErrorStatusError) else None


def _parse_error_body(error: Exception) -> ResponseBody | None:
    # None if the response is not HubSpot's, such as a proxy's.
    if not isinstance(error, ErrorStatusError):
        return None
    try:
        error_body = parse_body(error.response)
    except ValueError:
        return None
    return error_body if _is_hubspot_error(error_body) else None


def _is_hubspot_error(error_body: ResponseBody) -> bool:
    # Any of the fields may be missing.
    texts = {name for name, value in error_body.items() if isinstance(value, str)}
    named = "category" in texts or {"correlationId", "message"} <= texts
    return named or error_body.get("status") == "error"


def _error_category(error_body: ResponseBody) -> str:
    return str(error_body.get("category") or "no_category")


def _object(value: object) -> ResponseBody:
    if not isinstance(value, dict):
        raise MalformedResponseError("HubSpot's response is not a JSON object")
    return value


def _time_until_next(at: datetime, interval: timedelta) -> timedelta:
    """How long from `at` to the next multiple of `interval` since midnight UTC."""
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return interval - (at - day) % interval
