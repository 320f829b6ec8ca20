"""One sentence about a job, and the next step. Raw errors are shown separately."""

import re
from collections.abc import Collection
from datetime import datetime
from typing import Final, assert_never

from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Status, WaitKind
from oncely.core.repairs import Repair
from oncely.core.text import format_minute, support_text

# The start of the raw part of a reason: an exception's name, or a response status.
_RAW: Final = re.compile(r"[:;,]?\s*\b(?:HTTP \d{3}|\w*(?:Error|Exception|Timeout))\b.*")
# What differs between two jobs with the same cause: quoted text, and words with a digit.
_DETAIL: Final = re.compile(r"""'[^']*'|"[^"]*"|“[^”]*”|\S*\d\S*?(?=[,;:.]*(?:\s|$))""")
# An id, a setting or a job key: it is never written with a capital.
_NAME: Final = re.compile(r"\S*[_.:/#0-9]\S*")


def plain_reason(reason: str) -> str:
    """The part of a reason before a raw error."""
    return _RAW.sub("", reason).strip() or "an unexpected error"


def review_cause(job: JobRow) -> str:
    """Why a job needs review, as one sentence without its ids and amounts."""
    reason = plain_reason(job.last_error or "no reason was recorded")
    return sentence(support_text(_DETAIL.sub("…", reason)))


def sentence(text: str) -> str:
    """The text with a capital, unless it begins with a name, and a full stop."""
    first = text.split(maxsplit=1)[0] if text.strip() else ""
    begin = text[:1] if _NAME.fullmatch(first.rstrip(",;:")) else text[:1].upper()
    return f"{begin}{text[1:]}{'' if text.endswith(('.', '!', '?', '…')) else '.'}"


def next_step(job: JobRow, allowed: Collection[Repair], *, done_verb: str, now: datetime) -> str:
    """The next step for the reader, or when it is retried. Empty if there is none."""
    match job.status:
        case Status.FINISHED | Status.CANCELLED:
            return ""
        case Status.FAILED:
            return "Resubmit it once the cause is fixed." if Repair.RESUBMIT in allowed else ""
        case Status.NEEDS_REVIEW:
            return _review_step(job, can_look_up=Repair.LOOK_UP in allowed, done_verb=done_verb)
        case Status.READY if job.waits_for is WaitKind.BUSINESS_ROW:
            return f"Create what is missing. {_next_try(job, 'try', now)}"
        case Status.STARTED if not job.lease_expired(now):
            return ""
        case Status.UNKNOWN | Status.STARTED:
            return f"No action needed. {_next_try(job, 'check', now)}"
        case Status.READY:
            return f"No action needed. {_next_try(job, 'try', now)}"
        case unreachable:
            assert_never(unreachable)


def _review_step(job: JobRow, *, can_look_up: bool, done_verb: str) -> str:
    if job.awaits_second_operator:
        return "Nothing was sent. A second operator returns the job to ready, or marks it failed."
    if not job.was_claimed:
        waited = job.waits_for is WaitKind.BUSINESS_ROW
        first = "Create what is missing and reopen the job" if waited else "Send a valid message"
        return f"Nothing was sent. {first}, or mark the job failed."
    if can_look_up:
        return f"Look it up at the provider, then mark the job {done_verb} or failed."
    return f"Find out whether it was {done_verb}, then mark the job."


def _next_try(job: JobRow, word: str, now: datetime) -> str:
    if job.due_at is None:
        return ""
    return f"Next {word} {'now' if job.due_at <= now else f'at {format_minute(job.due_at)}'}."
