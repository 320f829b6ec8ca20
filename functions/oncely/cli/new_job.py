"""`oncely new-job`: writes a contract, its test and its registry line."""

import ast
from importlib.resources import files
from string import Template
from typing import Annotated, Final

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, usage_error
from oncely.cli.local_stack import find_repository
from oncely.domain.keys import is_job_type
from oncely.domain.profiles import RetrySafety

# The template lines that each safety class needs.
_LINE_MARKS: Final = {
    RetrySafety.KEYED: {"keyed", "lookup"},
    RetrySafety.LOOKUP: {"plain", "lookup"},
    RetrySafety.NATURAL: {"natural", "no_lookup"},
    RetrySafety.AT_MOST_ONCE: {"plain", "no_lookup"},
}


def new_job(
    name: Annotated[str, typer.Argument(help="Job type, such as refund.issue.")],
    safety: Annotated[
        RetrySafety,
        typer.Option(
            help="natural: safe to repeat. "
            "keyed: safe to repeat while the provider remembers the idempotency key. "
            "lookup: not safe to repeat, but can be looked up. "
            "at_most_once: not safe to repeat and cannot be looked up."
        ),
    ] = RetrySafety.KEYED,
    queue: Annotated[
        str | None, typer.Option(help="Queue that carries it (default: a new one).")
    ] = None,
) -> None:
    """Create a contract with a passing test.

    Also adds the contract to the registry.

    Examples:
    - `oncely new-job refund.issue --safety keyed`
    """
    if not is_job_type(name):
        raise usage_error(f"Invalid job type {name!r}: write it like refund.issue.")
    module = name.replace(".", "_")
    words = {
        "job_type": name,
        "module": module,
        "name": module.title().replace("_", ""),
        "provider": name.split(".")[0].title(),
        "provider_name": name.split(".")[0],
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
            raise CommandError(f"{path.relative_to(root)} already exists. Nothing was written.")
    listed = add_to_registry(registry.read_text(), module=module, name=words["name"])
    for path, text in {**written, registry: listed}.items():
        path.write_text(text)
        console.print_line("wrote", path.relative_to(root))
    _print_next_steps(module)


def _render_template(file: str, safety: RetrySafety, words: dict[str, str]) -> str:
    kept_lines = []
    for line in (files("oncely.cli") / "templates" / file).read_text().split("\n"):
        mark, _, rest = line[1:].partition("|") if line.startswith("?") else ("", "", line)
        if not mark or mark in _LINE_MARKS[safety]:
            kept_lines.append(rest)
    return Template("\n".join(kept_lines)).substitute(words)


def add_to_registry(text: str, *, module: str, name: str) -> str:
    """Return the registry's source with one more import and one more entry, both sorted."""
    wanted = f"from oncely.jobs.{module} import {name}"
    lines = text.split("\n")
    if wanted in lines:
        raise CommandError(f"{name} is already in the registry.")
    by_hand = CommandError(
        f"Cannot edit the registry. Add `{wanted}`, and {name} to CONTRACTS, by hand."
    )
    imports = [at for at, line in enumerate(lines) if line.startswith("from oncely.jobs.")]
    try:
        begin = next(at for at, line in enumerate(lines) if line.startswith("CONTRACTS"))
        end = lines.index(")", begin)
    except (StopIteration, ValueError):
        raise by_hand from None
    if not imports:
        raise by_hand
    lines[begin + 1 : end] = sorted((*lines[begin + 1 : end], f"    {name},"))
    first, after = imports[0], imports[-1] + 1
    lines[first:after] = sorted((*lines[first:after], wanted))
    new = "\n".join(lines)
    try:
        ast.parse(new)
    except SyntaxError:
        raise by_hand from None
    return new


def _print_next_steps(module: str) -> None:
    console.print_line("")
    console.print_line("Next:")
    for step in (
        f"edit functions/oncely/jobs/{module}.py: message, precheck, provider",
        "make docs                                       # update the generated pages",
        f'make test ARGS="-k {module}"',
        "UPDATE_SNAPSHOTS=1 make test ARGS=tests/infra   # review its queue and permissions",
    ):
        console.print_line(f"  {step}")
