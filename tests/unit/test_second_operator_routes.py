"""One operator on page and command line: every route to a large effect waits for the second."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pytest
from typer.main import get_command
from typer.testing import Result

from oncely.app import App
from oncely.cli.main import app
from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair
from oncely.handlers import read_jobs, repair_jobs
from oncely.operate.bulk_repairer import DEFAULT_STATUSES
from tests.support.cli import FakeStackConnection, FakeSts, run_cli
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import (
    KEY,
    world_with_declined_job,
    world_with_review_job,
)
from tests.support.scheduled_charge import ScheduledCharge

ADA: Final = "ada@example.com"
BOB: Final = "bob@example.com"
REJECT: Final = "2026/11/16/4f7b"
RESEND: Final = "POST /api/rejects/resend"
MESSAGE: Final = json.dumps(charge_message())
RIGHT: Final = json.dumps(charge_message(amount=1250))
WRONG: Final = json.dumps(charge_message(amount=9900))

# What an operator can reach, and why it needs no second operator.
HARMLESS_REPAIRS: Final = {
    Repair.LOOK_UP: "asks the provider, as every sweep does",
    Repair.RESEND: "repeats the message of a ready job, as every sweep does",
}
HARMLESS_ROUTES: Final = {
    "GET /api/lookup": "reads",
    "GET /api/resolve": "reads",
    "GET /api/export": "reads",
    "POST /api/pause": "delays effects",
    "POST /api/bulk": "saves a selection",
}
HARMLESS_COMMANDS: Final = {
    **dict.fromkeys(("find", "show", "list", "contracts", "gates", "doctor"), "reads"),
    **dict.fromkeys(("archive about", "archive gaps", "archive verify", "audit payments"), "reads"),
    **dict.fromkeys(("rejects list", "rejects show"), "reads"),
    **dict.fromkeys(("init", "new-job", "schemas", "lock"), "works on this machine"),
    **dict.fromkeys(("demo", "local"), "works on this machine"),
    **dict.fromkeys(("pause", "resume"), "delays effects"),
    "redrive": HARMLESS_REPAIRS[Repair.RESEND],
    "reconcile": "starts a sweep",
    "erase": "removes no row and sends nothing",
    "archive backfill": "of an administrator: writes no job row",
    "restore-proofs": "of an administrator: what was open is looked up first",
}


@dataclass
class Operator(FakeStackConnection):
    """One person on the admin page and on the command line of one stack."""

    name: str = ADA

    def __post_init__(self) -> None:
        self.clients = {"sts": FakeSts(f"arn:aws:sts::1:assumed-role/Operator/{self.name}")}

    @property
    def app(self) -> App:
        return self.world.app(user_directory=self)

    def groups(self, _: str) -> frozenset[str]:
        return frozenset({"operator"})

    def post(self, route: str, **body: object) -> tuple[int, Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(repair_jobs, "get_app", lambda: self.app)
            claims = {"cognito:username": self.name, "cognito:groups": "[operator]"}
            event = {
                "routeKey": route,
                "requestContext": {"authorizer": {"jwt": {"claims": claims}}},
                "body": json.dumps(body),
            }
            answer = vars(repair_jobs.handler)["__wrapped__"](event, None)
        return answer["statusCode"], json.loads(answer["body"])

    def run(self, *words: str, stdin_text: str | None = None) -> Result:
        result = run_cli(*words, connection=self, stdin_text=stdin_text)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result

    def repair(self, repair: Repair, *, key: str = KEY, **more: str) -> tuple[int, Any]:
        seen = {"key": key, "version": self.world.job(key).version, "reason": "a call"}
        return self.post("POST /api/repair", repair=repair, **seen, **more)


Act = Callable[[Operator], object]


@dataclass(frozen=True, kw_only=True)
class EffectRoute:
    """One way to a decision about 12.50 EUR, where 12.49 EUR is the limit."""

    entry: str  # a route of the API, or a command
    act: Act
    world: Callable[[], InMemoryStack]
    repair: Repair | None = None
    confirm: Act | None = None  # the same act if None
    charges: int = 0  # at the provider, once both have acted
    ends: Mapping[str, Status] = field(default_factory=dict)

    def __str__(self) -> str:
        named = f"{self.entry} {self.repair or self.world.__name__}"
        return re.sub(r"\W+", " ", named.replace("_", " "))


def empty_world() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    return world


def ready_world() -> InMemoryStack:
    """A ready job whose message is on its way for longer than the test."""
    world = empty_world()
    world.enqueuer().enqueue(charge_message())
    world.outbox.sent.clear()
    return world


def scheduled_world() -> InMemoryStack:
    """A job whose row holds a time that its contract honors."""
    world = InMemoryStack(contracts=(ScheduledCharge,))
    world.add_order()
    world.enqueuer().enqueue(charge_message(), run_at=world.clock.now() + timedelta(days=1))
    return world


def refused_world() -> InMemoryStack:
    """A review that the right message would run."""
    world = empty_world()
    world.enqueuer().enqueue(json.loads(WRONG))
    world.outbox.sent.clear()
    world.clock.advance(hours=1)
    world.reconcile(KEY)
    assert world.job(KEY).awaits_message
    return world


def absent_world() -> InMemoryStack:
    return world_with_review_job(ProviderFault.TIMEOUT_BEFORE)


def on_page(repair: Repair, *, key: str = KEY, **more: str) -> Act:
    return lambda who: who.repair(repair, key=key, **more)


def by_command(repair: Repair, *options: str) -> Act:
    return lambda who: who.run("repair", KEY, repair, "--reason", "a call", "--yes", *options)


def bulk_on_page(repair: Repair) -> Act:
    def act(who: Operator) -> None:
        if not who.world.bulk_runs.saved:
            started = who.post("POST /api/bulk", repair=repair, reason="many", dry_run=False)
            assert started[1]["jobs"] == 1, started
        (run_id,) = who.world.bulk_runs.saved
        who.post("POST /api/bulk/continue", run_id=run_id)

    return act


def bulk_by_command(repair: Repair) -> Act:
    def act(who: Operator) -> None:
        if who.world.bulk_runs.saved:
            (run_id,) = who.world.bulk_runs.saved
            who.run("bulk", "continue", run_id, "--yes")
        else:
            who.run("bulk", "start", repair, "--reason", "many", "--yes")

    return act


CHARGED: Final = {KEY: Status.FINISHED}
RESUBMITTED: Final = {KEY: Status.FAILED, f"{KEY}:2": Status.FINISHED}
# The state that allows each repair, and what follows once two operators have decided.
REPAIRS: Final[Mapping[Repair, dict[str, Any]]] = {
    Repair.REOPEN: {"world": absent_world, "charges": 1, "ends": CHARGED},
    Repair.MARK_FINISHED: {"world": world_with_review_job, "charges": 1, "ends": CHARGED},
    Repair.MARK_FAILED: {"world": absent_world, "ends": {KEY: Status.FAILED}},
    Repair.RESUBMIT: {"world": world_with_declined_job, "charges": 1, "ends": RESUBMITTED},
    Repair.CANCEL: {"world": ready_world, "ends": {KEY: Status.CANCELLED}},
    Repair.RUN_NOW: {"world": scheduled_world, "charges": 1, "ends": CHARGED},
    Repair.RESCHEDULE: {"world": scheduled_world, "ends": {KEY: Status.READY}},
}
# What the repair needs besides: the field of the page, the option of the command, and its value.
INPUTS: Final = {
    Repair.MARK_FINISHED: ("reference", "--provider-ref", "pi_1"),
    Repair.RESCHEDULE: ("run_at", "--at", "2026-11-20T09:00:00Z"),
}
SENDS: Final[Mapping[str, Act]] = {
    "send": lambda who: who.run("send", MESSAGE),
    "send --file": lambda who: who.run("send", "--file", "-", stdin_text=f"{MESSAGE}\n{MESSAGE}"),
    RESEND: lambda who: who.post(RESEND, name=REJECT, message=RIGHT, reason="a typo"),
    "rejects resend": lambda who: who.run("rejects", "resend", REJECT, "amount=1250", "--yes"),
}


def routes() -> Iterator[EffectRoute]:
    for repair, after in REPAIRS.items():
        page, command = on_page(repair), by_command(repair)
        if repair in INPUTS:
            name, option, value = INPUTS[repair]
            page = on_page(repair, **{name: value})
            command = by_command(repair, option, value)
        yield EffectRoute(
            entry="POST /api/repair", repair=repair, act=page, confirm=command, **after
        )
        yield EffectRoute(entry="repair", repair=repair, act=command, confirm=page, **after)
    cancel: Act = lambda who: who.run("cancel", KEY, "--reason", "a call", "--yes")  # noqa: E731  # as the others
    yield EffectRoute(entry="cancel", repair=Repair.CANCEL, act=cancel, **REPAIRS[Repair.CANCEL])
    for repair in set(DEFAULT_STATUSES) - set(HARMLESS_REPAIRS):
        more = {"repair": repair, **REPAIRS[repair]}
        yield EffectRoute(entry="POST /api/bulk/continue", act=bulk_on_page(repair), **more)
        for entry in ("bulk start", "bulk continue"):
            yield EffectRoute(entry=entry, act=bulk_by_command(repair), **more)
    for entry, act in SENDS.items():
        for world in (empty_world, refused_world):
            more = {"charges": 1, "ends": CHARGED, "world": world}
            yield EffectRoute(entry=entry, act=act, confirm=on_page(Repair.REOPEN), **more)
    resubmission = json.dumps(charge_message(attempt=2))
    yield EffectRoute(
        entry="send",
        act=lambda who: who.run("send", resubmission),
        confirm=on_page(Repair.REOPEN, key=f"{KEY}:2"),
        world=world_with_declined_job,
        charges=1,
        ends=RESUBMITTED,
    )


ROUTES: Final = sorted(routes(), key=str)


def settle(world: InMemoryStack) -> None:
    """Deliver every message, and sweep what is due."""
    for _ in range(5):
        for key in list(world.store.jobs):
            world.reconcile(key)
        while world.outbox.sent:
            world.run(world.outbox.sent.pop(0))


def decided(world: InMemoryStack) -> tuple[Any, ...]:
    """Everything that a decision about a job changes."""
    jobs = {key: (job.status, job.run_at) for key, job in world.store.jobs.items()}
    others = {key: job for key, job in jobs.items() if job[0] is not Status.NEEDS_REVIEW}
    return charges(world), world.order(), others


def charges(world: InMemoryStack) -> int:
    return sum(one.status == "succeeded" for one in world.payments.intents.values())


def operators(route: EffectRoute) -> tuple[InMemoryStack, Operator, Operator]:
    world = route.world()
    world.second_operator_above = "eur:1249"
    world.rejects.add(REJECT, WRONG)
    ada, bob = (Operator(world, name=name) for name in (ADA, BOB))
    return world, ada, bob


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_large_effect_waits_for_second_operator(route: EffectRoute) -> None:
    world, ada, bob = operators(route)
    before = decided(world)

    # Whatever she repeats: the same act, the repair that would confirm it, or another send.
    for act in (route.act, route.act, route.confirm or route.act, *SENDS.values(), route.act):
        act(ada)
        settle(world)
        assert decided(world) == before

    (route.confirm or route.act)(bob)
    settle(world)

    assert charges(world) == route.charges
    assert {key: world.job(key).status for key in route.ends} == route.ends
    after = decided(world)
    assert after != before
    for who in (ada, bob):
        route.act(who)
        settle(world)
    assert decided(world) == after


@pytest.mark.parametrize("entry", SENDS)
def test_second_operator_confirms_by_sending_the_same(entry: str) -> None:
    world, ada, bob = operators(EffectRoute(entry=entry, act=SENDS[entry], world=empty_world))

    SENDS[entry](ada)
    assert bob.run("send", json.dumps(ada.world.job(KEY).message)).exit_code == 0
    settle(world)

    assert (charges(world), world.job(KEY).status) == (1, Status.FINISHED)


def test_every_repair_and_entry_is_in_the_table() -> None:
    """A new repair, route or command is listed here: with its attempt, or why it is harmless."""
    entries = {route.entry.partition(" --")[0] for route in ROUTES}
    assert set(REPAIRS) | set(HARMLESS_REPAIRS) == set(Repair)
    posts = set(repair_jobs.ROUTES)
    assert not any(name.startswith("POST") for name in read_jobs.ROUTES)
    assert posts == (entries & posts) | set(HARMLESS_ROUTES)
    assert set(commands()) == (entries - posts) | set(HARMLESS_COMMANDS)


def commands() -> Iterator[str]:
    root: Any = get_command(app)
    for name, command in root.commands.items():
        inner = getattr(command, "commands", None)
        yield from [name] if inner is None else [f"{name} {one}" for one in inner]
