"""`oncely contracts`: what each job type does and guarantees."""

import json as json_text
from contextlib import suppress
from typing import Annotated

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError
from oncely.cli.options import JsonOption
from oncely.cli.project import project_jobs
from oncely.core.errors import OncelyError


def known_job_types() -> list[str]:
    """Return the job types of this project."""
    return [contract_type.job_type for contract_type in project_jobs()]


def _complete_job_type(incomplete: str) -> list[str]:
    # An error would be printed into the shell prompt.
    with suppress(CommandError, OncelyError):
        return [name for name in known_job_types() if name.startswith(incomplete)]
    return []


def contracts(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Job type to describe (default: all).", autocompletion=_complete_job_type
        ),
    ] = None,
    *,
    json: JsonOption = False,
) -> None:
    """Describe a job type.

    Prints its effect, the rows it changes, and when it needs review.

    Examples:
    - `oncely contracts payment.charge`
    """
    from oncely.contracts.registry import JobRegistry

    registry = JobRegistry(project_jobs())
    wanted = list(registry) if name is None else [registry.contract(name)]
    for number, contract_type in enumerate(wanted):
        example = contract_type.example_message()
        if json:
            console.print_json(
                {
                    "job_type": contract_type.job_type,
                    "queue": contract_type.queue,
                    "safety": {
                        one.profile.name: one.safety for one in contract_type.policies.values()
                    },
                    "description": contract_type.describe_fields().to_json(),
                    "example": example,
                    "schema": contract_type.message_schema(),
                }
            )
            continue
        if number:
            console.print_line("")
        title, *lines = str(contract_type.describe_fields()).split("\n")
        console.print_line(title, style="bold")
        for line in (*lines, f"  Example: {json_text.dumps(example)}"):
            console.stdout_console().print(console.safe_text(line), soft_wrap=True)
