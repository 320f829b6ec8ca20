"""What a vendor publishes about its API, and where a request or a response differs from it.

A type is the name of a JSON type, `any`, `#` and the name of an object, `{"array": …}`,
`{"map": …}`, `{"enum": […]}`, or a list of alternatives. A field that may be missing ends in `?`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from oncely.testing.sandbox.http_messages import SandboxRequest, SandboxResponse

Type: TypeAlias = str | Mapping[str, Any] | list[Any]
Fields = Mapping[str, Any]
Found = Iterator[str]

_KINDS: Final = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
    list: "array",
    dict: "object",
}
# How a form or a query writes them.
_TEXTS: Final = {
    "any": "(?s).*",
    "boolean": "true|false",
    "integer": r"-?[0-9]+",
    "number": r"-?[0-9.]+",
    "string": "(?s).*",
}
_SUCCESSES: Final = range(200, 300)
_REJECTED: Final = frozenset({400, 404, 405, 413, 414})


@dataclass(frozen=True, kw_only=True)
class ApiOperation:
    """A request, and its response by status or `default`."""

    request: Type
    responses: Mapping[str, Type]


@dataclass(frozen=True, kw_only=True)
class ApiDescription:
    """The operations of an API, by method and path."""

    operations: Mapping[str, ApiOperation]
    objects: Mapping[str, Fields]

    def name_of(self, request: SandboxRequest) -> str | None:
        """The operation of a request. A path without a parameter is preferred."""
        for name in sorted(self.operations, key=lambda one: "{" in one):
            pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(name))
            if re.fullmatch(pattern, f"{request.method} {request.path}"):
                return name
        return None

    def differences(self, request: SandboxRequest, response: SandboxResponse) -> Found:
        """Where an exchange differs. A request that was rejected may be anything."""
        if (name := self.name_of(request)) is None:
            if response.status not in _REJECTED:
                yield f"{request.method} {request.path}: not described"
            return
        operation = self.operations[name]
        if response.status not in _REJECTED:
            is_text = "json" not in request.headers.get("content-type", "")
            sent = request.params
            yield from self.compare(operation.request, sent, f"request {name}", is_text=is_text)
        fallback = None if response.status in _SUCCESSES else operation.responses.get("default")
        expected = operation.responses.get(str(response.status), fallback)
        if expected is None:
            yield f"{name}: status {response.status} not described"
        else:
            yield from self.compare(expected, response.body, f"response {response.status} {name}")

    def compare(self, type_: Type, value: object, where: str, *, is_text: bool = False) -> Found:
        """Where a value differs from a type. Every leaf of a form or a query is a text."""
        match type_, value:
            case list(), _:
                # The best fit: of an alternative that fits in kind, the fields are compared.
                found = [list(self.compare(one, value, where, is_text=is_text)) for one in type_]
                wrong_kind = f"{where}: {_kind(value)}"
                yield from min(found, key=lambda one: (wrong_kind in one, len(one)))
            case str(), dict() if type_.startswith("#"):
                yield from self._compare_fields(type_[1:], value, is_text=is_text)
            case {"map": inner}, dict():
                for one in value.values():
                    yield from self.compare(inner, one, f"{where}.*", is_text=is_text)
            case {"array": inner}, list() | str() if is_text or isinstance(value, list):
                for one in value if isinstance(value, list) else [value]:
                    yield from self.compare(inner, one, f"{where}[]", is_text=is_text)
            case {"enum": values}, str():
                if value not in values:
                    yield f"{where}: {value!r}"
            case _:
                if not _fits(type_, value, is_text=is_text):
                    yield f"{where}: {_kind(value)}"

    def _compare_fields(self, name: str, value: Fields, *, is_text: bool) -> Found:
        fields = self.objects[name]
        for field in fields:
            if not field.endswith("?") and field not in value:
                yield f"{name}.{field}: missing"
        for field, inner in value.items():
            if (type_ := fields.get(field, fields.get(f"{field}?"))) is None:
                yield f"{name}.{field}: not described"
            else:
                yield from self.compare(type_, inner, f"{name}.{field}", is_text=is_text)


def _fits(type_: Type, value: object, *, is_text: bool) -> bool:
    """Whether a value without parts has this type."""
    if is_text and isinstance(value, str):
        pattern = _TEXTS.get(type_ if isinstance(type_, str) else "")
        return pattern is not None and re.fullmatch(pattern, value) is not None
    return type_ == "any" or type_ == _kind(value) or (type_, type(value)) == ("number", int)


def _kind(value: object) -> str:
    return _KINDS[type(value)]
