"""Bulk repairs: selected once, repaired once each, however often the run is interrupted."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.app import App
from oncely.core.errors import InvalidRequestError, UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.repairs import Repair
from oncely.operate.bulk_repairer import (
    MAX_BULK_JOBS,
    BulkOutcome,
    BulkResult,
    BulkRun,
    SelectedJob,
)
from oncely.operate.job_lists import JobFilter
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.in_memory_stack import InMemoryStack, charge_message

MANY = 500
REASON = "Stripe is back"


def declined(count: int, **order: object) -> InMemoryStack:
    """A stack with this many failed charges, which would succeed now."""
    world = InMemoryStack()
    world.payments.declines = True
    for number in range(count):
        world.add_order(str(number), **order)
        world.run(charge_message(str(number)))
    world.payments.declines = False
    world.outbox.sent.clear()
    world.clock.advance(minutes=5)
    return world


def key(number: int, attempt: int = 1) -> JobKey:
    return JobKey(f"payment.charge:order_{number}" + (f":{attempt}" if attempt > 1 else ""))


def start(world: InMemoryStack, repair: Repair = Repair.RESUBMIT, **wanted: Any) -> BulkRun:  # noqa: ANN401  # filters by name
    bulk = world.app().bulk_repairer
    selection = bulk.select(repair, JobFilter(**wanted))
    return bulk.start(selection, reason=REASON, actor="ada")


def perform(world: InMemoryStack, run: BulkRun, app: App | None = None) -> Counter[BulkOutcome]:
    bulk = (app or world.app()).bulk_repairer
    return Counter(one.outcome for one in bulk.perform(run, actor="ada"))


def run_sent(world: InMemoryStack) -> None:
    while world.outbox.sent:
        world.run(world.outbox.sent.pop(0))


class Interrupted(BaseException):
    """Ctrl-C, at any place."""


@dataclass
class InterruptedPort:
    """Raises before or after the n-th call of one method, as Ctrl-C does."""

    port: Any
    name: str
    calls_left: int
    after: bool

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # it stands for any port
        found = getattr(self.port, name)
        if name != self.name:
            return found

        def call(*args: object, **named: object) -> object:
            self.calls_left -= 1
            if self.calls_left == 0 and not self.after:
                raise Interrupted
            answer = found(*args, **named)
            if self.calls_left == 0:
                raise Interrupted
            return answer

        return call


FEW = 20
INTERRUPTS: list[tuple[str, str, bool, int]] = [
    ("store", "swap", False, FEW),  # the note on the failed job
    ("store", "swap", True, FEW),
    ("job_inserter", "insert", False, MANY),  # the new job, whose note is written
    ("job_inserter", "insert", True, FEW),
    ("sender", "send", False, FEW),  # its message
    ("sender", "send", True, FEW),
]


@pytest.mark.parametrize(("port", "method", "after", "count"), INTERRUPTS)
def test_interrupted_run_is_continued_with_each_job_once(
    port: str, method: str, *, after: bool, count: int
) -> None:
    """Interrupted halfway before or after any write, and continued."""
    world = declined(count)
    run = start(world)
    assert len(run.jobs) == count
    whole = world.ports()
    broken = InterruptedPort(getattr(whole, port), method, count // 2, after)

    with pytest.raises(Interrupted):
        perform(world, run, world.app(**{port: broken}))
    continued = perform(world, world.app().bulk_repairer.load(run.run_id))
    assert perform(world, run) == {BulkOutcome.DONE_BEFORE: count}, "a third time changes nothing"

    assert continued[BulkOutcome.DONE] + continued[BulkOutcome.DONE_BEFORE] == count
    for number in range(count):
        notes = [one for one in world.job(key(number)).evidence if REASON in one.reason]
        assert len(notes) == 1, "one evidence entry each"
        assert world.job(key(number, 2)).status is Status.READY
    # A message that was not sent is sent by the row.
    for number in range(count):
        world.run_until_idle(key(number, 2))
    charges = Counter(world.payments.intents[ref].payment.job_key for ref in world.payments.charges)
    assert charges == {key(number, 2): 1 for number in range(count)}


def test_run_names_operator_and_run_in_each_job() -> None:
    world = declined(2)
    run = start(world)
    assert perform(world, run) == {BulkOutcome.DONE: 2}
    entry = world.job(key(0)).evidence[-1]
    assert (entry.event, entry.actor) == (Event.NOTE, "operator:ada")
    assert f"bulk run {run.run_id}: {REASON}" in entry.reason


def test_selection_is_saved_as_keys_and_versions() -> None:
    world = declined(2)
    run = start(world)
    held = json.loads(world.bulk_runs.saved[run.run_id])
    assert sorted(held["jobs"]) == [[key(n), world.job(key(n)).version] for n in range(2)]
    assert world.app().bulk_repairer.load(run.run_id) == run


def test_job_that_changed_since_selection_is_skipped() -> None:
    world = declined(3)
    run = start(world)
    row = world.job(key(1))
    world.store.swap(
        row, row.apply(Event.NOTE, now=world.clock.now(), actor="operator:bo", reason="mine")
    )
    assert perform(world, run) == {BulkOutcome.DONE: 2, BulkOutcome.CHANGED: 1}
    assert world.store.get(key(1, 2)) is None


def test_expired_job_is_skipped() -> None:
    world = declined(2)
    run = start(world)
    world.store.expire(key(0))
    assert perform(world, run) == {BulkOutcome.DONE: 1, BulkOutcome.CHANGED: 1}


def test_unreachable_job_does_not_stop_others_and_is_continued() -> None:
    world = declined(3)
    run = start(world)

    class Unavailable:
        def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # of any port
            return getattr(world.store, name)

        def get(self, wanted: JobKey) -> JobRow | None:
            if wanted == key(1):
                raise UnavailableError("DynamoDB is throttling")
            found: JobRow | None = world.store.get(wanted)
            return found

    first = perform(world, run, world.app(store=Unavailable()))
    assert first == {BulkOutcome.DONE: 2, BulkOutcome.UNREACHABLE: 1}
    assert perform(world, run) == {BulkOutcome.DONE: 1, BulkOutcome.DONE_BEFORE: 2}


@pytest.mark.parametrize(
    ("wanted", "selected"),
    [
        ({}, {0, 1, 2, 3}),
        ({"job_type": "payment.charge"}, {0, 1, 2, 3}),
        ({"job_type": "receipt.send"}, set()),
        ({"error": "CARD was declined"}, set()),
        ({"error": "DECLINED"}, {0, 1, 2, 3}),
        ({"customer_id": "customer_7"}, {0, 1}),
        ({"since": timedelta(minutes=-6)}, {0, 1, 2, 3}),
        ({"since": timedelta(minutes=-1)}, set()),
        ({"until": timedelta(minutes=-6)}, set()),
        ({"status": "ready"}, set()),
    ],
)
def test_filters_select_by_type_status_reason_time_and_customer(
    wanted: dict[str, Any], selected: set[int]
) -> None:
    world = declined(2)
    world.payments.declines = True
    for number in (2, 3):
        world.add_order(str(number), customer_id="customer_8")
        world.run(charge_message(str(number)))
    now = world.clock.now()
    times: dict[str, Any] = {
        k: now + v if isinstance(v, timedelta) else v for k, v in wanted.items()
    }

    found = world.app().bulk_repairer.select(Repair.RESUBMIT, JobFilter(**times))

    if "since" in wanted and wanted["since"] == timedelta(minutes=-1):
        selected = {2, 3}
    assert {view.job.job_key for view in found.jobs} == {key(number) for number in selected}


def test_job_that_does_not_allow_repair_is_counted_with_reason() -> None:
    world = declined(2)
    found = world.app().bulk_repairer.select(Repair.RESEND, JobFilter(status="failed"))
    assert found.jobs == ()
    ((reason, count),) = found.refused.items()
    assert (count, "only a ready job" in reason) == (2, True)


def test_preview_changes_nothing_and_shows_few_examples() -> None:
    world = declined(9)
    bulk = world.app().bulk_repairer
    before = dict(world.store.jobs)

    selection = bulk.select(Repair.RESUBMIT, JobFilter())
    previews = bulk.preview(selection, reason=REASON, actor="ada")

    assert (len(selection.jobs), len(previews)) == (9, 5)
    assert all(one.outcome is BulkOutcome.DONE and "is sent" in one.detail for one in previews)
    assert (world.store.jobs, world.outbox.sent, world.bulk_runs.saved) == (before, [], {})


@pytest.mark.parametrize("repair", [Repair.LOOK_UP, Repair.REOPEN, Repair.MARK_FINISHED])
def test_repair_of_single_jobs_is_refused_in_bulk(repair: Repair) -> None:
    with pytest.raises(InvalidRequestError, match="job by job"):
        InMemoryStack().app().bulk_repairer.select(repair, JobFilter())


def test_run_is_bounded() -> None:
    def run(count: int) -> BulkRun:
        jobs = tuple(SelectedJob(key(number), 1) for number in range(count))
        return BulkRun(
            run_id="1",
            repair=Repair.RESEND,
            reason=REASON,
            actor="ada",
            created_at=InMemoryStack().clock.now(),
            jobs=jobs,
        )

    assert len(run(MAX_BULK_JOBS).jobs) == MAX_BULK_JOBS
    for wrong in (0, MAX_BULK_JOBS + 1):
        with pytest.raises(InvalidRequestError):
            run(wrong)
    with pytest.raises(InvalidRequestError, match="too long"):
        replace(run(1), reason="x" * 500)


def cancelled(world: InMemoryStack) -> list[Status]:
    return [job.status for job in world.store.jobs.values()]


@pytest.mark.parametrize(
    ("repair", "ended"),
    [(Repair.CANCEL, Status.CANCELLED), (Repair.RESEND, Status.READY)],
)
def test_ready_jobs_are_cancelled_or_resent(repair: Repair, ended: Status) -> None:
    world = InMemoryStack()
    for number in range(3):
        world.add_order(str(number))
        world.enqueuer().enqueue(charge_message(str(number)))
    world.outbox.sent.clear()
    run = start(world, repair)
    assert perform(world, run) == {BulkOutcome.DONE: 3}
    assert cancelled(world) == [ended] * 3
    assert len(world.outbox.sent) == (3 if repair is Repair.RESEND else 0)
    assert perform(world, run) == {BulkOutcome.DONE_BEFORE: 3}
    assert len(world.outbox.sent) == (3 if repair is Repair.RESEND else 0), "not sent twice"


def test_reviews_are_marked_failed_if_provider_agrees() -> None:
    world = InMemoryStack()
    for number in range(3):
        world.run_to_review(str(number))
    assert perform(world, start(world, Repair.MARK_FAILED)) == {BulkOutcome.DONE: 3}
    assert cancelled(world) == [Status.FAILED] * 3


def test_amount_above_limit_becomes_request() -> None:
    world = declined(2)
    world.second_operator_above = "eur:1000"
    run = start(world)
    assert perform(world, run) == {BulkOutcome.REQUESTED: 2}
    assert world.store.get(key(0, 2)) is None
    other = Counter(
        one.outcome for one in world.app().bulk_repairer.perform(run, actor="bo", identity="bo")
    )
    assert other == {BulkOutcome.DONE: 2}


def run_id(output: str) -> str:
    return output.partition("Run ")[2].partition(":")[0]


def test_command_shows_count_and_examples_then_repairs() -> None:
    world = declined(7)
    connection = FakeStackConnection(world)
    words = ("bulk", "start", "resubmit", "--type", "payment.charge", "--reason", REASON)

    dry = run_cli(*words, "--dry-run", connection=connection)
    assert dry.exit_code == 0, dry.output
    assert "Resubmit as a new job: 7 jobs" in dry.stderr
    assert "and 2 more" in dry.stderr
    assert world.store.get(key(0, 2)) is None

    done = run_cli(*words, "--yes", "--json", connection=connection)
    assert done.exit_code == 0, done.output
    assert Counter(json.loads(line)["outcome"] for line in done.stdout.splitlines()) == {"done": 7}
    again = run_cli("bulk", "continue", run_id(done.stderr), "--yes", connection=connection)
    assert again.exit_code == 0, again.output
    assert "7 done before" in again.stderr


class InterruptedConnection(FakeStackConnection):
    """The operator presses Ctrl-C while the third job is repaired."""

    broken: InterruptedPort | None = None

    @property
    def app(self) -> App:
        if self.broken is None:
            return super().app
        return self.world.app(job_inserter=self.broken)


def test_interrupted_command_says_how_to_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    world = declined(5)
    connection = InterruptedConnection(world)
    connection.broken = InterruptedPort(world.ports().job_inserter, "insert", 3, after=False)
    monkeypatch.setattr("tests.unit.test_bulk.Interrupted", KeyboardInterrupt)
    words = ("bulk", "start", "resubmit", "--reason", REASON, "--yes")

    stopped = run_cli(*words, connection=connection)

    assert stopped.exit_code == 1
    assert "Interrupted after 2 of 5 jobs" in stopped.stderr
    connection.broken = None
    one = run_id(stopped.stderr)
    assert f"oncely bulk continue {one}" in stopped.stderr
    continued = run_cli("bulk", "continue", one, "--yes", connection=connection)
    assert continued.exit_code == 0, continued.output
    assert "3 done, 2 done before" in continued.stderr
    run_sent(world)
    assert len(world.payments.charges) == 5


def test_command_with_unknown_run_or_no_job_changes_nothing() -> None:
    connection = FakeStackConnection(InMemoryStack())
    unknown = run_cli("bulk", "continue", "x", "--yes", connection=connection)
    assert (unknown.exit_code, "No bulk run 'x'" in unknown.stderr) == (1, True)
    nothing = run_cli(
        "bulk", "start", "resubmit", "--reason", REASON, "--yes", connection=connection
    )
    assert (nothing.exit_code, "No job was selected" in nothing.stderr) == (1, True)


def results(world: InMemoryStack, run: BulkRun, pages: Callable[[int], int]) -> list[BulkResult]:
    """As the page does: one part after the other."""
    found: list[BulkResult] = []
    while len(found) < len(run.jobs):
        part = world.app().bulk_repairer.perform(
            run, actor="ada", start=len(found), limit=pages(len(found))
        )
        found += part
    return found


def test_page_repairs_run_in_parts() -> None:
    world = declined(7)
    run = start(world)
    done = results(world, run, lambda _: 3)
    assert [one.key for one in done] == [job.key for job in run.jobs]
    assert {one.outcome for one in done} == {BulkOutcome.DONE}
