"""Reads HubSpot's words: a record, a page, a write's outcome or an error, as an answer."""

import json
import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from ssl import SSLCertVerificationError
from typing import Any, Final

from hubspot.crm.contacts import ApiException  # type: ignore[import-untyped]  # ships no types
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import ConnectTimeoutError, HTTPError, MaxRetryError, NewConnectionError

from oncely.domain.answers import Answer, Done, NotSent, Refused, Unclear
from oncely.domain.profiles import DAILY_LIMIT_CHECK
from oncely.domain.times import instant, until_next
from oncely.providers import CrmRecord, Page, Taken

# A ValueError is a body that is not text, not JSON, or not what was asked for.
FAILURES: Final = (ApiException, HTTPError, ValueError)
# What HubSpot asks to wait, it may ask for a day; a queue holds a message back this long.
LONGEST_WAIT: Final = timedelta(minutes=15)

_UNAUTHORIZED: Final = frozenset({401, 403})
# Limited rate, locked for two seconds, account on the move: turned away before anything is done.
_TURNED_AWAY: Final = frozenset({423, 429, 477})
_NOT_TAKEN: Final = frozenset({400, 404})
# The body or the address is too large, for HubSpot or for what stands before it: for good.
_TOO_LARGE: Final = frozenset({413, 414})
_RATE_LIMITED: Final = 429
# Over how long HubSpot counts requests, for answers without Retry-After.
_POLICY_WAITS: Final = {
    "SECONDLY": timedelta(seconds=1),
    "TEN_SECONDLY_ROLLING": timedelta(seconds=10),
}
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
# The same as the statuses above, for one input of a batch.
_STATUS_OF: Final = {
    "CONFLICT": _CONFLICT,
    "OBJECT_ALREADY_EXISTS": _CONFLICT,
    "OBJECT_NOT_FOUND": _NOT_FOUND,
    "RATE_LIMITS": 429,
    "VALIDATION_ERROR": 400,
}

# How HubSpot names the contact that has our value; an id of its is a number of some 12 digits.
_EXISTS: Final = "already exists"
_EXISTING: Final = re.compile(rf"{_EXISTS}\. Existing ID: (\d{{1,20}})\b", re.ASCII)

Body = Mapping[str, Any]


class GarbledError(ValueError):
    """HubSpot's answer is not what it should be."""


def body_of(response: BaseHTTPResponse) -> Body:
    """What a response says; ValueError: nothing that could be understood."""
    return _object(json.loads(response.data))


def record_in(body: Body) -> CrmRecord:
    """A contact."""
    record_id = body.get("id")
    if not isinstance(record_id, str) or not isinstance(body.get("properties"), dict):
        raise GarbledError("HubSpot's answer is not a contact")
    return CrmRecord(
        record_id=record_id,
        updated_at=instant(body.get("updatedAt")),
        archived=body.get("archived") is True,
        body=body,
    )


def text_in(body: Body, name: str) -> str | None:
    """A property of a contact; None if it has none."""
    value = body["properties"].get(name)
    return value if isinstance(value, str) and value else None


def page_in(body: Body) -> Page:
    """Some contacts, and HubSpot's own cursor."""
    results = body.get("results")
    if not isinstance(results, list):
        raise GarbledError("HubSpot's answer is not a page")
    behind = (body.get("paging") or {}).get("next") or {}
    return Page(tuple(record_in(_object(one)) for one in results), behind.get("after"))


def written(response: BaseHTTPResponse, *, own: str) -> Answer | Taken:
    """What became of one contact, or of the one input of a batch; `own` is our unique property."""
    body = body_of(response)
    if errors := body.get("errors"):
        return _refusal(_object(errors[0]), status=None, own=own)
    found = body.get("results", [body])
    if not isinstance(found, list) or len(found) != 1:
        raise GarbledError("HubSpot's answer does not tell what it wrote")
    record = record_in(_object(found[0]))
    request_id = response.headers.get("x-hubspot-correlation-id")
    return Done(
        f"written as HubSpot contact {record.record_id}",
        record.record_id,
        {"crm_id": record.record_id, "request_id": request_id},
    )


def not_read(error: Exception, now: datetime) -> NotSent:
    """The answer to a request that only reads."""
    told = f"HubSpot could not be read: {in_words(error)}"
    alarm = status_of(error) in _UNAUTHORIZED or _is_daily(error)
    return NotSent(told, _wait(error, now), alarm=alarm)


