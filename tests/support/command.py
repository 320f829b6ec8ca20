"""The `oncely` command in this process, over a world without AWS."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import boto3
from typer.testing import CliRunner, Result

from oncely.adapters.clients import Clients
from oncely.adapters.hubspot_keys import KeyCheck
from oncely.adapters.support_desk import SupportDesk
from oncely.services.enqueue import Enqueuer
from oncely.services.inspect import Inspector
from oncely.services.repair import Repairer
from oncely.testing.memory import MemoryDueIndex, MemoryFinishedJobs, MemoryJobFinder, MemoryWindows
from ops_cli.main import app
from ops_cli.place import Where
from tests.support.world import World

# What a terminal is told with an escape sequence, and what rich would take for a colour.
HOSTILE = "[red]x[/red]\x1b[31m'\"; DROP\u202e\nforged: line"


@dataclass(frozen=True)
class Caller:
    """STS: who is signed in."""

    arn: str = "arn:aws:sts::1:assumed-role/Operator/ada@example.com"

    def get_caller_identity(self) -> Mapping[str, str]:
        return {"Arn": self.arn}


@dataclass
class FakePlace:
    """A place whose services run over a world, and whose AWS clients are given."""

    world: World = field(default_factory=World)
    clients: dict[str, Any] = field(default_factory=lambda: {"sts": Caller()})
    outputs: Mapping[str, str] = field(default_factory=dict)
    options: str = ""
    is_local: bool = False
    name: str = "Oncely-dev"
    key_checks: dict[str, KeyCheck] = field(default_factory=dict)  # by provider

    def ask_about_key(self, provider: str, key: str) -> KeyCheck | None:
        return self.key_checks.get(provider)

    def client(self, service: str) -> Any:  # noqa: ANN401  # whatever the test gives
        return self.clients[service]

    def desk(self, actor: str) -> SupportDesk:
        world = self.world
        enqueuer = Enqueuer(
            registry=world.registry,
            store=world.store,
            windows=MemoryWindows(world.store),
            outbox=lambda _queue: world.outbox,
            clock=world.clock,
            new_token=world.tokens,
        )
        return SupportDesk(
            inspector=Inspector(
                registry=world.registry,
                store=world.store,
                finder=MemoryJobFinder(world.store),
                index=MemoryDueIndex(world.store),
                finished=MemoryFinishedJobs(world.store),
                clock=world.clock,
            ),
            repairer=Repairer(reconciler=world.reconciler(), enqueuer=enqueuer),
            enqueuer=enqueuer,
            clients=Clients(boto3.Session(region_name="us-east-1")),
            actor=actor,
        )


def oncely(
    *words: str, place: FakePlace | None = None, typed: str | None = None, **variables: str
) -> Result:
    """Run the command as a person would, at a place of the test's own."""
    opened = None if place is None else (lambda _where: place)
    return CliRunner().invoke(app, list(words), input=typed, obj=opened, env=dict(variables))


def where_of(*words: str) -> Where:
    """The place that these options mean."""
    asked: list[Where] = []

    def remember(where: Where) -> FakePlace:
        asked.append(where)
        return FakePlace()

    CliRunner().invoke(app, list(words), obj=remember)
    return asked[0]


@dataclass
class Machine:
    """Step Functions: one execution that ends as it is told."""

    ended: Mapping[str, Any]
    started: list[Mapping[str, Any]] = field(default_factory=list)
    looks: Sequence[str] = ("RUNNING",)  # what is seen before the end

    def __post_init__(self) -> None:
        self._looks = list(self.looks)

    def start_execution(self, **asked: str) -> Mapping[str, Any]:
        self.started.append(asked)
        return {"executionArn": "arn:one"}

    def describe_execution(self, *, executionArn: str) -> Mapping[str, Any]:  # noqa: N803  # boto3's
        return {"status": self._looks.pop(0)} if self._looks else self.ended


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)
