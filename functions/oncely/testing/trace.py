"""A schedule told to a person: one short line for each step."""

from dataclasses import fields, is_dataclass

from oncely.domain.jobs import Job

_MAX_LENGTH = 110


def format_value(value: object) -> str:
    """An answer in a few words."""
    return _describe(value)[:_MAX_LENGTH]


def _describe(value: object) -> str:
    if isinstance(value, Job):
        return f"{value.status} v{value.version} of {value.owner or 'nobody'}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_describe, value))}]"
    if is_dataclass(value) and not isinstance(value, type):
        held = (getattr(value, field.name) for field in fields(value) if field.repr)
        described = ", ".join(_describe(one) for one in held if one not in (None, (), {}, False))
        return f"{type(value).__name__}({described})"
    return str(value)
