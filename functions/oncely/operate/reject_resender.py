"""Resends a rejected message as itself: the same job, once. Only its other fields may change."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidMessageError, InvalidRequestError
from oncely.core.job_row import operator_actor
from oncely.operate.masking import has_masked_email, unmask_json
from oncely.operate.operator_sender import OperatorSend, SendResult
from oncely.operate.rejects import RejectView

if TYPE_CHECKING:
    from oncely.app import App

_NEW_MESSAGE: Final = "To send something else, use `oncely send`"
_UNREADABLE: Final = "this message cannot be read: send a corrected one with `oncely send`"
_RESENT: Final = (
    "this message was already resent, which is possible once: look at its job. If the job needs "
    "another message, use `oncely send`"
)
# They say how the other fields are read.
_FIXED_FIELDS: Final = ("job", "v")
_JSON_TYPES: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


@dataclass(frozen=True)
class RejectResender:
    """Edits and resends one rejected message for an operator."""

    app: "App"

    def corrected(self, name: str, changes: Mapping[str, str | None]) -> dict[str, Json]:
        """Return the message with these fields as they were typed; None removes one."""
        view = self._readable(name)
        original = _fields(view)
        kept = {field: value for field, value in original.items() if field not in changes}
        typed = {
            field: _parse_typed(text, original.get(field))
            for field, text in changes.items()
            if text is not None
        }
        return self._same_job(view, {**kept, **typed})

    def edited(self, name: str, text: str) -> dict[str, Json]:
        """Return the message as an operator edited it, who saw it with addresses masked."""
        view = self._readable(name)
        if (edited := _json_object(text)) is None:
            raise InvalidMessageError("the message is not a JSON object: correct its syntax")
        unmasked = unmask_json(edited, _fields(view))
        if not isinstance(unmasked, dict) or has_masked_email(json.dumps(unmasked)):
            raise InvalidMessageError(
                "the message holds a masked address (a***@…) where none was: type it in full"
            )
        return self._same_job(view, unmasked)

    def resend(self, name: str, message: Mapping[str, Json], by: OperatorSend) -> SendResult:
        """Send what `corrected` or `edited` returned. A message that conflicts is not resent."""
        message = self._same_job(self._readable(name), message)
        self.app.enqueuer.check([message])  # what would not be sent is not used up
        existing = self.app.enqueuer.compare(message)
        if existing is not None and existing.conflict:
            return SendResult(**vars(existing))
        if not self.app.ports.stored_rejects.reserve_resend(name, actor=operator_actor(by.actor)):
            raise InvalidRequestError(_RESENT)
        reason = f"resent from the rejected message {name}" + (
            f": {by.reason}" if by.reason else ""
        )
        (result,) = self.app.operator_sender.send([message], replace(by, reason=reason))
        return result

    def _readable(self, name: str) -> RejectView:
        view = self.app.rejected_messages.get(name)
        if view.resent:
            raise InvalidRequestError(_RESENT)
        if view.job_key is None:
            raise InvalidRequestError(_UNREADABLE)
        return view

    def _same_job(self, view: RejectView, message: Mapping[str, Json]) -> dict[str, Json]:
        """Return the message, if it is still the one that was rejected."""
        if fault := _edit_fault(_fields(view), message):
            raise InvalidMessageError(f"{fault}. {_NEW_MESSAGE}")
        if (key := self.app.registry.parse_mapping(message).job_key()) != view.job_key:
            raise InvalidMessageError(
                f"a field of the job key was edited: {key} is another job than {view.job_key}. "
                f"{_NEW_MESSAGE}"
            )
        return dict(message)


def _edit_fault(original: Mapping[str, Json], edited: Mapping[str, Json]) -> str | None:
    """Why this is not an edit of the original. Returns None if it may be one."""
    if added := sorted(edited.keys() - original.keys()):
        return f"the rejected message has no field {added[0][:80]!r}, and none can be added"
    for field in _FIXED_FIELDS:
        if edited.get(field) != original[field]:
            return f"the field {field!r} cannot be edited"
    for field, value in edited.items():
        before, after = (_JSON_TYPES[type(one)] for one in (original[field], value))
        if before != after:
            return f"the field {field[:80]!r} is {before}, and cannot become {after}"
    return None


def _parse_typed(text: str, original: Json) -> Json:
    """Return a value as it was typed. Text needs no quotes, as in customer_id=42."""
    if isinstance(original, str):
        return text
    try:
        value: Json = json.loads(text)
    except ValueError:
        return text
    return value


def _fields(view: RejectView) -> dict[str, Json]:
    return _json_object(view.reject.body) or {}


def _json_object(text: str) -> dict[str, Json] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
