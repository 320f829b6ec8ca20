"""`oncely pause`, `resume` and `gates`: stop and start effects without a deployment."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from oncely.cli import console
from oncely.cli.options import ActorOption, JsonOption, with_stack
from oncely.cli.stack_connection import StackConnection, actor_name, caller_identity

if TYPE_CHECKING:
    from oncely.gates.gate import PauseAction
    from oncely.operate.pauses import PauseChange

TargetArgument = Annotated[
    str, typer.Argument(help="Job type, queue or provider, such as payment.charge.")
]


@with_stack
def pause(
    stack: StackConnection,
    target: TargetArgument,
    *,
    reason: Annotated[str, typer.Option(help="Reason, shown with the pause.")],
    name: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Stop the effects of a job type, a queue or a provider.

    Effective within 10 seconds. Lookups continue, jobs wait in their rows and do not age.

    Examples:
    - `oncely pause payment.charge --reason "wrong prices since 14:00"`
    - `oncely pause provider:acme --reason "their incident 4711"`
    """
    from oncely.gates.gate import PauseAction

    done = _change(stack, target, PauseAction.PAUSE, reason=reason, name=name)
    if json:
        console.print_json(_to_json(done))
        return
    was = "paused" if done.is_changed else "paused already"
    console.print_line(f"{done.pause.target} is {was}.")
    console.print_line(f"Resume with: oncely resume {done.pause.target}{stack.cli_options}")


@with_stack
def resume(
    stack: StackConnection,
    target: TargetArgument,
    *,
    reason: Annotated[str, typer.Option(help="Reason, shown by `oncely gates`.")] = "",
    name: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Resume the effects of a job type, a queue or a provider.

    The next sweep sends the waiting jobs, at the provider's rate.

    Examples:
    - `oncely resume payment.charge`
    """
    from oncely.gates.gate import PauseAction

    done = _change(stack, target, PauseAction.RESUME, reason=reason, name=name)
    if json:
        console.print_json(_to_json(done))
        return
    was = "resumed" if done.is_changed else "not paused"
    console.print_line(f"{done.pause.target} is {was}.")


@with_stack
def gates(stack: StackConnection, *, json: JsonOption = False) -> None:
    """Show pauses and providers that do not respond.

    Examples:
    - `oncely gates`
    """
    from oncely.operate.pauses import gates_to_json

    found: Any = gates_to_json(stack.app.pause_switch.snapshot())
    if json:
        console.print_json(found)
        return
    for one in found["open"]:
        console.print_line(f"{one['gate']} has not responded since {one['since']}.")
    for one in found["paused"]:
        console.print_line(
            f"{one['target']} is paused since {one['at']} by {one['actor']}: {one['reason']}"
        )
    if not (found["open"] or found["paused"]):
        console.print_line("Nothing is on hold.")
    if found["history"]:
        console.print_line("")
        columns = ("at", "action", "target", "actor", "reason")
        console.print_table(columns, ([one[name] for name in columns] for one in found["history"]))


def _change(
    stack: StackConnection, target: str, action: "PauseAction", *, reason: str, name: str | None
) -> "PauseChange":
    actor = actor_name(caller_identity(stack), name)
    return stack.app.pause_switch.change(target, action, actor=actor, reason=reason)


def _to_json(done: "PauseChange") -> dict[str, Any]:
    last = done.pause.entries[-1:]
    return {
        "target": done.pause.target,
        "paused": done.pause.current is not None,
        "changed": done.is_changed,
        "reason": last[0].reason if last else "",
    }
