"""Masks email addresses in JSON, and restores them after an edit."""

import json
import re
from typing import Final

from oncely.core.effect_outcomes import Json
from oncely.core.text import mask_emails

_MASKED: Final = re.compile(r"\*\*\*@")


def mask_json(value: Json) -> Json:
    """The value with the local part of each email address masked, also in names of fields."""
    match value:
        case str():
            return mask_emails(value)
        case list():
            return [mask_json(inner) for inner in value]
        case dict():
            return {mask_emails(name): mask_json(inner) for name, inner in value.items()}
        case _:
            return value


def unmask_json(edited: Json, original: Json) -> Json:
    """An edited value, with the original in place of each part that is still masked."""
    # As text: 1250.0 equals 1250, but only one of them is valid.
    if _text(edited) == _text(mask_json(original)):
        return original
    match edited, original:
        case dict(), dict():
            shown = {mask_emails(name): name for name in original}
            return {
                shown.get(name, name): unmask_json(inner, original.get(shown.get(name, name)))
                for name, inner in edited.items()
            }
        case list(), list() if len(edited) == len(original):
            pairs = zip(edited, original, strict=True)
            return [unmask_json(inner, before) for inner, before in pairs]
        case _:
            return edited


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def has_masked_email(text: str) -> bool:
    """Whether a text holds an address that is masked."""
    return _MASKED.search(text) is not None
