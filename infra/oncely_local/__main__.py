"""Run the stack on this machine: `make demo`, `make local`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from oncely.cli.errors import CommandError
from oncely_local.chaos import FaultLevel
from oncely_local.demo import demo
from oncely_local.local import LocalAction, local, lose_response

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help=__doc__,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("demo")
def _demo(
    jobs: Annotated[int, typer.Option(min=1, help="Approximate number of jobs.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed for the messages, faults and kills.")] = 1,
    faults: Annotated[
        FaultLevel, typer.Option(help="How many faults to inject.")
    ] = FaultLevel.SOME,
    *,
    keep_running: Annotated[
        bool, typer.Option("--keep", help="Keep the stack running after the report.")
    ] = False,
    ignore_idempotency_keys: Annotated[
        bool, typer.Option("--ignore-keys", help="Make the provider ignore idempotency keys.")
    ] = False,
) -> None:
    """Run jobs under injected faults. Exits with code 1 if a guarantee was violated."""
    raise typer.Exit(
        demo(
            jobs=jobs,
            seed=seed,
            faults=faults,
            keep_running=keep_running,
            ignore_idempotency_keys=ignore_idempotency_keys,
        )
    )


@app.command("local")
def _local(
    action: Annotated[
        LocalAction,
        typer.Argument(help="up, or from another terminal: redeploy, logs, lose-response."),
    ] = LocalAction.UP,
    path: Annotated[
        str, typer.Argument(help="Path pattern of the requests whose response is dropped.")
    ] = "*",
    job_key: Annotated[
        str, typer.Option(help="Show only logs of job keys that contain this.")
    ] = "",
    times: Annotated[int, typer.Option(min=1, help="Number of responses to drop.")] = 1,
    *,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over, without the data of earlier runs.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for the ports and data to keep (default: .build/local/kept)."),
    ] = None,
) -> None:
    """Run the stack until Ctrl-C. Press r + Enter to redeploy changed code."""
    if action is LocalAction.LOSE_RESPONSE:
        raise typer.Exit(lose_response(path=path, times=times))
    raise typer.Exit(local(action, job_key=job_key, fresh=fresh, data=data))


def main() -> None:
    """Run the command in the project of the working folder."""
    try:
        app()
    except CommandError as error:
        sys.exit(error.message)


if __name__ == "__main__":
    main()
