"""A producer that tries to do harm, against the shipped worker, store and Stripe client.

It has what the producer policy of the payments queue grants, or `sqs:SendMessage` alone: an attempt
without rows needs nothing else. Nothing may happen but an alert or a review, and the shop's own
message runs the job. To add an attempt, add an entry to a table below.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Final

import pytest

from oncely.app import App
from oncely.core.decide import MESSAGE_GRACE
from oncely.core.due import DueAction
from oncely.core.inserter import WINDOW_KEY_PREFIX
from oncely.core.job_row import new_job
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.row_items import Attributes, serialize_job
from oncely.core.text import format_time
from oncely.ports import SystemClock
from oncely.reconcile.due_index import DueIndex
from oncely.reconcile.find_due_work import SweepItem
from oncely_cdk.job_items import new_row_attributes, window_attributes
from tests.support.in_memory_stack import InMemoryStack, charge_message, refund_message
from tests.support.worker import WorkerHarness, invoke_handler

KEY: Final = JobKey("payment.charge:order_18452")
RESUBMITTED: Final = JobKey(f"{KEY}:2")
CHARGE: Final = charge_message()
NOW: Final = SystemClock().now()
FOREVER: Final = "2099-01-01T00:00:00.000Z"
FORGED: Final = (f"forged row of {KEY}",)
REVIEW: Final = (f"{KEY} needs review",)
CONFLICT: Final = (f"conflicting message for {KEY}",)
OTHER_CONFLICT: Final = (f"conflicting message for {RESUBMITTED}",)
REFUND_KEY: Final = JobKey("payment.refund:order_18452:rma_1")
REFUND: Final = refund_message(amount=1250)
CONTACT: Final = {"job": "sync.contact", "v": 1, "source": "hubspot"}
PUSH: Final = {"job": "sync.push", "v": 1, "target": "hubspot"}


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What the producer inserts and sends, and what may come of it."""

    rows: tuple[Mapping[str, Attributes], ...] = ()
    messages: tuple[Mapping[str, object], ...] = ()
    alerts: tuple[str, ...] = ()  # their subjects
    unique: bool = False  # the shop enqueues with a window


def row(key: JobKey = KEY, /, **attributes: Attributes | None) -> dict[str, Attributes]:
    """A row as `enqueue` inserts it, with these attributes. None leaves one out."""
    made = new_job(
        key,
        "payment.charge",
        CHARGE,  # type: ignore[arg-type]  # plain JSON
        now=NOW,
        due_at=NOW + MESSAGE_GRACE,
        actor="producer",
        reason="enqueued",
        owner="theirs",
        subject="order_18452",
    )
    stored = {**serialize_job(made), **attributes}
    return {name: value for name, value in stored.items() if value is not None}


def never_due(key: JobKey = KEY, /, **attributes: Attributes | None) -> dict[str, Attributes]:
    return row(key, due=None, due_at=None, **attributes)


def text(value: object) -> Attributes:
    return {"S": str(value)}


def window(holder: str, until: str = FOREVER) -> dict[str, Attributes]:
    key = f"{WINDOW_KEY_PREFIX}payment.charge:{KEY}"
    return {"job_key": text(key), "holder": text(holder), "until": text(until)}


