"""Botocore is explored with every adapter, and no retry of it pauses."""

import inspect
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import pytest

from oncely.aws.sqs import MessageSource, RejectQueue
from oncely.history.sources import TableGenerationReader
from oncely.operate.overview import CloudWatchHourlyMetrics, SqsQueueDepths
from oncely.operate.page_access import CognitoUserDirectory
from oncely.reconcile.sweeps import Sweeps
from oncely.testing.explorer import run_schedule
from oncely.testing.memory_aws.calls import AwsCall, MemoryClient
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import Scheduler, ScriptedChooser
from oncely.testing.script import parse_script
from oncely.testing.world import Simulation
from tests.faults.scenarios import SCENARIOS
from tests.support.adapters import aws_adapters

T = TypeVar("T")
BY_NAME: Final = {one.name: one for one in SCENARIOS}
# Together they reach every adapter.
SCHEDULES: Final = (
    "payment.charge/with-event-botocore: w1:jobs.update_item!lost",
    "payment.charge/cancelled-absent-botocore: w1:orders.get_item>repair",
    "payment.charge/restored-archived-botocore: w1:clock#4>restore1",
    "sync.contact/erased-botocore: w1:jobs.transact_write_items>erase x1:jobs.query>w1",
    "sync.contact/erased-botocore: w1:jobs.transact_write_items>erase x1:jobs.query>archive",
)
# Of pages, commands and handlers. No scenario has them: the simulation delivers messages and
# starts sweeps itself.
NOT_EXPLORED: Final = {
    *(
        CloudWatchHourlyMetrics,
        CognitoUserDirectory,
        MessageSource,
        SqsQueueDepths,
        RejectQueue,
        Sweeps,
    ),
    TableGenerationReader,
}
NOT_SENT: Final = {
    *("sqs.change_message_visibility", "sqs.get_queue_attributes", "sqs.send_message"),
    *("dynamodb.execute_transaction", "stepfunctions.start_execution"),
}


class Watched(Simulation):
    """Knows which operations were sent, and by which adapters."""

    def __init__(self, scenario: Scenario, schedule: Scheduler) -> None:
        self.operations: set[str] = set()
        self.adapters: set[type] = set()
        super().__init__(scenario, schedule)
        intercept = self.aws.intercept

        def watch(call: AwsCall, perform: Callable[[], T]) -> T:
            self.operations.add(call.name)
            self.adapters.update(callers())
            return intercept(call, perform)

        self.aws.intercept = watch


def callers() -> Iterator[type]:
    """The types of the objects that are calling, with their bases."""
    frame = inspect.currentframe()
    while frame is not None:
        yield from type(frame.f_locals.get("self")).__mro__
        frame = frame.f_back


def known_operations() -> set[str]:
    return {
        f"{client.service}.{name}"
        for client in MemoryClient.__subclasses__()
        if client.__module__.startswith("oncely.")
        for name, method in vars(client).items()
        if hasattr(method, "__wrapped__")
        and not name.startswith("_")
        and not inspect.isgeneratorfunction(inspect.unwrap(method))
    }


def watch(text: str) -> Watched:
    name, script = parse_script(text)
    chooser = ScriptedChooser(script)
    world, problems = run_schedule(BY_NAME[name], chooser, simulation_factory=Watched)
    assert (problems, chooser.remaining) == ([], 0), text
    assert isinstance(world, Watched)
    return world


@pytest.fixture(scope="module")
def explored() -> list[Watched]:
    return [watch(text) for text in SCHEDULES]


def test_every_operation_is_sent_through_botocore(explored: list[Watched]) -> None:
    sent = set.union(*(one.operations for one in explored))
    assert known_operations() - sent == NOT_SENT


def test_every_adapter_is_used_through_botocore(explored: list[Watched]) -> None:
    used = set.union(*(one.adapters for one in explored))
    assert aws_adapters() - used == NOT_EXPLORED


def test_no_scenario_sends_more() -> None:
    for one in SCENARIOS:
        world = watch(f"{one.name}: {one.fixed_prefix}")
        assert not world.operations & NOT_SENT, one.name
        assert not world.adapters & NOT_EXPLORED, one.name


def test_retries_do_not_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)

    watch("payment.charge/cancelled-absent-botocore: w1:jobs.update_item!throttled")

    assert pauses == [0]
