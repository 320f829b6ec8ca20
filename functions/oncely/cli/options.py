"""Options that many commands share, and how their values are parsed."""

import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Annotated, Any, Concatenate, Final, ParamSpec, TypeAlias

import typer

from oncely.cli.errors import usage_error
from oncely.cli.stack_connection import (
    StackConnection,
    StackSelector,
)
from oncely.core.text import parse_time

_PANEL: Final = "Target stack"

StackOption = Annotated[
    str | None,
    typer.Option(
        help="Stack name (default: `stack` under [tool.oncely], or Oncely-dev).",
        envvar="ONCELY_STACK",
        rich_help_panel=_PANEL,
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(help="AWS profile (default: AWS_PROFILE).", rich_help_panel=_PANEL),
]
RegionOption = Annotated[
    str | None,
    typer.Option(help="AWS region (default: AWS_REGION).", rich_help_panel=_PANEL),
]
LocalOption = Annotated[
    bool,
    typer.Option("--local", help="Use the stack that `oncely local` runs.", rich_help_panel=_PANEL),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would happen without changing anything.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt.")]
ActorOption = Annotated[
    str | None, typer.Option("--as", help="Your name, recorded with your AWS identity.")
]
JobTypeOption = Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")]

P = ParamSpec("P")
StackOpener: TypeAlias = Callable[[StackSelector], StackConnection]


def with_stack(command: Callable[Concatenate[StackConnection, P], None]) -> Callable[..., None]:
    """Add the options that select a stack, and pass the command a connection to it."""

    @wraps(command)
    def wrapper(ctx: typer.Context, **given: Any) -> None:  # noqa: ANN401  # what typer parsed
        selector = StackSelector(**{name: given.pop(name) for name in _OPTIONS})
        # A test passes its own opener.
        open_stack: StackOpener = ctx.obj or StackConnection
        command(open_stack(selector), **given)  # type: ignore[call-arg]  # typer passes them by name

    own = list(inspect.signature(command).parameters.values())[1:]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    keyword = (one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own)
    parameters = [context, *keyword, *_OPTIONS.values()]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    wrapper.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapper


def _option(name: str, annotation: object, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


_OPTIONS: Final = {
    "stack": _option("stack", StackOption, None),
    "profile": _option("profile", ProfileOption, None),
    "region": _option("region", RegionOption, None),
    "local": _option("local", LocalOption, default=False),
}

_DURATION: Final = re.compile(r"(\d{1,6})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def time_option(*names: str, help: str) -> Any:  # noqa: A002, ANN401  # as typer.Option has them
    """Return an option whose value is a time, or a duration before now."""

    def parse(text: str) -> datetime:
        return parse_time_argument(text, now=datetime.now(UTC))

    return typer.Option(*names, help=help, parser=parse, metavar="<str>")


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as `90m`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise usage_error(f"Invalid duration {text!r}: write 30s, 90m, 24h, 7d or 2w.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def parse_time_argument(text: str, *, now: datetime) -> datetime:
    """Parse `24h` as that long ago, and anything else as a time in UTC (2026-11-16T03:00)."""
    if _DURATION.fullmatch(text.strip()):
        try:
            return now - parse_duration(text)
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        return parse_time(text.strip())
    except ValueError:
        raise usage_error(
            f"Invalid time {text!r}: write 24h (ago), 2026-11-16 or 2026-11-16T03:00."
        ) from None
