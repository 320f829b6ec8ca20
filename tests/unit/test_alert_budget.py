"""Alerts have a budget: the first of a kind individually, then summaries. None is lost."""

from datetime import timedelta

import pytest

from oncely.alerts.alert_texts import MAX_SUMMARY_LINES
from oncely.alerts.budget import (
    ALERT_WINDOW,
    MAX_SUMMARIES,
    Alert,
    AlertCause,
    AlertDelivery,
    AlertKind,
    kind_of_key,
    review_kind,
    without_ids,
)
from oncely.core.decide import SWEEP_HOLD
from oncely.core.errors import UnavailableError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.outcomes import NeedsReview, Rejected
from oncely.reconcile.find_due_work import SweepRequest
from oncely.reconcile.resolve_group import HandledItem, split_into_groups
from tests.support.crash_points import CrashingPort, CrashPlan, SimulatedCrashError
from tests.support.in_memory_stack import SETTINGS, InMemoryStack, charge_message
from tests.support.outcomes import is_conflict, waits_for_rows
from tests.unit.samples import NOW, make_job

MAX_ALERTS = SETTINGS.max_alerts_per_hour
FLOOD = 200


def sweep(world: InMemoryStack) -> list[HandledItem]:
    """Resolve each group of a sweep, as its invocations do."""
    app = world.app()
    work = app.due_work_finder.find(SweepRequest())
    deadline = world.clock.now() + 10 * SWEEP_HOLD
    handled: list[HandledItem] = []
    for group in split_into_groups(work, size=SETTINGS.sweep_group_size, dry_run=False):
        keys = {item["key"] for item in group["items"]}
        items = [item for item in work.items if item.key in keys]
        handled += app.group_resolver.resolve(items, deadline=deadline)
    assert [one.error for one in handled if one.error is not None] == []
    return handled


def send_unpayable(world: InMemoryStack, number: int = FLOOD) -> None:
    for order in range(number):
        world.add_order(f"cancelled-{order}", status="cancelled")
        assert isinstance(world.run(charge_message(f"cancelled-{order}")), NeedsReview)


def send_conflicting(world: InMemoryStack, number: int = FLOOD) -> None:
    for order in range(number):
        world.add_order(f"{order}")
        assert is_conflict(world.run(charge_message(f"{order}", amount=order + 1)))


def test_flood_of_reviews_sends_ten_alerts_and_one_summary() -> None:
    world = InMemoryStack()
    send_unpayable(world)
    assert len(world.alerts.sent) == MAX_ALERTS

    for _ in range(3):
        world.clock.time += SWEEP_HOLD
        sweep(world)

    *_, last, summary = world.alerts.sent
    assert len(world.alerts.sent) == MAX_ALERTS + 1
    assert last.text.endswith(
        "Limit: until 2026-11-16 04:00 UTC, summaries report more jobs of this kind"
    )
    assert summary.subject == f"Oncely: {FLOOD - MAX_ALERTS} jobs need review"


def test_flood_of_conflicts_sends_ten_alerts_and_says_so() -> None:
    world = InMemoryStack()
    send_conflicting(world)
    *_, last = world.alerts.sent
    world.clock.time += ALERT_WINDOW
    world.add_order("later")
    world.run(charge_message("later", amount=1))

    assert len(world.alerts.sent) == MAX_ALERTS + 1
    assert last.text.endswith(
        "Limit: until 2026-11-16 04:00 UTC, more of this kind are counted and not sent"
    )
    assert world.alerts.sent[-1].text.endswith("Not sent: 190 earlier alerts of this kind")


def test_early_messages_without_orders_end_in_one_summary() -> None:
    world = InMemoryStack()
    for order in range(100):
        assert waits_for_rows(world.run(charge_message(f"never-{order}")))
    for _ in range(40):
        sweep(world)
        world.clock.time += timedelta(minutes=1)

    rows = world.store.jobs.values()
    assert {(row.status, row.due_at, row.awaits_message) for row in rows} == {
        (Status.NEEDS_REVIEW, None, True)
    }
    assert len(world.alerts.sent) == MAX_ALERTS + 1
    assert world.alerts.sent[-1].subject == "Oncely: 90 jobs need review"


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


