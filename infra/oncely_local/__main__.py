"""The stack on this machine: `make demo`, `make local`, or `python -m oncely_local --help`."""

from typing import Annotated

import typer

from oncely_local.demo import demo
from oncely_local.fault_levels import FaultLevel
from oncely_local.local import LocalAction, local

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help=__doc__,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("demo")
def _demo(
    jobs: Annotated[int, typer.Option(min=1, help="About how many jobs.")] = 300,
    seed: Annotated[int, typer.Option(help="The same seed sends the same messages.")] = 1,
    faults: Annotated[FaultLevel, typer.Option(help="How much goes wrong.")] = FaultLevel.SOME,
    *,
    keep_running: Annotated[bool, typer.Option("--keep", help="Stay up afterwards.")] = False,
    ignore_idempotency_keys: Annotated[
        bool, typer.Option("--ignore-keys", help="The provider ignores idempotency keys.")
    ] = False,
) -> None:
    """Send jobs while everything goes wrong; exit code 1 if the promise is broken."""
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
        LocalAction, typer.Argument(help="logs and redeploy: from another terminal.")
    ] = (LocalAction.UP),
    job_key: Annotated[str, typer.Option(help="Only the logs of jobs whose key holds this.")] = "",
) -> None:
    """Run the stack until Ctrl-C; r + Enter deploys a change in the code."""
    raise typer.Exit(local(action, job_key=job_key))


if __name__ == "__main__":
    app()
