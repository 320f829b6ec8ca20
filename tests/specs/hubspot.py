"""HubSpot's contacts as its published OpenAPI describes them, from the list in `hubspot.json`.

Bring the list up to date from a clone of HubSpot/HubSpot-public-api-spec-collection:

    python -m tests.specs.hubspot PublicApiSpecs/CRM/Contacts/Rollouts/424/v3/contacts.json DATE

The date is that of the file's last commit.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.specs.description import ApiDescription, ApiOperation

LIST: Final = Path(__file__).with_name("hubspot.json")
_CONTACTS: Final = "/crm/v3/objects/contacts"
_OPERATIONS: Final = (
    f"GET {_CONTACTS}",
    f"GET {_CONTACTS}/{{contactId}}",
    f"PATCH {_CONTACTS}/{{contactId}}",
    f"POST {_CONTACTS}/batch/upsert",
    f"POST {_CONTACTS}/search",
)


def described() -> ApiDescription:
    """Describe the requests that Oncely sends to HubSpot."""
    known = json.loads(LIST.read_text())
    operations = {name: ApiOperation(**one) for name, one in known["operations"].items()}
    return ApiDescription(operations=operations, objects=known["objects"])


def extract(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the operations that Oncely uses, and the objects in them."""
    operations: dict[str, Any] = {}
    objects: dict[str, Any] = {}
    for name in _OPERATIONS:
        method, path = name.split(" ")
        operation = document["paths"][path][method.lower()]
        responses = {
            status: _type(_content(_resolved(document, one)))
            for status, one in operation["responses"].items()
        }
        if "requestBody" in operation:
            request = _type(_content(operation["requestBody"]))
        else:
            given = [one for one in operation["parameters"] if one["in"] == "query"]
            request = f"#{name}"
            objects[name] = dict(
                _field(one["name"], one["schema"], is_required=one.get("required", False))
                for one in given
            )
        operations[name] = {"request": request, "responses": responses}
    left = list(_references([*operations.values(), *objects.values()]))
    while left:
        if (one := left.pop()) not in objects:
            schema = document["components"]["schemas"][one]
            objects[one] = dict(_fields(schema))
            left += _references(objects[one])
    return {"operations": operations, "objects": dict(sorted(objects.items()))}


def _fields(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, inner in sorted(schema["properties"].items()):
        yield _field(name, inner, is_required=name in schema.get("required", ()))


def _field(name: str, schema: Mapping[str, Any], *, is_required: bool) -> tuple[str, Any]:
    return (name if is_required else f"{name}?"), _type(schema)


def _type(schema: Mapping[str, Any]) -> Any:  # noqa: ANN401  # as in `description`
    if schema.get("nullable"):
        return [_type({**schema, "nullable": False}), "null"]
    match schema:
        case {"$ref": name}:
            return f"#{name.rpartition('/')[2]}"
        case {"enum": values}:
            return {"enum": values}
        case {"type": "array", "items": item}:
            return {"array": _type(item)}
        case {"additionalProperties": item}:
            return {"map": _type(item)}
        case {"type": "object"}:
            return {"map": "any"}
        case {"type": name}:
            return name
        case _:
            raise ValueError(schema)


def _resolved(document: Mapping[str, Any], one: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(one.get("$ref", "")).rpartition("/")[2]
    found: Mapping[str, Any] = document["components"]["responses"][name] if name else one
    return found


def _content(of: Mapping[str, Any]) -> Mapping[str, Any]:
    (content,) = of["content"].values()
    schema: Mapping[str, Any] = content["schema"]
    return schema


def _references(value: object) -> Iterator[str]:
    match value:
        case dict():
            yield from _references(list(value.values()))
        case list():
            for one in value:
                yield from _references(one)
        case str() if value.startswith("#") and " " not in value:
            yield value[1:]


def _written(known: Mapping[str, Any]) -> str:
    """Write one operation or field in a line."""
    lines = []
    for name, value in known.items():
        if isinstance(value, str):
            lines.append(f"  {json.dumps(name)}: {json.dumps(value)}")
            continue
        inner = ",\n".join(f"    {json.dumps(key)}: {_nested(one)}" for key, one in value.items())
        lines.append(f"  {json.dumps(name)}: {{\n{inner}\n  }}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _nested(fields: Mapping[str, Any]) -> str:
    inner = ",\n".join(f"      {json.dumps(key)}: {json.dumps(one)}" for key, one in fields.items())
    return "{\n" + inner + "\n    }" if fields else "{}"


if __name__ == "__main__":
    given, dated = sys.argv[1:]
    source = "HubSpot/HubSpot-public-api-spec-collection: " + given[given.find("PublicApiSpecs") :]
    document = json.loads(Path(given).read_text())
    LIST.write_text(_written({"source": source, "dated": dated, **extract(document)}))
