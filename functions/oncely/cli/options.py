"""The options that many commands share, and the decorator that gives a command its place."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Concatenate, Final, ParamSpec, TypeAlias

import typer

from oncely.cli.stack_connection import (
    DEFAULT_STACK,
    AwsStackConnection,
    StackConnection,
    StackSelector,
)

_TARGET_PANEL: Final = "Where"

StackOption: TypeAlias = Annotated[
    str,
    typer.Option(help="The stack's name.", envvar="ONCELY_STACK", rich_help_panel=_TARGET_PANEL),
]
ProfileOption: TypeAlias = Annotated[
    str | None, typer.Option(help="An AWS profile.", rich_help_panel=_TARGET_PANEL)
]
RegionOption: TypeAlias = Annotated[
    str | None, typer.Option(help="An AWS region.", rich_help_panel=_TARGET_PANEL)
]
LocalOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--local", help="The stack that `make local` runs.", rich_help_panel=_TARGET_PANEL
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="JSON for programs.")]
DryRunOption: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
]
YesOption: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ActorOption: TypeAlias = Annotated[
    str | None, typer.Option("--as", help="Your name, if AWS knows you by another.")
]

P = ParamSpec("P")
StackOpener: TypeAlias = Callable[[StackSelector], StackConnection]


def with_stack(command: Callable[Concatenate[StackConnection, P], None]) -> Callable[..., None]:
    """Give a command the options that say where, and hand it the place that they mean."""

    @wraps(command)
    def wrapper(ctx: typer.Context, **given: Any) -> None:  # noqa: ANN401  # what typer parsed
        selector = StackSelector(**{name: given.pop(name) for name in _OPTIONS})
        # A test hands in a place of its own.
        open_stack: StackOpener = ctx.obj or AwsStackConnection
        command(open_stack(selector), **given)  # type: ignore[call-arg]  # typer knows them by name

    own = list(inspect.signature(command).parameters.values())[1:]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    parameters = [context, *keyword, *_OPTIONS.values()]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    wrapper.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapper


def _option(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


_OPTIONS: Final = {
    "stack": _option("stack", StackOption, DEFAULT_STACK),
    "profile": _option("profile", ProfileOption, None),
    "region": _option("region", RegionOption, None),
    "local": _option("local", LocalOption, default=False),
}
