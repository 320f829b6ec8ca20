"""One alert for one job and reason, whoever tells; a crash may repeat it, a race may not."""

import pytest

from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.moves import LOOK_TIME
from oncely.services.outcomes import NeedsReview
from oncely.services.tell import Telling
from tests.support.mortal import DiedError, Fate, Meanwhile, Mortal
from tests.support.world import World, charge

KEY = JobKey("payment.charge:order_18452")


def untold() -> World:
    """A review that is due: its worker could not deliver the alert, and its time is over."""
    world = World()
    world.alerts.broken = True
    assert isinstance(world.run(charge()), NeedsReview)
    world.alerts.broken = False
    world.clock.move(minutes=5)
    return world


def test_sweep_does_not_alert_while_worker_does() -> None:
    world = World()
    alerts = world.alerts
    world.alerts = Meanwhile(alerts, "tell", lambda: world.reconcile(KEY))  # type: ignore[assignment]  # the same port

    world.run(charge())

    assert len(alerts.told) == 1
    assert world.job(KEY).due_at is None


def test_one_of_two_concurrent_sweeps_alerts() -> None:
    world = untold()
    others: list[Telling] = []
    store = Meanwhile(world.store, "get", lambda: others.append(world.teller().tell(KEY)))

    mine = world.teller(store=store).tell(KEY)

    assert (mine, others) == (Telling.NOT_DUE, [Telling.TOLD])
    assert len(world.alerts.told) == 1


def test_repeated_alert_step_alerts_nobody() -> None:
    world = untold()
    world.teller().tell(KEY)

    again = world.teller().tell(KEY)

    assert again is Telling.NOT_DUE
    assert len(world.alerts.told) == 1


@pytest.mark.parametrize(("held_up", "telling"), [(90, Telling.TOLD), (91, Telling.NOT_DUE)])
def test_delayed_alert_is_sent_only_once(held_up: int, telling: Telling) -> None:
    world = untold()
    swapping = Meanwhile(world.store, "swap", lambda: world.clock.move(seconds=held_up))

    late = world.teller(store=swapping).tell(KEY)
    world.clock.time += LOOK_TIME
    world.teller().tell(KEY)

    assert late is telling
    assert len(world.alerts.told) == 1


def test_alert_is_sent_later_after_crash() -> None:
    world = untold()
    dying = Mortal(world.store, Fate(call="swap", after=True))
    with pytest.raises(DiedError):
        world.teller(store=dying).tell(KEY)
    soon = world.teller().tell(KEY)
    world.clock.time += LOOK_TIME

    later = world.teller().tell(KEY)

    assert (soon, later) == (Telling.NOT_DUE, Telling.TOLD)
    assert len(world.alerts.told) == 1


def test_undelivered_alert_keeps_job_due() -> None:
    world = untold()
    world.alerts.broken = True

    assert world.teller().tell(KEY) is Telling.LATER
    assert world.job(KEY).due_at == world.clock.now() + LOOK_TIME


def test_evidence_added_during_alert_does_not_repeat_it() -> None:
    world = untold()
    alerts = world.alerts

    def somebody_leaves_a_note() -> None:
        row = world.job(KEY)
        now = world.clock.now()
        world.store.swap(row, row.apply(Event.NOTE, now=now, actor="support", reason="called"))

    world.alerts = Meanwhile(alerts, "tell", somebody_leaves_a_note)  # type: ignore[assignment]  # the same port

    world.teller().tell(KEY)

    job = world.job(KEY)
    assert job.due_at is None
    assert [entry.event for entry in job.evidence][-2:] == [Event.NOTE, Event.TELL]


def test_job_not_in_review_or_missing_alerts_nobody() -> None:
    world = World()
    world.add_order()
    world.run(charge())
    world.clock.move(hours=1)

    assert world.job(KEY).status is Status.FINISHED
    assert world.teller().tell(KEY) is Telling.NOT_DUE
    assert world.teller().tell(JobKey("payment.charge:order_0")) is Telling.NOT_DUE
    assert world.alerts.told == []


def test_reconciler_reports_needed_alert_without_sending() -> None:
    world = untold()

    owed = world.reconciler().resolve(KEY)
    dry = world.reconciler().resolve(KEY, dry_run=True)

    assert (owed.alert, dry.alert) == (True, False)
    assert world.alerts.told == []


@pytest.mark.parametrize("broken", [True, False])
def test_orphaned_outcome_alert_reports_delivery(*, broken: bool) -> None:
    world = World()
    world.alerts.broken = broken

    assert world.teller().gone(KEY, "charged as ch_1") is not broken


@pytest.mark.parametrize(
    ("event", "changes"),
    [(Event.NOTE, {"due_at": None}), (Event.RULE_FAILED, {})],
    ids=["another took the right", "an operator ruled"],
)
def test_row_changed_during_alert_is_left_alone(event: Event, changes: dict[str, object]) -> None:
    world = untold()
    alerts = world.alerts

    def somebody_moves_it() -> None:
        row, now = world.job(KEY), world.clock.now()
        world.store.swap(row, row.apply(event, now=now, actor="ada", reason="x", **changes))

    world.alerts = Meanwhile(alerts, "tell", somebody_moves_it)  # type: ignore[assignment]  # the same port

    telling = world.teller().tell(KEY)

    assert telling is Telling.TOLD
    assert world.job(KEY).evidence[-1].event is event


def test_alert_recording_gives_up_after_five_writes() -> None:
    world = untold()
    store, swaps = world.store, iter(range(99))

    def somebody_notes() -> None:
        row, now = world.job(KEY), world.clock.now()
        text = f"note {next(swaps)}"
        store.jobs[KEY] = row.apply(Event.NOTE, now=now, actor="ada", reason=text)

    telling = world.teller(store=Meanwhile(store, "swap", somebody_notes)).tell(KEY)

    assert (telling, next(swaps)) == (Telling.TOLD, 1 + 5)
    assert world.job(KEY).evidence[-1].event is Event.NOTE