NOT_READY: Final = [status for status in Status if status is not Status.READY]
BLOCK_A_JOB: Final[dict[str, Attempt]] = {
    **{
        f"{status}, never due": Attempt(rows=(never_due(status=text(status)),), alerts=FORGED)
        for status in NOT_READY
    },
    **{
        f"{status}, due": Attempt(
            rows=(row(status=text(status), due_at=text(format_time(NOW))),), alerts=REVIEW
        )
        for status in NOT_READY
    },
    **{
        f"{status} from the future": Attempt(
            rows=(never_due(status=text(status), created_at=text(FOREVER), version={"N": "999"}),),
            alerts=FORGED,
        )
        for status in (Status.UNKNOWN, Status.FINISHED)
    },
    **{
        f"ready, {name} is garbage": Attempt(rows=(row(**{name: garbage}),), alerts=FORGED)
        for name, garbage in {
            "created_at": text("yesterday"),
            "evidence": text("[[]]"),
            "run_at": text("2026-01-01T00:00:00+14:00"),  # sorts as text behind now
            "version": text("many"),
        }.items()
    },
    "status is garbage": Attempt(rows=(row(status=text("paid")),), alerts=FORGED),
    "no status": Attempt(rows=(row(status=None),), alerts=FORGED),
    "only a key": Attempt(rows=({"job_key": text(KEY)},), alerts=FORGED),
    "ready, never due": Attempt(rows=(never_due(),)),
    "ready, due in 2099": Attempt(rows=(row(due_at=text(FOREVER)),)),
    "ready, with the message of another job": Attempt(
        rows=(never_due(message=text(json.dumps(charge_message("666")))),)
    ),
    "ready, with a wrong amount": Attempt(
        rows=(never_due(message=text(json.dumps({**CHARGE, "amount": 1}))),)
    ),
    "ready, of no type": Attempt(rows=(never_due(job_type={"N": "1"}),)),
    "ready, of another type": Attempt(rows=(never_due(job_type=text("receipt.send")),)),
    "review, then a wrong message": Attempt(
        rows=(never_due(status=text(Status.NEEDS_REVIEW)),),
        messages=({**CHARGE, "amount": 1},),
        alerts=CONFLICT + FORGED,
    ),
    "failed, then a resubmission": Attempt(
        rows=(never_due(status=text(Status.FAILED)),),
        messages=({**CHARGE, "attempt": 2},),
        alerts=OTHER_CONFLICT + FORGED,
    ),
    "a wrong message under the right key": Attempt(
        messages=({**CHARGE, "amount": 1},), alerts=CONFLICT
    ),
    "a resubmission without a failure": Attempt(
        messages=({**CHARGE, "attempt": 2},), alerts=OTHER_CONFLICT
    ),
    "ready, with a time in 2099": Attempt(
        rows=(row(run_at=text(FOREVER), due_at=text(FOREVER)),),
        alerts=(f"the run time of {KEY} is not honored",),
    ),
    "a message with a time in 2099": Attempt(messages=({**CHARGE, "run_at": FOREVER},)),
    "a window of a job that does not exist": Attempt(rows=(window("no.job:1"),), unique=True),
    "a window of a forged job": Attempt(
        rows=(
            window(RESUBMITTED),
            never_due(RESUBMITTED, status=text(Status.NEEDS_REVIEW)),
        ),
        unique=True,
    ),
    "a window of a job that is never sent": Attempt(
        rows=(window(RESUBMITTED), never_due(RESUBMITTED)), unique=True
    ),
    "a window of a job that is sent in 2099": Attempt(
        rows=(window(RESUBMITTED), row(RESUBMITTED, due_at=text(FOREVER))), unique=True
    ),
    "a window of an unreadable job": Attempt(
        rows=(window(RESUBMITTED), {"job_key": text(RESUBMITTED)}), unique=True
    ),
}


def refund_row(status: Status) -> dict[str, Attributes]:
    message = text(json.dumps(REFUND))
    return never_due(
        REFUND_KEY, status=text(status), job_type=text("payment.refund"), message=message
    )


MOVE_MONEY: Final[dict[str, Attempt]] = {
    "refunds of any amount": Attempt(
        messages=tuple(refund_message(f"rma_{amount}", amount=amount) for amount in (1, 800, 1250))
    ),
    "a refund without an amount": Attempt(messages=(refund_message(),)),
    **{
        f"a refund whose row is {status}": Attempt(
            rows=(refund_row(status),),
            messages=(REFUND,),
            alerts=() if status is Status.READY else (f"forged row of {REFUND_KEY}",),
        )
        for status in Status
    },
    "another charge of the order": Attempt(messages=({**CHARGE, "attempt": 2},)),
}