def test_every_review_is_alerted_or_in_summary_and_nothing_stays_due() -> None:
    world = InMemoryStack()
    send_unpayable(world, 30)
    world.clock.time += SWEEP_HOLD
    sweep(world)

    rows = world.store.jobs.values()
    assert {row.status for row in rows} == {Status.NEEDS_REVIEW}
    assert {row.due_at for row in rows} == {None}
    assert all(row.evidence[-1].event is Event.ALERT for row in rows)
    assert {name for alert in world.alerts.sent for name in alert.names} == set(world.store.jobs)


def test_summary_names_count_causes_examples_and_command() -> None:
    world = InMemoryStack()
    send_unpayable(world, 30)
    world.clock.time += SWEEP_HOLD
    sweep(world)

    summary = world.alerts.sent[-1]
    cause = "order cancelled-10 cannot be charged: its status is cancelled"
    command = "oncely list --status needs_review --since 2026-11-16T03:00:00.000Z"
    assert summary.subject == "Oncely: 20 jobs need review"
    assert summary.text.splitlines() == [
        "Nothing more is sent for these jobs until an operator decides.",
        "Count: 20 jobs need review, without an alert of their own",
        f"payment.charge: 20, for example payment.charge:order_cancelled-10: {cause}",
        f"Next: {command} --limit 40 --stack Oncely-test",
    ]


def test_summary_lists_most_frequent_causes() -> None:
    world = InMemoryStack()
    world.max_alerts_per_hour = 0
    for number in range(MAX_SUMMARY_LINES + 2):
        cause = "abcdefghijklmnopqrstuvwxyz"[number]
        for job in range(2 if number == 21 else 1):
            key = JobKey(f"payment.charge:order_{number}-{job}")
            due_at = world.clock.now()
            world.store.create(
                make_job(job_key=key, status=Status.NEEDS_REVIEW, due_at=due_at, last_error=cause)
            )

    sweep(world)

    (summary,) = world.alerts.sent
    lines = summary.text.splitlines()
    assert lines[2] == "payment.charge: 2, for example payment.charge:order_21-0: v"
    assert lines[-2] == "and 2 other causes"
    assert len(lines) == MAX_SUMMARY_LINES + 4


def test_eleventh_summary_of_an_hour_waits_and_loses_no_job() -> None:
    world = InMemoryStack()
    world.max_alerts_per_hour = 0
    for number in range(MAX_SUMMARIES + 2):
        assert isinstance(world.run_to_review(f"{number}"), NeedsReview)
        world.clock.time += SWEEP_HOLD
        sweep(world)

    assert len(world.alerts.sent) == MAX_SUMMARIES
    assert world.alerts.sent[-1].text.endswith(
        "the next summary is sent after 2026-11-16 04:02 UTC"
    )
    world.clock.time += ALERT_WINDOW
    sweep(world)
    assert len(world.alerts.sent) == MAX_SUMMARIES + 1
    assert {row.due_at for row in world.store.jobs.values()} == {None}


def test_review_that_waits_for_a_summary_keeps_its_version() -> None:
    """Operators repair the version that they saw, and a bulk run takes minutes."""
    world = InMemoryStack()
    world.max_alerts_per_hour = 0
    for number in range(MAX_SUMMARIES + 1):
        world.run_to_review(f"{number}")
        world.clock.time += SWEEP_HOLD
        sweep(world)
    (waiting,) = (row for row in world.store.jobs.values() if row.due_at is not None)
    assert waiting.due_at == NOW + SWEEP_HOLD + ALERT_WINDOW

    while world.clock.time + SWEEP_HOLD < waiting.due_at:
        world.clock.time += SWEEP_HOLD
        assert sweep(world) == []

    assert world.store.jobs[waiting.job_key] == waiting
    world.clock.time = waiting.due_at
    assert [one.alert_delivery for one in sweep(world)] == [AlertDelivery.DELIVERED]
    assert world.alerts.sent[-1].names == (waiting.job_key,)


def test_review_of_this_sweep_is_in_summary_of_the_next() -> None:
    world = InMemoryStack()
    world.max_alerts_per_hour = 0
    world.run(charge_message("never"))
    world.clock.time += timedelta(hours=1)
    (escalated,) = sweep(world)
    assert (escalated.alert_delivery, world.alerts.sent) == (AlertDelivery.OVER_BUDGET, [])

    world.clock.time += SWEEP_HOLD
    (summed_up,) = sweep(world)

    assert summed_up.alert_delivery is AlertDelivery.DELIVERED
    assert len(world.alerts.sent) == 1


