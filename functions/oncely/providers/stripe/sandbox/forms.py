"""Reads the nested form fields that Stripe's clients send: `metadata[job_key]=…`, `expand[0]=…`."""

import re
from collections.abc import Iterable
from typing import Any

PARTS = re.compile(r"[^\[\]]+|\[\]")
# Its keys are the caller's own, so keys that look like positions do not make it a list.
FREE_FORM = "metadata"


def parse_nested(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Turn flat fields into nested dictionaries and lists."""
    root: dict[str, Any] = {}
    for name, value in fields:
        *path, last = PARTS.findall(name) or [name]
        branch = root
        for part in path:
            inner = branch.setdefault(_slot(part, branch), {})
            branch = inner if isinstance(inner, dict) else {}
        branch[_slot(last, branch)] = value
    return {
        name: value if name == FREE_FORM else _with_lists(value) for name, value in root.items()
    }


def _slot(part: str, branch: dict[str, Any]) -> str:
    return str(len(branch)) if part == "[]" else part


def _with_lists(value: object) -> object:
    if not isinstance(value, dict):
        return value
    inner = {name: _with_lists(item) for name, item in value.items()}
    if inner and all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner
