"""The trace of a schedule: short texts for the values in its steps."""

from dataclasses import fields, is_dataclass

from oncely.core.job_row import JobRow

_MAX_LENGTH = 110


def format_value(value: object) -> str:
    """Format a value in a few words."""
    return _describe(value)[:_MAX_LENGTH]


def _describe(value: object) -> str:
    if isinstance(value, JobRow):
        return f"{value.status} v{value.version} of {value.owner or 'no owner'}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_describe, value))}]"
    if is_dataclass(value) and not isinstance(value, type):
        values = (getattr(value, field.name) for field in fields(value) if field.repr)
        text = ", ".join(_describe(one) for one in values if one not in (None, (), {}, False))
        return f"{type(value).__name__}({text})"
    return str(value)
