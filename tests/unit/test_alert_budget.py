"""Alerts have a budget: the first of a kind individually, then one digest. None is lost."""

from datetime import datetime, timedelta

import pytest

from oncely.alerts.budget import (
    DIGEST_GRACE,
    MAX_EXAMPLES,
    Alert,
    AlertCause,
    AlertKind,
    AlertLimits,
    kind_of_key,
    review_kind,
    without_ids,
)
from oncely.alerts.review_alerts import AlertDelivery
from oncely.core.decisions import SWEEP_HOLD
from oncely.core.errors import UnavailableError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.operate.own_tables import JOBS
from oncely.reconcile.find_due_work import SweepRequest
from oncely.run.outcomes import NeedsReview, Rejected
from oncely.testing.rows import JobRows
from tests.support.crash_points import CrashingPort, CrashPlan, SimulatedCrashError
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_conflict, waits_for_rows
from tests.unit.samples import make_job

LIMITS = AlertLimits()
FLOOD = 200


def sweep(world: InMemoryStack) -> None:
    app = world.app()
    work = app.due_work_finder.find(SweepRequest())
    deadline = world.clock.now() + 10 * SWEEP_HOLD
    for handled in app.group_resolver.resolve(work.items, deadline=deadline):
        assert handled.error is None


def end_window(world: InMemoryStack) -> None:
    world.clock.time += LIMITS.window + DIGEST_GRACE


def send_unpayable(world: InMemoryStack, number: int = FLOOD) -> None:
    for order in range(number):
        world.add_order(f"cancelled-{order}", status="cancelled")
        assert isinstance(world.run(charge_message(f"cancelled-{order}")), NeedsReview)


def send_conflicting(world: InMemoryStack, number: int = FLOOD) -> None:
    for order in range(number):
        world.add_order(f"{order}")
        assert is_conflict(world.run(charge_message(f"{order}", amount=order + 1)))


@pytest.mark.parametrize("flood", [send_unpayable, send_conflicting])
def test_flood_of_one_kind_sends_ten_alerts_and_one_digest(flood: object) -> None:
    world = InMemoryStack()
    assert callable(flood)
    flood(world)
    one_by_one = list(world.alerts.sent)
    end_window(world)

    for _ in range(3):
        sweep(world)
        world.clock.time += SWEEP_HOLD

    digests = world.alerts.sent[len(one_by_one) :]
    assert (len(one_by_one), len(digests)) == (LIMITS.max_alerts, 1)
    assert f"{FLOOD - LIMITS.max_alerts} more" in digests[0].subject


def test_early_messages_without_orders_end_in_one_digest() -> None:
    world = InMemoryStack()
    for order in range(100):
        assert waits_for_rows(world.run(charge_message(f"never-{order}")))
    for _ in range(40):
        sweep(world)
        world.clock.time += timedelta(minutes=1)

    rows = world.store.jobs.values()
    assert {(row.status, row.due_at, row.nothing_sent) for row in rows} == {
        (Status.NEEDS_REVIEW, None, True)
    }
    assert len(world.alerts.sent) == LIMITS.max_alerts + 1
    assert "90 more jobs that need review" in world.alerts.sent[-1].subject


def test_second_kind_has_its_own_budget() -> None:
    world = InMemoryStack()
    send_unpayable(world)
    world.alerts.sent.clear()

    send_conflicting(world, 1)
    world.add_order("refunded", status="cancelled")
    world.run({"job": "receipt.send", "v": 1, "order_id": "refunded"})

    subjects = [alert.subject for alert in world.alerts.sent]
    assert subjects == [
        "Oncely: conflicting message for payment.charge:order_0",
        "Oncely: receipt.send:order_refunded needs review",
    ]