def not_written(error: Exception, now: datetime, *, own: str) -> Answer | Taken:
    """The answer to a write that did not succeed."""
    status = status_of(error)
    if status in _UNAUTHORIZED:
        return NotSent(f"HubSpot refuses our token: {in_words(error)}", alarm=True)
    if status in _TURNED_AWAY:
        told = f"HubSpot wants us to wait: {in_words(error)}"
        return NotSent(told, _wait(error, now), alarm=_is_daily(error))
    if status in _TOO_LARGE:
        return Refused(f"too large for HubSpot: {in_words(error)}", code=f"HTTP_{status}")
    if _never_left(error):
        return NotSent(f"HubSpot could not be reached: {in_words(error)}")
    said = _said(error)
    if said is None:
        return Unclear(f"writing to HubSpot: {in_words(error)}")
    return _refusal(said, status=status, own=own)


def is_missing(error: Exception) -> bool:
    """Whether HubSpot itself says that there is no such contact; a stray 404 says nothing."""
    return status_of(error) == _NOT_FOUND and _said(error) is not None


def in_words(error: Exception) -> str:
    """One line for a person, with the id that HubSpot's support asks for."""
    status = status_of(error)
    if status is None:
        return f"{type(error).__name__}: {str(error)[:200]}"
    said = _said(error) or {}
    request = f" (request {said['correlationId']})" if said.get("correlationId") else ""
    return f"HTTP {status} {_code(said)}: {str(said.get('message', ''))[:200]}{request}"


def _refusal(said: Body, *, status: int | None, own: str) -> Answer | Taken:
    told = f"{_code(said)}: {str(said.get('message', ''))[:200]}"
    match _STATUS_OF.get(_code(said)) if status is None else status:
        case 429:
            return NotSent(f"HubSpot wants us to wait: {told}")
        case 409:
            return _taken(said, told, own=own) or Unclear(f"writing to HubSpot: {told}")
        case code if code in _NOT_TAKEN:
            return Refused(told, code=_code(said))
        case _:
            return Unclear(f"writing to HubSpot: {told}")


def _taken(said: Body, told: str, *, own: str) -> Taken | None:
    """Another contact that has one of our values; None if the conflict is something else.

    About our own id alone it may be two creating writes at once: without the contact's id nothing
    is known.
    """
    errors = [one for one in said.get("errors") or () if isinstance(one, dict)]
    others = {str(one["in"]) for one in errors if one.get("in")} - {own}
    texts = [str(one.get("message", "")) for one in (said, *errors)]
    found = next((match for text in texts if (match := _EXISTING.search(text))), None)
    if found is None and not others:
        only_ours = bool(errors) or _EXISTS not in texts[0]
        return None if only_ours else Taken(told)
    return Taken(told, found and found[1], frozenset(others))


def _wait(error: Exception, now: datetime) -> timedelta | None:
    """How long HubSpot wants us to wait; None if it does not say."""
    if _is_daily(error):
        return until_next(now, DAILY_LIMIT_CHECK)
    asked = _retry_after(error)
    return _POLICY_WAITS.get(_policy(error)) if asked is None else asked


def _is_daily(error: Exception) -> bool:
    """Whether the day's requests are used up: no job of this account can run until the reset."""
    if status_of(error) != _RATE_LIMITED:
        return False
    message = str((_said(error) or {}).get("message", ""))
    return _policy(error) == "DAILY" or "daily limit" in message.lower()


def _policy(error: Exception) -> str:
    return str((_said(error) or {}).get("policyName", "")).upper()


def _retry_after(error: Exception) -> timedelta | None:
    headers = getattr(error, "headers", None) or {}
    try:
        seconds = float(headers.get("Retry-After", ""))
    except ValueError:
        return None
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return timedelta(seconds=min(seconds, LONGEST_WAIT.total_seconds()))


def status_of(error: Exception) -> int | None:
    """The HTTP status of an error; None if there was no answer."""
    return error.status if isinstance(error, ApiException) else None


def _said(error: Exception) -> Body | None:
    """HubSpot's error object; None: whoever answered, it was not HubSpot's API."""
    try:
        said = _object(json.loads(getattr(error, "body", None) or ""))
    except ValueError:
        return None
    return said if _is_hubspots(said) else None


def _is_hubspots(said: Body) -> bool:
    """Whether an error object is HubSpot's own; every one of its fields may be missing."""
    if said.get("status") == "error" or isinstance(said.get("category"), str):
        return True
    return isinstance(said.get("correlationId"), str) and isinstance(said.get("message"), str)


def _code(said: Body) -> str:
    return str(said.get("category") or "no_category")


def _never_left(error: Exception) -> bool:
    """Refused, no such host, no connection in time, or a certificate we do not trust."""
    reason = error.reason if isinstance(error, MaxRetryError) else None
    if isinstance(reason, NewConnectionError | ConnectTimeoutError):
        return True
    # Other TLS errors can come after the request was sent: those prove nothing.
    return (
        reason is not None
        and bool(reason.args)
        and isinstance(reason.args[0], SSLCertVerificationError)
    )


def _object(value: object) -> Body:
    if not isinstance(value, dict):
        raise GarbledError("HubSpot's answer is not an object")
    return value
