"""`oncely schemas`: the messages as JSON schemas, and as TypeScript types made from those."""

import json as json_text
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, usage_error
from oncely.cli.options import JsonOption
from oncely.cli.project import project_jobs

if TYPE_CHECKING:
    from oncely.contracts.job import AnyJob

TYPES_FILE: Final = "messages.d.ts"
_TYPES_INTRO: Final = """\
// Written by `oncely schemas`. A type for each message. Its field `job` says which one it is.
"""
_PRIMITIVES: Final = {
    "boolean": "boolean",
    "integer": "number",
    "null": "null",
    "number": "number",
    "string": "string",
}


def schemas(
    *,
    typescript: Annotated[
        bool, typer.Option("--typescript", help="Only TypeScript: one file with all types.")
    ] = False,
    json: JsonOption = False,
    output: Annotated[
        Path | None, typer.Option(help="Folder to write files into (default: print).")
    ] = None,
) -> None:
    """Print or write the JSON schemas and TypeScript types of all messages.

    Prints the JSON schemas, one per line, unless you choose TypeScript.
    Writes both, unless you choose one.

    Examples:
    - `oncely schemas --output schemas`
    - `oncely schemas --typescript`
    """
    if typescript and json:
        raise usage_error("Pass --typescript or --json, not both.")
    jobs = project_jobs()
    if output is not None:
        _write(
            output,
            {
                **({} if typescript else json_files(jobs)),
                **({} if json else {TYPES_FILE: typescript_types(jobs)}),
            },
        )
    elif typescript:
        typer.echo(typescript_types(jobs), nl=False)
    else:
        for job in jobs:
            console.print_json(job.message_schema())


def json_files(jobs: "Iterable[type[AnyJob]]") -> dict[str, str]:
    """Return the JSON schema of each message, by the name of its file."""
    return {
        f"{job.job_type}.v1.json": json_text.dumps(job.message_schema(), indent=2) + "\n"
        for job in jobs
    }


def typescript_types(jobs: "Iterable[type[AnyJob]]") -> str:
    """Return a TypeScript module with a type for each message, and `Message` for any of them."""
    parts, names = [_TYPES_INTRO], []
    for job in jobs:
        schema = job.message_schema()
        name = "".join(word.capitalize() for word in re.split(r"[._]", job.job_type))
        names.append(name)
        parts.append(_declaration(name, schema, name))
        # No job type gives a name with an underscore.
        for inner, definition in schema.get("$defs", {}).items():
            parts.append(_declaration(_reference(inner, name), definition, name))
    parts.append(f"export type Message = {' | '.join(names)};\n")
    return "\n".join(parts)


def _declaration(name: str, schema: Mapping[str, Any], message: str) -> str:
    return f"{_comment(schema, '')}export type {name} = {_type(schema, message, '')};\n"


def _type(schema: Any, message: str, indent: str) -> str:  # noqa: ANN401  # `true` is a schema
    """Return the type of what a schema accepts. Limits of values are left to the schema."""
    match schema:
        case {"$ref": str(target)}:
            return _reference(target.rpartition("/")[2], message)
        case {"const": value}:
            return json_text.dumps(value)
        case {"enum": values}:
            return _union(map(json_text.dumps, values))
        case {"anyOf": choices} | {"oneOf": choices}:
            return _union(_type(one, message, indent) for one in choices)
        case {"allOf": parts}:
            return " & ".join(f"({_type(one, message, indent)})" for one in parts)
        case {"type": list(kinds)}:
            return _union(_type({**schema, "type": one}, message, indent) for one in kinds)
        case {"type": "array"}:
            return _array(schema, message, indent)
        case {"type": "object"}:
            return _object(schema, message, indent)
        case {"type": str(kind)}:
            return _PRIMITIVES.get(kind, "unknown")
        case _:
            return "unknown"


def _union(types: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _array(schema: Mapping[str, Any], message: str, indent: str) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(_type(one, message, indent) for one in schema['prefixItems'])}]"
    return f"Array<{_type(schema.get('items'), message, indent)}>"


def _object(schema: Mapping[str, Any], message: str, indent: str) -> str:
    others = schema.get("additionalProperties", True)
    if "properties" not in schema:
        return f"Record<string, {_type(others, message, indent) if others else 'never'}>"
    lines = [*_fields(schema, message, f"{indent}  ")]
    if others:
        lines.append(f"{indent}  [name: string]: unknown;\n")
    return f"{{\n{''.join(lines)}{indent}}}"


def _fields(schema: Mapping[str, Any], message: str, indent: str) -> Iterator[str]:
    for name, field in schema["properties"].items():
        mark = "" if name in schema.get("required", ()) else "?"
        yield f"{_comment(field, indent)}{indent}{name}{mark}: {_type(field, message, indent)};\n"


def _comment(schema: Mapping[str, Any], indent: str) -> str:
    """Return its description. Pydantic writes that of an optional field beside its type."""
    described = (schema, *schema.get("anyOf", ()))
    text = next((one["description"] for one in described if "description" in one), "")
    one_line = " ".join(text.replace("*/", "*\\/").split())
    return f"{indent}/** {one_line} */\n" if one_line else ""


def _reference(name: str, message: str) -> str:
    return f"{message}_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"


def _write(folder: Path, files: Mapping[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
            console.print_line("wrote", folder / name)
    except OSError as error:
        raise CommandError(f"Cannot write {error.filename}: {error.strerror}.") from error