@dataclass(frozen=True)
class HostileProducer:
    """It can insert the attributes that its policy names, and send messages."""

    rig: WorkerHarness

    def perform(self, attempt: Attempt) -> None:
        for item in attempt.rows:
            self.insert(item)
        for message in attempt.messages:
            run(self.rig, json.dumps(message))

    def insert(self, item: Mapping[str, Attributes]) -> None:
        is_window = item["job_key"]["S"].startswith(WINDOW_KEY_PREFIX)
        # MiniStack is not given the attributes of a request, so the policy is evaluated here.
        assert set(item) <= set(window_attributes() if is_window else new_row_attributes())
        names = ", ".join(f"'{name}': ?" for name in item)
        self.rig.dynamo.admin.execute_statement(
            Statement=f'INSERT INTO "{self.rig.dynamo.jobs_table}" VALUE {{{names}}}',
            Parameters=[*item.values()],
        )


def run(rig: WorkerHarness, body: str) -> None:
    event = rig.deliver(body)
    rig.delete_acked(event, invoke_handler(event))


def sweep(rig: WorkerHarness, app: App) -> None:
    index = DueIndex(rig.dynamo.client, rig.dynamo.jobs_table)
    now = app.ports.clock.now()
    due = (index.due(action, n, since=None, until=now) for action in DueAction for n in range(8))
    items = [SweepItem(key=entry.job_key) for entry in chain.from_iterable(due)]
    app.group_resolver.resolve(items, deadline=now + timedelta(minutes=1))


@pytest.mark.parametrize("name", BLOCK_A_JOB)
def test_blocked_job_runs_once_with_alert_at_most(rig: WorkerHarness, name: str) -> None:
    attempt, world = BLOCK_A_JOB[name], rig.world()
    world.add_order()
    app = world.app(job_inserter=rig.dynamo.inserter())
    world.clock.advance(seconds=1)

    HostileProducer(rig).perform(attempt)
    sweep(rig, app)
    app.enqueuer.enqueue(CHARGE, unique_for=timedelta(hours=1) if attempt.unique else None)
    for body in world.outbox.sent:
        run(rig, body)

    assert [one.amount for one in rig.sandbox.stripe.ledger.charges] == [1250]
    job = world.job(KEY)
    assert (world.order()["status"], job.status) == ("paid", Status.FINISHED)
    assert job.job_type == "payment.charge", "otherwise its receipt would never be sent"
    subjects = [alert.subject for alert in world.alerts.sent]
    subjects += [alert["Subject"] for alert in rig.alerts()]
    expected = [f"Oncely: {one}" for one in attempt.alerts]
    assert sorted(subjects) == sorted(expected)


@pytest.mark.parametrize("name", MOVE_MONEY)
def test_no_money_moves_without_row_of_shop(rig: WorkerHarness, name: str) -> None:
    """The order is paid, and the shop has requested no refund."""
    attempt, world = MOVE_MONEY[name], rig.world()
    rig.put_secret()
    world.add_order()
    run(rig, json.dumps(CHARGE))
    world.clock.advance(minutes=5)

    HostileProducer(rig).perform(attempt)
    sweep(rig, world.app())
    for body in world.outbox.sent:
        run(rig, body)

    assert [one.amount for one in rig.sandbox.stripe.ledger.charges] == [1250]
    assert not rig.sandbox.stripe.ledger.refunds
    assert sorted(alert["Subject"] for alert in rig.alerts()) == [
        f"Oncely: {one}" for one in attempt.alerts
    ]


def test_message_does_not_overwrite_contact(rig: WorkerHarness) -> None:
    """A forged record dated now, then pushes of every version that may follow."""
    world = InMemoryStack(store=rig.dynamo.store(), rows=rig.dynamo.rows())
    crm_id = world.crm.add(email="ada@example.com")
    genuine = world.crm.contacts[crm_id]
    forged = {
        "id": crm_id,
        "updatedAt": format_time(world.clock.now()),
        "properties": {"email": "mallory@example.com"},
    }
    event = {**CONTACT, "source_id": crm_id, "event_id": "forged", "record": forged}
    pushes = [{**PUSH, "record_id": f"hubspot#{crm_id}", "version": n} for n in (1, 2)]

    for message in (event, *pushes, event):
        world.run(message)

    assert world.crm.contacts == {crm_id: genuine}
    stored = world.rows.get("records", {"record_id": f"hubspot#{crm_id}"})
    assert stored is not None
    assert stored["record"] == genuine.body
