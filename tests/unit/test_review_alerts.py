"""One alert per job and reason. A crash may repeat it, a race may not."""

from functools import partial

import pytest

from oncely.alerts.budget import AlertDelivery
from oncely.core.decide import SWEEP_HOLD
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.outcomes import NeedsReview
from tests.support.crash_points import (
    CrashingPort,
    CrashPlan,
    InterruptingPort,
    SimulatedCrashError,
)
from tests.support.in_memory_stack import InMemoryStack, charge_message

KEY = JobKey("payment.charge:order_18452")


def world_with_pending_alert() -> InMemoryStack:
    world = InMemoryStack()
    world.alerts.fails = True
    assert isinstance(world.run_to_review(), NeedsReview)
    world.alerts.fails = False
    world.clock.advance(minutes=5)
    return world


def test_sweep_does_not_alert_while_worker_does() -> None:
    world = InMemoryStack()
    alerts = world.alerts
    world.alerts = InterruptingPort(alerts, "notify", lambda: world.reconcile(KEY))  # type: ignore[assignment]  # the same port

    world.run_to_review()

    assert len(alerts.sent) == 1
    assert world.job(KEY).due_at is None


def test_one_of_two_concurrent_sweeps_alerts() -> None:
    world = world_with_pending_alert()
    others: list[AlertDelivery] = []
    alert = world.alerter().alert_if_due
    store = InterruptingPort(world.store, "get", lambda: others.append(alert(KEY)))

    mine = world.alerter(store=store).alert_if_due(KEY)

    assert (mine, others) == (AlertDelivery.NOT_DUE, [AlertDelivery.DELIVERED])
    assert len(world.alerts.sent) == 1


def test_repeated_alert_step_alerts_nobody() -> None:
    world = world_with_pending_alert()
    world.alerter().alert_if_due(KEY)
    assert world.alerter().alert_if_due(KEY) is AlertDelivery.NOT_DUE
    assert len(world.alerts.sent) == 1


@pytest.mark.parametrize(
    ("held_up", "delivery"), [(75, AlertDelivery.DELIVERED), (76, AlertDelivery.NOT_DUE)]
)
def test_delayed_alert_is_sent_only_once(held_up: int, delivery: AlertDelivery) -> None:
    world = world_with_pending_alert()
    delay = partial(world.clock.advance, seconds=held_up)
    swapping = InterruptingPort(world.store, "swap", delay)

    late = world.alerter(store=swapping).alert_if_due(KEY)
    world.clock.time += SWEEP_HOLD
    world.alerter().alert_if_due(KEY)

    assert late is delivery
    assert len(world.alerts.sent) == 1


def test_alert_is_sent_later_after_crash() -> None:
    world = world_with_pending_alert()
    dying = CrashingPort(world.store, CrashPlan(crash_at="swap", crash_after=True))
    with pytest.raises(SimulatedCrashError):
        world.alerter(store=dying).alert_if_due(KEY)
    soon = world.alerter().alert_if_due(KEY)
    world.clock.time += SWEEP_HOLD

    later = world.alerter().alert_if_due(KEY)

    assert (soon, later) == (AlertDelivery.NOT_DUE, AlertDelivery.DELIVERED)
    assert len(world.alerts.sent) == 1


def test_undelivered_alert_keeps_job_due() -> None:
    world = world_with_pending_alert()
    world.alerts.fails = True
    assert world.alerter().alert_if_due(KEY) is AlertDelivery.FAILED
    assert world.job(KEY).due_at == world.clock.now() + SWEEP_HOLD


def test_evidence_added_during_alert_does_not_repeat_it() -> None:
    world = world_with_pending_alert()
    alerts = world.alerts

    def somebody_leaves_a_note() -> None:
        row = world.job(KEY)
        after = row.apply(Event.NOTE, now=world.clock.now(), actor="support", reason="called")
        world.store.swap(row, after)

    world.alerts = InterruptingPort(alerts, "notify", somebody_leaves_a_note)  # type: ignore[assignment]  # the same port

    world.alerter().alert_if_due(KEY)

    job = world.job(KEY)
    assert job.due_at is None
    assert [entry.event for entry in job.evidence][-2:] == [Event.NOTE, Event.ALERT]


def test_job_not_in_review_or_missing_alerts_nobody(world: InMemoryStack) -> None:
    world.run(charge_message())
    world.clock.advance(hours=1)

    assert world.job(KEY).status is Status.FINISHED
    assert world.alerter().alert_if_due(KEY) is AlertDelivery.NOT_DUE
    assert world.alerter().alert_if_due(JobKey("payment.charge:order_0")) is AlertDelivery.NOT_DUE
    assert world.alerts.sent == []


def test_reconciler_reports_needed_alert_without_sending() -> None:
    world = world_with_pending_alert()

    owed = world.reconciler().resolve(KEY)
    dry = world.reconciler().resolve(KEY, dry_run=True)

    assert (owed.needs_alert, dry.needs_alert) == (True, False)
    assert world.alerts.sent == []


@pytest.mark.parametrize("broken", [True, False])
def test_orphaned_outcome_alert_reports_delivery(world: InMemoryStack, *, broken: bool) -> None:
    world.alerts.fails = broken
    assert world.alerter().alert_orphaned_outcome(KEY, "charged as ch_1") is not broken


@pytest.mark.parametrize(
    ("event", "changes"),
    [(Event.NOTE, {"due_at": None}), (Event.RESOLVE_FAILED, {})],
    ids=["another alerter", "an operator"],
)
def test_row_changed_during_alert_is_left_alone(event: Event, changes: dict[str, object]) -> None:
    world = world_with_pending_alert()
    alerts = world.alerts

    def somebody_moves_it() -> None:
        row, now = world.job(KEY), world.clock.now()
        after = row.apply(event, now=now, actor="ada", reason="x", **changes)
        world.store.swap(row, after)

    world.alerts = InterruptingPort(alerts, "notify", somebody_moves_it)  # type: ignore[assignment]  # the same port

    assert world.alerter().alert_if_due(KEY) is AlertDelivery.DELIVERED
    assert world.job(KEY).evidence[-1].event is event


def test_alert_recording_gives_up_after_five_writes() -> None:
    world = world_with_pending_alert()
    store, swaps = world.store, iter(range(99))

    def somebody_notes() -> None:
        row, now = world.job(KEY), world.clock.now()
        store.jobs[KEY] = row.apply(Event.NOTE, now=now, actor="ada", reason=f"note {next(swaps)}")

    restless = InterruptingPort(store, "swap", somebody_notes)
    delivery = world.alerter(store=restless).alert_if_due(KEY)

    assert (delivery, next(swaps)) == (AlertDelivery.DELIVERED, 1 + 5)
    assert world.job(KEY).evidence[-1].event is Event.NOTE
