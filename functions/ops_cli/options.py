"""The options that many commands share, and the decorator that gives a command its place."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Concatenate, Final, ParamSpec, TypeAlias

import typer

from ops_cli.place import DEFAULT_STACK, AwsPlace, Place, Where

_WHERE: Final = "Where"

Stack: TypeAlias = Annotated[
    str, typer.Option(help="The stack's name.", envvar="ONCELY_STACK", rich_help_panel=_WHERE)
]
Profile: TypeAlias = Annotated[
    str | None, typer.Option(help="An AWS profile.", rich_help_panel=_WHERE)
]
Region: TypeAlias = Annotated[
    str | None, typer.Option(help="An AWS region.", rich_help_panel=_WHERE)
]
Local: TypeAlias = Annotated[
    bool, typer.Option("--local", help="The stack that `make local` runs.", rich_help_panel=_WHERE)
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="JSON for programs.")]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
As: TypeAlias = Annotated[
    str | None, typer.Option("--as", help="Your name, if AWS knows you by another.")
]

P = ParamSpec("P")
OpenPlace: TypeAlias = Callable[[Where], Place]


def at_a_place(command: Callable[Concatenate[Place, P], None]) -> Callable[..., None]:
    """Give a command the options that say where, and hand it the place that they mean."""

    @wraps(command)
    def asked(ctx: typer.Context, **given: Any) -> None:  # noqa: ANN401  # what typer parsed
        where = Where(**{name: given.pop(name) for name in _OPTIONS})
        # A test hands in a place of its own.
        open_place: OpenPlace = ctx.obj or AwsPlace
        command(open_place(where), **given)  # type: ignore[call-arg]  # typer knows them by name

    own = list(inspect.signature(command).parameters.values())[1:]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    parameters = [context, *keyword, *_OPTIONS.values()]
    asked.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    asked.__annotations__ = {one.name: one.annotation for one in parameters}
    return asked


def _option(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


_OPTIONS: Final = {
    "stack": _option("stack", Stack, DEFAULT_STACK),
    "profile": _option("profile", Profile, None),
    "region": _option("region", Region, None),
    "local": _option("local", Local, default=False),
}
