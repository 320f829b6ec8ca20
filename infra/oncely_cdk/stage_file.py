"""The file of a stage: typed settings, and the identity that its first deployment writes.

`python -m oncely_cdk.stage_file stages/prod.toml cdk-outputs.json` writes the identity, from the
outputs that `cdk deploy --outputs-file` saved.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from oncely_cdk.stages import ExistingKeys, OncelySettings, StageError, StageIdentity

# The output with the identity, as JSON.
IDENTITY_OUTPUT: Final = "StageIdentity"
_SECTION: Final = "identity"
# The sections whose keys are fixed.
_SECTIONS: Final[Mapping[str, type[BaseModel]]] = {
    _SECTION: StageIdentity,
    "existing_keys": ExistingKeys,
}
_COMMENT: Final = """\
# Written by the first deployment: where the data of this stage is. Keep it, and commit it.
# A deployment that would abandon one of these is refused."""
# Set by code, not in the file.
_NOT_IN_FILE: Final = frozenset({"name", "file", "providers_address"})


def read_stage_file(file: str | Path) -> OncelySettings:
    """Read `stages/<stage>.toml`. Raises StageError with the file, the key and the fault."""
    path = Path(file)
    given = _parse(path)
    known = sorted(set(OncelySettings.model_fields) - _NOT_IN_FILE)
    if unknown := sorted(set(given) - set(known)):
        faults = (f"unknown key {name}{suggest(name, known)}" for name in unknown)
        raise StageError(f"{path}: {'; '.join(faults)}")
    try:
        return OncelySettings.model_validate({**given, "name": path.stem, "file": path})
    except ValidationError as error:
        raise StageError(f"{path}: {'; '.join(_faults(error))}") from error


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for a misspelled name, as the end of a sentence."""
    names = sorted(known)
    if close := get_close_matches(name, names, n=1):
        return f"; did you mean {close[0]}?"
    return f"; use one of {', '.join(names)}" if names else ""


def record_identity(file: Path, outputs: Mapping[str, str]) -> bool:
    """Write what the deployed stack reports to its file. Returns False if nothing changed.

    Names that the file has stay: only an operator may change them.
    """
    settings = read_stage_file(file)
    found = json.loads(outputs[IDENTITY_OUTPUT])
    if not found["deployment"]:
        return False  # a table with rows and no identity: `oncely restore-proofs` gives it one
    known = settings.identity
    if known is not None:
        found = {
            **found,
            **known.model_dump(exclude_none=True),
            "tables": {**found["tables"], **known.tables},
            "created": {*found["created"], *known.created},
        }
    after = StageIdentity.model_validate(found)
    if after == known:
        return False
    before = file.read_text(encoding="utf-8")
    text = f"{_without_identity(before)}\n\n{_render(after)}".lstrip("\n")
    kept = {name: value for name, value in tomllib.loads(before).items() if name != _SECTION}
    if tomllib.loads(text) != {**kept, _SECTION: tomllib.loads(_render(after))[_SECTION]}:
        raise StageError(f"{file}: cannot find where [{_SECTION}] ends. Move it to the end")
    file.write_text(text, encoding="utf-8")
    return True


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        stages = ", ".join(sorted(one.stem for one in path.parent.glob("*.toml"))) or "none"
        raise StageError(
            f"{path} does not exist, so there is no stage {path.stem!r}: create the file, or use "
            f"one of the stages that have one ({stages})"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StageError(f"{path}: not valid TOML: {error}") from error


def _faults(error: ValidationError) -> Iterable[str]:
    for fault in error.errors():
        key = ".".join(map(str, fault["loc"]))
        if fault["type"] == "extra_forbidden":
            model = _SECTIONS[str(fault["loc"][0])]
            yield f"unknown key {key}{suggest(str(fault['loc'][-1]), model.model_fields)}"
        else:
            given = f" (it is {fault['input']!r})" if key and fault["type"] != "missing" else ""
            yield f"{key}: {fault['msg']}{given}" if key else fault["msg"]


def _without_identity(text: str) -> str:
    """Cut the section and its comment."""
    kept, inside = [], False
    for line in text.splitlines():
        if header := re.match(r"\s*\[+\s*([\w-]+)", line):
            inside = header[1] == _SECTION
        if not inside and line not in _COMMENT.splitlines():
            kept.append(line)
    return "\n".join(kept).rstrip()


def _render(identity: StageIdentity) -> str:
    tables = (f"{name} = {json.dumps(value)}" for name, value in sorted(identity.tables.items()))
    lines = (
        _COMMENT,
        f"[{_SECTION}]",
        f"deployment = {json.dumps(identity.deployment)}",
        f"archive_bucket = {json.dumps(identity.archive_bucket)}",
        f"created = {json.dumps(sorted(identity.created))}",
        "",
        f"[{_SECTION}.tables]",
        *tables,
    )
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    """Write the identity of a stage from the outputs of its stack."""
    match arguments:
        case [file, outputs]:
            stacks: dict[str, dict[str, str]] = json.loads(Path(outputs).read_text("utf-8"))
        case _:
            sys.exit("usage: python -m oncely_cdk.stage_file stages/<stage>.toml cdk-outputs.json")
    found = [stack for stack in stacks.values() if IDENTITY_OUTPUT in stack]
    if len(found) != 1:
        sys.exit(f"{outputs} has {len(found)} stacks with Oncely: deploy one stage at a time")
    if record_identity(Path(file), found[0]):
        sys.stdout.write(f"Wrote the identity of this deployment to {file}. Commit it.\n")


if __name__ == "__main__":
    main(sys.argv[1:])