def test_every_review_is_alerted_or_in_digest_and_nothing_stays_due() -> None:
    world = InMemoryStack()
    send_unpayable(world, 30)
    end_window(world)
    sweep(world)

    rows = world.store.jobs.values()
    assert {row.status for row in rows} == {Status.NEEDS_REVIEW}
    assert {row.due_at for row in rows} == {None}
    assert all(row.evidence[-1].event is Event.ALERT for row in rows)
    assert due_digests(world) == {}, "it was sent"


def test_digest_names_count_time_reason_examples_and_command() -> None:
    world = InMemoryStack()
    send_unpayable(world, 30)
    end_window(world)
    sweep(world)

    digest = world.alerts.sent[-1]
    lines = digest.text.splitlines()
    assert digest.subject == "Oncely: 20 more jobs that need review (payment.charge)"
    assert lines[0] == "Nothing more is sent for these jobs until an operator decides."
    times = "from 2026-11-16 03:00 UTC to 2026-11-16 03:15 UTC"
    assert lines[1:4] == [
        f"Count: 20 more jobs that need review, without individual alerts, {times}",
        "Job type: payment.charge",
        "Reason: order … cannot be charged: its status is cancelled",
    ]
    examples = [line for line in lines if line.startswith("Example: payment.charge:order_")]
    assert len(examples) == MAX_EXAMPLES
    assert lines[-1] == (
        "Next: oncely list --status needs_review --type payment.charge "
        "--since 2026-11-16T03:00:00.000Z --limit 40 --stack Oncely-test"
    )


def test_repeated_conflict_of_one_job_alerts_once(world: InMemoryStack) -> None:
    for _ in range(5):
        outcome = world.run(charge_message(amount=1))
        assert is_conflict(outcome)
        assert outcome.alerted
    end_window(world)
    assert is_conflict(world.run(charge_message(amount=1)))

    assert len(world.alerts.sent) == 1


def test_other_reason_of_same_job_alerts_again(world: InMemoryStack) -> None:
    world.run(charge_message(amount=1))
    world.run(charge_message(customer_id="customer_8"))
    assert len(world.alerts.sent) == 2


def test_undelivered_conflict_is_alerted_with_its_redelivery(world: InMemoryStack) -> None:
    world.alerts.fails = True
    failed = world.run(charge_message(amount=1))
    world.alerts.fails = False
    again = world.run(charge_message(amount=1))

    assert is_conflict(failed)
    assert is_conflict(again)
    assert (failed.alerted, again.alerted, len(world.alerts.sent)) == (False, True, 1)


def test_crash_before_conflict_alert_leaves_it_to_redelivery(world: InMemoryStack) -> None:
    alerts = world.alerts
    world.alerts = CrashingPort(alerts, CrashPlan("notify", crash_after=False))  # type: ignore[assignment]  # the same port
    with pytest.raises(SimulatedCrashError):
        world.run(charge_message(amount=1))
    world.alerts = alerts
    world.clock.time += SWEEP_HOLD

    world.run(charge_message(amount=1))

    assert len(alerts.sent) == 1


class BrokenBudget:
    """A budget whose named call fails, as in an outage of the table."""

    def __init__(self, world: InMemoryStack, broken: str) -> None:
        self._budget, self._broken = world.budget, broken

    def __getattr__(self, name: str) -> object:
        if name == self._broken:
            raise UnavailableError("the table does not respond")
        return getattr(self._budget, name)


def due_digests(world: InMemoryStack) -> dict[str, datetime]:
    return JobRows(world.aws.dynamodb, JOBS).due_digests()


def run_conflict(world: InMemoryStack) -> Rejected:
    outcome = world.run(charge_message(amount=1))
    assert is_conflict(outcome)
    return outcome


@pytest.mark.parametrize("broken", ["admit", "reserve", "keep"])
def test_outage_of_budget_sends_the_alert(world: InMemoryStack, broken: str) -> None:
    world.budget = BrokenBudget(world, broken)
    outcome = world.run(charge_message(amount=1))
    send_unpayable(world, 1)

    assert is_conflict(outcome)
    assert outcome.alerted
    assert len(world.alerts.sent) == 2


