"""`oncely contracts`: what each job type does and guarantees."""

import json as json_text
from typing import Annotated

import typer

from oncely.cli import console
from oncely.cli.options import JsonOption


def known_job_types() -> list[str]:
    """Return the job types of this version of the code."""
    from oncely.jobs import CONTRACTS

    return [contract_type.job_type for contract_type in CONTRACTS]


def _complete_job_type(incomplete: str) -> list[str]:
    return [name for name in known_job_types() if name.startswith(incomplete)]


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
    from oncely.jobs import CONTRACTS
    from oncely.registry import ContractRegistry

    registry = ContractRegistry(CONTRACTS)
    wanted = list(registry) if name is None else [registry.contract(name)]
    for number, contract_type in enumerate(wanted):
        example = contract_type.example.model_dump(exclude_unset=True)
        if json:
            console.print_json(
                {
                    "job_type": contract_type.job_type,
                    "queue": contract_type.resources.queue,
                    "safety": contract_type.policy.safety,
                    "description": contract_type.describe_fields().to_json(),
                    "example": example,
                    "schema": contract_type.message.model_json_schema(),
                }
            )
            continue
        if number:
            console.print_line("")
        title, *lines = contract_type.describe().split("\n")
        console.print_line(title, style="bold")
        for line in (*lines, f"  Example: {json_text.dumps(example)}"):
            console.stdout_console().print(console.safe_text(line), soft_wrap=True)
