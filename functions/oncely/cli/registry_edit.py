"""Adds a job type to the registry's file as its author would: one import, one line, sorted."""

import ast

from oncely.cli.exits import CommandError


def add_to_registry(text: str, *, module: str, name: str) -> str:
    """The registry's text with one job type more."""
    wanted = f"from oncely.jobs.{module} import {name}"
    if wanted in text.split("\n"):
        raise CommandError(f"{name} is registered already.")
    by_hand = CommandError(
        f"The registry is not written as usual: add `{wanted}`, and {name} to CONTRACTS, by hand."
    )
    lines = text.split("\n")
    imports = [at for at, line in enumerate(lines) if line.startswith("from oncely.jobs.")]
    try:
        begin = next(at for at, line in enumerate(lines) if line.startswith("CONTRACTS"))
        end = lines.index(")", begin)
    except (StopIteration, ValueError):
        raise by_hand from None
    if not imports:
        raise by_hand
    entries = lines[begin + 1 : end]
    lines[begin + 1 : end] = sorted((*entries, f"    {name},"))
    first, last = imports[0], imports[-1]
    lines[first : last + 1] = sorted((*lines[first : last + 1], wanted))
    new = "\n".join(lines)
    try:
        ast.parse(new)
    except SyntaxError:
        raise by_hand from None
    return new