def test_reservation_whose_alert_failed_is_no_alert(world: InMemoryStack) -> None:
    world.budget = BrokenBudget(world, "keep")
    world.alerts.fails = True
    assert not run_conflict(world).alerted
    world.alerts.fails = False

    assert not run_conflict(world).alerted
    world.clock.time += SWEEP_HOLD
    assert run_conflict(world).alerted
    assert len(world.alerts.sent) == 1


def test_undelivered_digest_is_sent_by_later_sweep() -> None:
    world = InMemoryStack()
    send_unpayable(world, 12)
    end_window(world)
    world.alerts.fails = True
    sweep(world)
    world.alerts.fails = False
    sweep(world)
    assert len(world.alerts.sent) == LIMITS.max_alerts
    world.clock.time += SWEEP_HOLD

    sweep(world)

    assert world.alerts.sent[-1].subject.startswith("Oncely: 2 more")


def test_crash_after_digest_repeats_it_and_never_loses_it() -> None:
    world = InMemoryStack()
    send_unpayable(world, 12)
    end_window(world)
    (key,) = due_digests(world)
    budget = world.budget
    world.budget = CrashingPort(budget, CrashPlan("close_digest", crash_after=False))
    with pytest.raises(SimulatedCrashError):
        world.app().notifier.send_digest(key)
    world.budget = budget
    assert world.app().notifier.send_digest(key) is AlertDelivery.NOT_DUE
    world.clock.time += SWEEP_HOLD

    assert world.app().notifier.send_digest(key) is AlertDelivery.DELIVERED
    assert len(world.alerts.sent) == LIMITS.max_alerts + 2


def test_dry_run_sends_no_digest() -> None:
    world = InMemoryStack()
    send_unpayable(world, 12)
    end_window(world)
    work = world.app().due_work_finder.find(SweepRequest(dry_run=True))
    deadline = world.clock.now() + SWEEP_HOLD

    (handled,) = world.app().group_resolver.resolve(work.items, deadline=deadline, dry_run=True)

    assert handled.resolution is not None
    assert (handled.resolution.outcome, handled.alert_delivery) == ("digest", None)
    assert len(world.alerts.sent) == LIMITS.max_alerts


def test_alert_without_kind_is_outside_the_budget(world: InMemoryStack) -> None:
    notifier = world.app().notifier
    for _ in range(2 * LIMITS.max_alerts):
        assert notifier.notify(Alert(subject="a digest", text=""))
    assert len(world.alerts.sent) == 2 * LIMITS.max_alerts


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("order ABC does not exist", "order … does not exist"),
        ("order 'ABC' does not exist", "order … does not exist"),
        ("amount: message says 1, order says 1250", "amount: message says … order says …"),
        ("pi_3 and pi_4 were found", "… and … were found"),
        ("pi_3, pi_4 and pi_5 were found", "… and … were found"),
        ("no contact ada@example.com", "no contact …"),
        ("", ""),
        (" ".join("abcdefghijklmnop"), "a b c d e f g h i j"),
    ],
)
def test_reason_without_ids_is_the_same_for_every_job(reason: str, expected: str) -> None:
    assert without_ids(reason, {"ABC", None}) == expected


def test_kinds_of_two_jobs_with_one_cause_are_equal() -> None:
    def kind(order: str) -> AlertKind:
        key = JobKey(f"payment.charge:order_{order}")
        message = {"job": "payment.charge", "v": 1, "order_id": order}
        job = make_job(job_key=key, message=message, last_error=f"order {order} is odd")
        assert kind_of_key(AlertCause.REVIEW, key, f"order {order} is odd") == review_kind(job)
        return review_kind(job)

    assert kind("abc") == kind("xyz")
    assert kind("abc").reason == "order … is odd"
