"""`oncely new-job`: the starting file of a team's own job, its line in the registry, its test."""

from enum import StrEnum
from importlib.resources import files
from string import Template
from typing import Annotated, Final

import typer

from oncely.cli import console as screen
from oncely.cli.exits import CommandError, ExitCode
from oncely.cli.registry_edit import add_to_registry
from oncely.cli.repository import find_repository
from oncely.domain.keys import is_job_type
from oncely.domain.profiles import RetrySafety


class SafetyOption(StrEnum):
    """What a second send would do; the same names as in the domain, with their help."""

    KEYED = RetrySafety.KEYED.value
    LOOKUP = RetrySafety.LOOKUP.value
    NATURAL = RetrySafety.NATURAL.value
    AT_MOST_ONCE = RetrySafety.AT_MOST_ONCE.value


# Which lines of the starting files belong to which safety class.
_LINE_MARKS: Final = {
    SafetyOption.KEYED: {"keyed", "asks"},
    SafetyOption.LOOKUP: {"plain", "asks"},
    SafetyOption.NATURAL: {"natural", "mute"},
    SafetyOption.AT_MOST_ONCE: {"plain", "mute"},
}


def new_job(
    name: Annotated[str, typer.Argument(help="The job type, such as refund.issue.")],
    safety: Annotated[
        SafetyOption,
        typer.Option(
            help="What a second send would do: natural, nothing; keyed, nothing while the "
            "provider remembers our key; lookup, harm, but the provider can be asked; "
            "at_most_once, harm, and nobody can be asked."
        ),
    ] = SafetyOption.KEYED,
    queue: Annotated[
        str | None, typer.Option(help="The queue that carries it; none: one of its own.")
    ] = None,
) -> None:
    """Write a contract to start from, its line in the registry, and a test that is green."""
    if not is_job_type(name):
        raise CommandError(f"{name!r} is no job type: write it like refund.issue.", ExitCode.USAGE)
    module = name.replace(".", "_")
    words = {
        "job_type": name,
        "module": module,
        "name": module.title().replace("_", ""),
        "provider": name.split(".")[0].title(),
        "id": f"{name.split('.')[0]}_id",
        "queue": queue or name.split(".")[0],
        "SAFETY": safety.name,
    }
    root = find_repository()
    registry = root / "functions" / "oncely" / "jobs" / "__init__.py"
    written = {
        registry.with_name(f"{module}.py"): _render_template("contract.txt", safety, words),
        root / "tests" / "unit" / f"test_{module}.py": _render_template("test.txt", safety, words),
    }
    for path in written:
        if path.exists():
            raise CommandError(f"{path.relative_to(root)} is there already; nothing was written.")
    listed = add_to_registry(registry.read_text(), module=module, name=words["name"])
    for path, text in {**written, registry: listed}.items():
        path.write_text(text)
        screen.print_line("wrote", path.relative_to(root))
    _print_next_steps(module)


def _render_template(file: str, safety: SafetyOption, words: dict[str, str]) -> str:
    """A starting file without the lines that another safety class needs."""
    lines = (files("oncely.cli") / "templates" / file).read_text().split("\n")
    kept_lines = []
    for line in lines:
        mark, _, rest = line[1:].partition("|") if line.startswith("?") else ("", "", line)
        if not mark or mark in _LINE_MARKS[safety]:
            kept_lines.append(rest)
    return Template("\n".join(kept_lines)).substitute(words)


def _print_next_steps(module: str) -> None:
    screen.print_line("")
    screen.print_line("Next:")
    for step in (
        f"fill in functions/oncely/jobs/{module}.py: the message, the check, the provider",
        "make docs                          # the pages that the contracts tell",
        f'make test ARGS="-k {module}"',
        "UPDATE_SNAPSHOTS=1 make test ARGS=tests/infra   # its queue and permissions, to review",
    ):
        screen.print_line(f"  {step}")
