"""The `oncely` command in this process, over an in-memory stack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from typer import testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from oncely.app import App
from oncely.cli.main import app
from oncely.cli.stack_connection import StackSelector
from oncely.cli.stack_environment import settings_from_outputs
from oncely.plugins.provider import AnyProvider, ApiKeyCheck, ProviderSettings
from tests.support.in_memory_stack import InMemoryStack

# Typer would build every command again for each run.
testing._get_command = cache(get_command)  # type: ignore[attr-defined]  # noqa: SLF001  # no other way

# An escape sequence, rich markup, a direction override and a forged line.
HOSTILE = "[red]x[/red]\x1b[31m'\"; DROP\u202e\nforged: line"


@dataclass(frozen=True)
class FakeSts:
    arn: str = "arn:aws:sts::1:assumed-role/Operator/ada@example.com"

    def get_caller_identity(self) -> Mapping[str, str]:
        return {"Arn": self.arn}


@dataclass
class FakeStackConnection:
    world: InMemoryStack = field(default_factory=InMemoryStack)
    clients: dict[str, Any] = field(default_factory=lambda: {"sts": FakeSts()})
    outputs: Mapping[str, str] = field(default_factory=dict)
    cli_options: str = ""
    is_local: bool = False
    name: str = "Oncely-dev"
    key_checks: dict[str, ApiKeyCheck] = field(default_factory=dict)  # by provider

    def provider_settings(self, plugin: AnyProvider) -> ProviderSettings:
        return settings_from_outputs(plugin, self.outputs)

    def check_api_key(self, plugin: AnyProvider, key: str) -> ApiKeyCheck | None:
        return self.key_checks.get(plugin.name)

    def client(self, service: str) -> Any:  # noqa: ANN401  # a test's fake
        return self.clients[service]

    @property
    def app(self) -> App:
        return self.world.app()


def run_cli(
    *words: str,
    connection: FakeStackConnection | None = None,
    stdin_text: str | None = None,
    **variables: str,
) -> Result:
    opened = None if connection is None else (lambda _where: connection)
    return CliRunner().invoke(app, list(words), input=stdin_text, obj=opened, env=dict(variables))


def selector_for(*words: str) -> StackSelector:
    asked: list[StackSelector] = []

    def remember(where: StackSelector) -> FakeStackConnection:
        asked.append(where)
        return FakeStackConnection()

    CliRunner().invoke(app, list(words), obj=remember)
    return asked[0]


@dataclass
class FakeStateMachine:
    final_execution: Mapping[str, Any]
    started: list[Mapping[str, Any]] = field(default_factory=list)
    statuses: Sequence[str] = ("RUNNING",)  # before the end

    def __post_init__(self) -> None:
        self._remaining_statuses = list(self.statuses)

    def start_execution(self, **asked: str) -> Mapping[str, Any]:
        self.started.append(asked)
        return {"executionArn": "arn:one"}

    def describe_execution(self, *, executionArn: str) -> Mapping[str, Any]:  # noqa: N803  # boto3's
        return (
            {"status": self._remaining_statuses.pop(0)}
            if self._remaining_statuses
            else self.final_execution
        )
