"""Jobs that run later: early messages, messages that try to move a time, and operators who may."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event, Status
from oncely.core.repairs import Repair
from oncely.core.text import format_time
from oncely.testing import FinalState
from oncely.testing.rows import BusinessRows
from oncely.testing.scenario import PlannedRepair, Scenario
from oncely.testing.schedule import START
from tests.faults import expectations
from tests.faults.expectations import CONTACT, KEY, ORDER, PUSH_KEY
from tests.faults.providers import stripe
from tests.support.scheduled_charge import ScheduledCharge

FIRST: Final = START + timedelta(minutes=10)
SECOND: Final = START + timedelta(minutes=20)
IN_2028: Final = datetime(2028, 6, 1, tzinfo=UTC)
CHARGE: Final = {"job": "payment.charge", "v": 1, **ORDER}
HOLDING: Final = {**CHARGE, "run_at": format_time(IN_2028)}
PUSH: Final = {"job": "sync.push", "v": 1, "target": "hubspot", **CONTACT, "version": 7}


def send_early(_: BusinessRows) -> Iterable[Mapping[str, object]]:
    """Plain messages, such as those of a producer that knows no time."""
    return [CHARGE, CHARGE]


def send_hostile(_: BusinessRows) -> Iterable[Mapping[str, object]]:
    """Somebody who may only send tries to run the charge at once, and to hold it until 2028."""
    return [*({**CHARGE, "run_at": format_time(at)} for at in (IN_2028, START, SECOND)), CHARGE]


def send_other_time(_: BusinessRows) -> Iterable[Mapping[str, object]]:
    return [{**PUSH, "run_at": format_time(SECOND)}, PUSH]


def run_time_check(*allowed: datetime, at_once: bool) -> Callable[[FinalState], Iterator[str]]:
    """It waited for one of these times, or an operator ran it. It may need review."""

    def check(ended: FinalState) -> Iterator[str]:
        yield from expectations.check_order_matches_charges(ended)
        job = ended.job(KEY)
        if job is None or job.status is Status.NEEDS_REVIEW:
            return
        # A slow operator may run it just after its time.
        by_operator = any(one.event == Event.RESCHEDULE for one in job.evidence)
        if job.run_at not in allowed and not (at_once and by_operator):
            yield f"its time to run became {job.run_at}"

    return check


def check_not_held(ended: FinalState) -> Iterator[str]:
    """No time held the charge back: a worker claimed it within the hour."""
    yield from expectations.check_order_matches_charges(ended)
    job = ended.job(KEY)
    if job is None or job.status is Status.NEEDS_REVIEW:
        return
    if job.claimed_at is None or job.created_at + timedelta(hours=1) < job.claimed_at:
        yield f"it was held back, and claimed at {job.claimed_at}"


def check_push_time(ended: FinalState) -> Iterator[str]:
    yield from expectations.check_pushed_version(ended)
    job = ended.job(PUSH_KEY)
    if job is not None and job.run_at not in {FIRST, SECOND, None}:
        yield f"its time to run became {job.run_at}"


def later_scenarios(
    charging: Callable[..., Scenario], pushing: Callable[..., Scenario], row: JobRow
) -> tuple[Scenario, ...]:
    """`row` is the row of a charge that whoever may insert rows scheduled for `FIRST`."""
    payments = stripe(honors_idempotency_keys=False)

    def repairs(repair: Repair, run_at: datetime | None = None) -> dict[str, Any]:
        planned = PlannedRepair(after=timedelta(minutes=2), repair=repair, run_at=run_at)
        return {"repairs": (planned,), "edit": send_early}

    def scheduled(name: str, *allowed: datetime, at_once: bool = False, **more: Any) -> Scenario:  # noqa: ANN401  # fields of a scenario
        check = run_time_check(*allowed, at_once=at_once)
        return charging(name, payments, ScheduledCharge, jobs=(row,), check=check, **more)

    forged = replace(row, run_at=IN_2028, due_at=SECOND)
    return (
        scheduled("later", FIRST, edit=send_early),
        scheduled("later-hostile", FIRST, edit=send_hostile),
        scheduled("later-run-now", FIRST, at_once=True, **repairs(Repair.RUN_NOW)),
        scheduled("later-moved", FIRST, SECOND, **repairs(Repair.RESCHEDULE, SECOND)),
        charging(
            "held-by-message",
            payments,
            message=HOLDING,
            wrong_messages=(HOLDING,),
            edit=send_early,
            fixed_prefix="w1:end>edit",  # the genuine messages arrive
            check=check_not_held,
        ),
        charging("held-by-row", payments, jobs=(forged,), check=check_not_held),
        pushing(
            "/later",
            message={**PUSH, "run_at": format_time(FIRST)},
            edit=send_other_time,
            check=check_push_time,
        ),
    )
