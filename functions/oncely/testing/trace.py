"""A schedule told to a person: one short line for each step."""

from dataclasses import fields, is_dataclass

from oncely.domain.jobs import Job

_LONGEST = 110


def shown(value: object) -> str:
    """An answer in a few words."""
    return _words(value)[:_LONGEST]


def _words(value: object) -> str:
    if isinstance(value, Job):
        return f"{value.status} v{value.version} of {value.owner or 'nobody'}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_words, value))}]"
    if is_dataclass(value) and not isinstance(value, type):
        held = (getattr(value, field.name) for field in fields(value) if field.repr)
        said = ", ".join(_words(one) for one in held if one not in (None, (), {}, False))
        return f"{type(value).__name__}({said})"
    return str(value)
