"""`oncely contracts`: what each job type promises, in plain language."""

import json as json_text
from typing import Annotated

import typer

from ops_cli import screen
from ops_cli.options import AsJson


def job_types() -> list[str]:
    """Those of this version of the code."""
    from oncely.contracts import CONTRACTS

    return [kind.job_type for kind in CONTRACTS]


def _names(incomplete: str) -> list[str]:
    return [name for name in job_types() if name.startswith(incomplete)]


def contracts(
    name: Annotated[
        str | None, typer.Argument(help="A job type; none: all of them.", autocompletion=_names)
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Tell what a job does outside, which rows it changes, and when a person is asked."""
    from oncely.contracts import CONTRACTS
    from oncely.registry import Registry

    registry = Registry(CONTRACTS)
    wanted = list(registry) if name is None else [registry.contract(name)]
    for number, kind in enumerate(wanted):
        example = kind.example.model_dump(exclude_unset=True)
        if json:
            screen.as_json(
                {
                    "job_type": kind.job_type,
                    "queue": kind.needs.queue,
                    "safety": kind.terms.safety,
                    "words": kind.describe(),
                    "example": example,
                    "schema": kind.message.model_json_schema(),
                }
            )
            continue
        if number:
            screen.say("")
        title, *lines = kind.describe().split("\n")
        screen.say(title, style="bold")
        for line in lines:
            screen.out().print(screen.plain(line), soft_wrap=True)
        screen.out().print(
            screen.plain(f"  An example: {json_text.dumps(example)}"), soft_wrap=True
        )