def test_repeated_conflict_of_one_job_alerts_once(world: InMemoryStack) -> None:
    for _ in range(5):
        outcome = world.run(charge_message(amount=1))
        assert is_conflict(outcome)
        assert outcome.alerted
    world.clock.time += ALERT_WINDOW
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


def run_conflict(world: InMemoryStack) -> Rejected:
    outcome = world.run(charge_message(amount=1))
    assert is_conflict(outcome)
    return outcome


@pytest.mark.parametrize("broken", ["count", "reserve", "keep"])
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


def test_undelivered_summary_is_sent_by_later_sweep() -> None:
    world = InMemoryStack()
    send_unpayable(world, 12)
    world.clock.time += SWEEP_HOLD
    world.alerts.fails = True
    assert {one.alert_delivery for one in sweep(world)} == {AlertDelivery.FAILED}
    world.alerts.fails = False
    assert sweep(world) == []
    assert len(world.alerts.sent) == MAX_ALERTS
    world.clock.time += SWEEP_HOLD

    sweep(world)

    assert world.alerts.sent[-1].subject == "Oncely: 2 jobs need review"


def test_crash_after_summary_repeats_it_and_never_loses_it() -> None:
    world = InMemoryStack()
    send_unpayable(world, 12)
    world.clock.time += SWEEP_HOLD
    store = CrashingPort(world.store, CrashPlan("swap", crash_after=False))
    alerter = world.alerter()
    reviews = [alerter.reserve(key) for key, row in world.store.jobs.items() if row.due_at]
    held = [review for review in reviews if review is not None]
    with pytest.raises(SimulatedCrashError):
        world.alerter(store=store).summarize(held)
    assert sweep(world) == []
    world.clock.time += SWEEP_HOLD

    assert {one.alert_delivery for one in sweep(world)} == {AlertDelivery.DELIVERED}
    assert len(world.alerts.sent) == MAX_ALERTS + 2


def test_delayed_summary_leaves_jobs_to_another_sweep() -> None:
    world = InMemoryStack()
    send_unpayable(world, 12)
    held = [row for row in world.store.jobs.values() if row.due_at is not None]
    world.clock.time += SWEEP_HOLD

    assert world.alerter().summarize(held) is AlertDelivery.NOT_DUE
    assert len(world.alerts.sent) == MAX_ALERTS


def test_failing_record_of_summary_leaves_jobs_due() -> None:
    world = InMemoryStack()
    world.max_alerts_per_hour = 0
    send_unpayable(world, 2)
    world.clock.time += SWEEP_HOLD
    app = world.app()
    items = app.due_work_finder.find(SweepRequest()).items

    class FailingStore:
        def __getattr__(self, name: str) -> object:
            return getattr(world.store, name)

        def swap(self, before: object, after: object) -> object:
            if world.alerts.sent:
                raise UnavailableError("the table does not respond")
            return world.store.swap(before, after)

    resolver = world.app(store=FailingStore()).group_resolver
    handled = resolver.resolve(items, deadline=world.clock.now() + SWEEP_HOLD)

    assert {type(one.error) for one in handled} == {UnavailableError}
    assert all(row.due_at is not None for row in world.store.jobs.values())


def test_dry_run_lists_due_alerts_and_sends_none() -> None:
    world = InMemoryStack()
    send_unpayable(world, 12)
    world.clock.time += SWEEP_HOLD
    items = world.app().due_work_finder.find(SweepRequest(dry_run=True)).items
    deadline = world.clock.now() + SWEEP_HOLD

    handled = world.app().group_resolver.resolve(items, deadline=deadline, dry_run=True)

    assert [one.alert_delivery for one in handled] == [None, None]
    assert len(world.alerts.sent) == MAX_ALERTS


def test_alert_without_kind_is_outside_the_budget(world: InMemoryStack) -> None:
    notifier = world.app().notifier
    for _ in range(2 * MAX_ALERTS):
        assert notifier.notify(Alert(subject="a report", text=""))
    assert len(world.alerts.sent) == 2 * MAX_ALERTS


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
