"""Jobs that run later: early messages, and two producers that set different times."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Status
from oncely.domain.text import format_time
from oncely.providers.fake_payments import FakePayments
from oncely.testing import FinalState, Scenario
from oncely.testing.memory import MemoryBusinessRows
from oncely.testing.tasks import START
from tests.faults import expectations
from tests.faults.expectations import KEY, ORDER

FIRST: Final = START + timedelta(minutes=10)
SECOND: Final = START + timedelta(minutes=20)
CHARGE: Final = {"job": "payment.charge", "v": 1, **ORDER}
LATER: Final = {**CHARGE, "run_at": format_time(FIRST)}


def send_early(_: MemoryBusinessRows) -> Iterable[Mapping[str, object]]:
    """Plain messages, such as those of a producer that knows no time."""
    return [CHARGE, CHARGE]


def move(_: MemoryBusinessRows) -> Iterable[Mapping[str, object]]:
    """Another producer sets another time, and sends a plain message as well."""
    return [{**CHARGE, "run_at": format_time(SECOND)}, CHARGE]


def pull_forward(_: MemoryBusinessRows) -> Iterable[Mapping[str, object]]:
    return [{**CHARGE, "run_at": format_time(START)}]


def check_runs_later(ended: FinalState) -> Iterator[str]:
    """It ran at a requested time. A review may have other reasons."""
    yield from expectations.check_order_matches_charges(ended)
    job = ended.job(KEY)
    if job is None or job.status is Status.NEEDS_REVIEW:
        return
    if job.run_at not in {FIRST, SECOND, None}:
        yield f"its time to run became {job.run_at}"


def later_scenarios(charging: Callable[..., Scenario], row: Job) -> tuple[Scenario, ...]:
    """`row` is the row of a job that a producer has enqueued for the first time."""

    def payments(_: object) -> FakePayments:
        return FakePayments(honors_idempotency_keys=False)

    later = {"check": check_runs_later}
    return (
        charging("later", payments, message=LATER, edit=send_early, **later),
        charging("later-moved", payments, message=LATER, edit=move, **later),
        # The row of one producer, and the messages of another.
        charging("later-enqueued", payments, jobs=(row,), edit=move, **later),
        charging("later-now", payments, jobs=(row,), edit=pull_forward, **later),
    )
