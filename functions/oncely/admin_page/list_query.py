"""The query string of a list or an export."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from oncely.core.errors import InvalidRequestError
from oncely.core.text import parse_time
from oncely.operate.job_lists import JobFilter

_PARAMETERS: Final = ("status", "type", "from", "to", "error", "customer", "cursor", "limit")


@dataclass(frozen=True, kw_only=True)
class ListQuery:
    """Which jobs to list, and how many."""

    wanted: JobFilter
    cursor: str | None
    limit: int

    @classmethod
    def from_query_string(cls, query: Mapping[str, str]) -> Self:
        """Parse it. An empty value counts as missing."""
        if unknown := sorted(query.keys() - set(_PARAMETERS)):
            # A misspelled filter would list every job.
            raise InvalidRequestError(
                f"unknown parameter {unknown[0][:40]!r}; known: {', '.join(_PARAMETERS)}"
            )
        wanted = JobFilter(
            status=query.get("status") or None,
            job_type=query.get("type") or None,
            since=_parse_time(query, "from"),
            until=_parse_time(query, "to"),
            error=query.get("error") or None,
            customer_id=query.get("customer") or None,
        )
        return cls(
            wanted=wanted,
            cursor=query.get("cursor") or None,
            limit=_parse_limit(query.get("limit") or "25"),
        )


def typed_filters(query: Mapping[str, str]) -> str:
    """The filters that a user typed, for the access log."""
    return " ".join(filter(None, (query.get("customer"), query.get("error"))))


def _parse_time(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name)
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError:
        raise InvalidRequestError(
            f"{name!r} must be a time such as 2026-11-16T03:00:00Z, not {text[:40]!r}"
        ) from None


def _parse_limit(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidRequestError("'limit' must be a whole number")
    return int(text[:9])
