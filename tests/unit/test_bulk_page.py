"""The admin page's API for bulk repairs: count and examples, a saved run, and parts of it."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from oncely.core.lifecycle import Event, Status
from oncely.core.repairs import Repair
from oncely.handlers import repair_jobs
from oncely.handlers.telemetry import telemetry
from oncely.operate.bulk_repairer import BulkOutcome, SelectedJob
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.repairs import repair_job
from tests.unit.test_access_log import DIGEST, Lines, Page
from tests.unit.test_bulk import cancelled, declined, key, perform, start

START = "POST /api/bulk"
CONTINUE = "POST /api/bulk/continue"
ASKED = {"repair": "resubmit", "reason": "Stripe is back", "job_type": "payment.charge"}
JOBS = 2 * repair_jobs.BULK_PAGE_SIZE + 3


@pytest.fixture
def world() -> InMemoryStack:
    return declined(JOBS)


@pytest.fixture
def page(world: InMemoryStack, monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(world, monkeypatch)


def post(page: Page, route: str, **body: object) -> Any:  # noqa: ANN401  # JSON
    answer = page.call(route, body=json.dumps(body))
    assert answer["statusCode"] == 200, answer["body"]
    return json.loads(answer["body"])


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Lines:
    (handler,) = telemetry().logger.handlers
    lines = Lines()
    monkeypatch.setattr(handler, "stream", lines.stream)
    return lines


def test_each_shown_job_is_logged(page: Page, log: Lines) -> None:
    run = post(page, START, **ASKED, dry_run=False)
    examples = {one["job_key"] for one in run["examples"]}
    assert {line["job_key"] for line in log.access} == examples
    part = post(page, CONTINUE, run_id=run["run_id"])
    shown = {one["job_key"] for one in part["results"]}
    assert len(shown) == repair_jobs.BULK_PAGE_SIZE
    assert {line["job_key"] for line in log.access} == examples | shown


def test_typed_filters_are_logged_as_digest(page: Page, log: Lines) -> None:
    post(page, START, **ASKED, customer_id="nobody@example.com")
    [line] = log.access
    assert line["text_digest"] == DIGEST("nobody@example.com")
    assert "nobody@" not in log.stream.getvalue()


def test_dry_run_is_default_and_changes_nothing(page: Page, world: InMemoryStack) -> None:
    before = dict(world.store.jobs)
    shown = post(page, START, **ASKED)
    assert (shown["run_id"], shown["jobs"], len(shown["examples"])) == (None, JOBS, 5)
    assert (world.store.jobs, world.bulk_runs.saved) == (before, {})


def test_run_is_saved_then_repaired_in_parts(page: Page, world: InMemoryStack) -> None:
    run = post(page, START, **ASKED, dry_run=False)
    assert world.store.get(key(0, 2)) is None, "nothing is repaired yet"
    outcomes: Counter[str] = Counter()
    answered = parts = 0
    while answered < run["jobs"]:
        part = post(page, CONTINUE, run_id=run["run_id"], start=answered)
        outcomes.update(one["outcome"] for one in part["results"])
        answered, parts = part["answered"], parts + 1
    assert (outcomes, parts) == ({"done": JOBS}, 3)
    again = post(page, CONTINUE, run_id=run["run_id"], start=0)
    assert {one["outcome"] for one in again["results"]} == {"done before"}
    assert world.job(key(0)).evidence[-1].actor == "operator:ada@example.com"


def test_chosen_jobs_are_selected_as_the_operator_saw_them(
    page: Page, world: InMemoryStack
) -> None:
    versions = {number: world.job(key(number)).version for number in (1, 2, 3)}
    versions[3] -= 1  # changed since
    chosen = [{"key": key(number), "version": version} for number, version in versions.items()]
    chosen.append({"key": "payment.charge:gone", "version": 1})

    shown = post(page, START, **ASKED, chosen=chosen)

    assert shown["jobs"] == 2
    assert shown["refused"] == {"it changed since you saw it: reload the list": 2}
    assert {one["job_key"] for one in shown["examples"]} == {key(1), key(2)}


def test_run_is_described_without_repairing_anything(page: Page, world: InMemoryStack) -> None:
    run = post(page, START, **ASKED, dry_run=False, expected_jobs=JOBS)

    shown = post(page, CONTINUE, run_id=run["run_id"], limit=0)

    assert (shown["jobs"], shown["answered"], shown["results"]) == (JOBS, 0, [])
    assert (shown["label"], shown["reason"]) == ("Resubmit as a new job", "Stripe is back")
    assert shown["actor"] == "ada@example.com"
    assert world.store.get(key(0, 2)) is None


@pytest.mark.parametrize(
    ("route", "body", "reason"),
    [
        (START, {**ASKED, "repair": "lookup"}, "job by job"),
        (START, {**ASKED, "repair": "charge"}, "repair: Input should be 'lookup'"),
        (START, {**ASKED, "since": "soon"}, "a time is ISO text"),
        (START, {**ASKED, "actor": "eve"}, "invalid bulk request: actor"),
        (START, {**ASKED, "customer_id": "nobody", "dry_run": False}, "a bulk run has 1 to"),
        (START, {**ASKED, "expected_jobs": JOBS - 1}, f"{JOBS} jobs match now, not {JOBS - 1}"),
        (START, {**ASKED, "chosen": [{"key": key(0)}]}, "chosen.0.version"),
        (START, {**ASKED, "chosen": [{"key": key(0), "version": 1}] * 501}, "at most 500 jobs"),
        (CONTINUE, {"run_id": "../x"}, "no bulk run"),
        (CONTINUE, {"run_id": "1", "start": "0"}, "invalid bulk request: start"),
    ],
)
def test_invalid_request_is_refused(
    page: Page, route: str, body: dict[str, object], reason: str
) -> None:
    answer = page.call(route, body=json.dumps(body))
    assert answer["statusCode"] == 400
    assert reason in json.loads(answer["body"])["error"]


@pytest.mark.parametrize("route", [START, CONTINUE])
def test_support_agent_is_refused(page: Page, route: str) -> None:
    page.directory.members["ada@example.com"] = {"support"}
    assert page.call(route, groups="[support]", body=json.dumps(ASKED))["statusCode"] == 403


def test_request_to_cancel_is_confirmed_by_the_other_operator() -> None:
    world = InMemoryStack()
    for number in range(2):
        world.enqueuer().enqueue(charge_message(str(number)))
    world.second_operator_above = "eur:1"
    run = start(world, Repair.CANCEL)
    assert perform(world, run) == {BulkOutcome.REQUESTED: 2}
    assert perform(world, run) == {BulkOutcome.REFUSED: 2}, "nobody confirms their own"

    confirm = world.app().bulk_repairer.perform(run, actor="bo", identity="bo")

    assert {one.outcome for one in confirm} == {BulkOutcome.DONE}
    assert cancelled(world) == [Status.CANCELLED] * 2
    again = world.app().bulk_repairer.perform(run, actor="bo", identity="bo")
    assert {one.outcome for one in again} == {BulkOutcome.DONE_BEFORE}


def test_continued_run_confirms_nothing_that_was_added_to_its_request() -> None:
    """Who continues a run has read the run, and no row: here a warning, and another's request."""
    world = InMemoryStack()
    for number in range(3):
        world.enqueuer().enqueue(charge_message(str(number)))
    world.second_operator_above = "eur:1"
    run = start(world, Repair.CANCEL)
    assert perform(world, run) == {BulkOutcome.REQUESTED: 3}
    warned, withdrawn = world.job(key(0)), world.job(key(1))
    warning = warned.apply(Event.NOTE, now=warned.updated_at, actor="eve", reason="keep it")
    world.store.swap(warned, warning)
    voided = replace(withdrawn, pending_repair=None, version=withdrawn.version + 1)
    world.store.swap(withdrawn, voided)
    repair_job(world, Repair.CANCEL, key=key(1), actor="dora")

    found = world.app().bulk_repairer.perform(run, actor="bo", identity="bo")

    assert {one.key: one.outcome for one in found} == {
        **dict.fromkeys((key(0), key(1)), BulkOutcome.CHANGED),
        key(2): BulkOutcome.DONE,
    }
    jobs = tuple(SelectedJob(one, world.job(one).version) for one in (key(0), key(1)))
    again = replace(run, run_id="another", jobs=jobs)
    confirm = world.app().bulk_repairer.perform(again, actor="bo", identity="bo")
    assert {one.outcome for one in confirm} == {BulkOutcome.DONE}, "in the version that bo selected"
