"""The demo's messages: jobs, duplicates, races and invalid messages, repeatable by seed."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, Literal, get_origin

from oncely.cli.errors import CommandError
from oncely.contracts.job import AnyJob, providers_of
from oncely.contracts.registry import JobRegistry
from oncely.core.errors import InvalidInputError
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.payment_providers import DEFAULT_PROVIDER
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.jobs.sync_import import SyncImport
from oncely.testing.sandbox import sandbox_type
from oncely_local.project import LocalProject, queue_output

FIRST_ORDER: Final = "1"
PAYMENTS, SYNC = "PaymentsQueueUrl", "SyncQueueUrl"

# What happens to a payment, in the samples of its provider.
PAID, DECLINED, PENDING = "paid", "declined", "pending"
PAYMENT_METHODS: Final = {
    plugin.name: sandbox_type(plugin).samples for plugin in providers_of([PaymentCharge])
}
CRM: Final = providers_of([SyncImport])[0].name

# Shares of all jobs, including receipts and contacts that follow other jobs.
SHARE_OF_PAYMENTS: Final = 0.40
SHARE_OF_IMPORTED: Final = 0.12
SHARE_OF_EVENTS: Final = 0.05
SHARE_OF_PUSHES: Final = 0.06
# Shares of the payments. A cancelled order cannot be charged, so its job needs review.
SHARE_DECLINED: Final = 0.05
SHARE_PENDING: Final = 0.02
SHARE_CANCELLED: Final = 0.01
SHARE_REFUNDED: Final = 0.08
# Shares of the messages.
SHARE_DUPLICATED: Final = 0.30
SHARE_CONFLICTING: Final = 0.02
SHARE_INVALID: Final = 0.02
MAX_DUPLICATES: Final = 4

SeedRow = Mapping[str, str | int]


@dataclass(frozen=True)
class ScheduledMessage:
    """A message, and when it is sent: at a fraction of the sending time."""

    time_fraction: float
    queue: str
    body: str


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The input of the demo."""

    rows: Mapping[str, Sequence[SeedRow]]  # by the short name of their table
    contacts: int = 0  # that the CRM has at the start
    jobs: Mapping[str, ScheduledMessage]  # the first message of each requested job
    duplicates: tuple[ScheduledMessage, ...]  # the same messages again, concurrently or later
    invalid: tuple[ScheduledMessage, ...]  # must be rejected; all bodies differ

    @property
    def messages(self) -> list[ScheduledMessage]:
        every = (*self.jobs.values(), *self.duplicates, *self.invalid)
        return sorted(every, key=lambda one: one.time_fraction)


def generate_workload(*, jobs: int, seed: int) -> Workload:
    """Generate a workload of about this many jobs."""
    draw = random.Random(seed)  # noqa: S311  # repeatable, not secret
    orders = list(_orders(draw, _at_least_one(jobs * SHARE_OF_PAYMENTS)))
    cancelled = list(_cancelled_orders(_at_least_one(len(orders) * SHARE_CANCELLED)))
    contacts = _at_least_one(jobs * SHARE_OF_IMPORTED)
    known = [str(n) for n in range(1, contacts + 1)]
    changed = draw.choices(known, k=_at_least_one(jobs * SHARE_OF_EVENTS))
    records = [_record(n) for n in range(_at_least_one(jobs * SHARE_OF_PUSHES))]
    requests = list(_refund_requests(draw, orders))
    bodies = (
        *(_message("payment.charge", order_id=row["order_id"]) for row in (*cancelled, *orders)),
        *(_message("sync.import", source=CRM, batch_id=batch) for batch in ("nightly", "again")),
        *(
            _message("sync.contact", source=CRM, source_id=contact, event_id=f"event-{n}")
            for n, contact in enumerate(changed)
        ),
        *(
            _message("sync.push", target=CRM, record_id=row["record_id"], version=1)
            for row in records
        ),
    )
    refunds = (
        _message("payment.refund", order_id=row["order_id"], refund_id=row["refund_id"])
        for row in requests
    )
    first = {
        **schedule_messages(SHIPPED_JOBS, bodies, iter(draw.random, None)),
        # At the end, when most of the orders are paid. The others make their refunds wait.
        **schedule_messages(SHIPPED_JOBS, refunds, repeat(1.0)),
    }
    return Workload(
        rows={"orders": (*orders, *cancelled), "refund_requests": requests, "records": records},
        contacts=contacts,
        jobs=first,
        duplicates=tuple(_duplicates(draw, list(first.values()))),
        invalid=(
            *_conflicting_messages(draw, orders),
            *_invalid_messages(draw, len(first), (PAYMENTS, SYNC)),
        ),
    )


def project_workload(project: LocalProject, *, jobs: int, seed: int) -> Workload:
    """The messages of a team's project, with duplicates and invalid ones."""
    draw = random.Random(seed)  # noqa: S311  # repeatable, not secret
    messages = list(project.fixtures.messages(jobs)) or list(numbered_messages(project.jobs, jobs))
    bodies = (json.dumps(dict(message)) for message in messages)
    try:
        first = schedule_messages(project.jobs, bodies, iter(draw.random, None))
    except InvalidInputError as error:
        raise CommandError(
            f"A message of the demo is invalid: {error}. Give `messages` that are valid: "
            "docs/adopt.md says how."
        ) from error
    queues = tuple(project.queue_outputs.values())
    return Workload(
        rows={table: tuple(rows) for table, rows in project.fixtures.rows.items()},
        jobs=first,
        duplicates=tuple(_duplicates(draw, list(first.values()))),
        invalid=tuple(_invalid_messages(draw, len(first), queues)),
    )


def numbered_messages(jobs: Sequence[type[AnyJob]], number: int) -> Iterator[dict[str, Any]]:
    """The examples of the jobs that need no business rows, with numbers as the ids of their key."""
    alone = [one for one in jobs if not one.all_tables()]
    for n in range(number if alone else 0):
        job = alone[n % len(alone)]
        names = (job.key,) if isinstance(job.key, str) else job.key
        examples = ((name, job.example[name]) for name in names)
        ids = {name: n + 1 if isinstance(one, int) else f"{n + 1}" for name, one in examples}
        # A key may also name fields with a few values, such as a currency.
        ids = {name: one for name, one in ids.items() if not _has_choices(job, name)}
        yield {**job.example_message(), **ids}


def _has_choices(job: type[AnyJob], name: str) -> bool:
    return get_origin(job.model_fields[name].annotation) is Literal


def schedule_messages(
    jobs: Iterable[type[AnyJob]], bodies: Iterable[str], time_fractions: Iterator[float]
) -> dict[str, ScheduledMessage]:
    """Address each message to the queue of its job. Returns them by job key."""
    registry = JobRegistry(jobs)
    scheduled: dict[str, ScheduledMessage] = {}
    for body in bodies:
        job = registry.parse_body(body)
        queue = queue_output(type(job))
        scheduled[job.job_key()] = ScheduledMessage(next(time_fractions), queue, body)
    return scheduled


def _orders(draw: random.Random, number: int) -> Iterator[SeedRow]:
    declined = _at_least_one(number * SHARE_DECLINED)
    later = _at_least_one(number * SHARE_PENDING)
    outcomes = [DECLINED] * declined + [PENDING] * later
    outcomes += [PAID] * (number - len(outcomes))
    draw.shuffle(outcomes)
    for n, outcome in enumerate(outcomes):
        amount, currency = draw.randint(100, 50_000), draw.choice(["eur", "usd"])
        yield pending_order(n + 1, n % 97 + 1, amount=amount, currency=currency, outcome=outcome)


def _refund_requests(draw: random.Random, orders: Sequence[SeedRow]) -> Iterator[SeedRow]:
    """Requests to refund paid orders, of each provider."""
    for provider, methods in sorted(PAYMENT_METHODS.items()):
        paid = [
            order
            for order in orders
            if (order["payment_provider"], order["payment_method"]) == (provider, methods[PAID])
        ]
        number = _at_least_one(len(paid) * SHARE_REFUNDED)
        for order in draw.sample(paid, min(len(paid), number)):
            # Elsewhere a part waits until the sale is settled, which takes longer than a demo.
            part = 2 if provider == DEFAULT_PROVIDER else 1
            yield refund_request(order, "rma", amount=int(order["amount"]) // part)


def _cancelled_orders(number: int) -> Iterator[SeedRow]:
    for n in range(number):
        order = pending_order(n, 1, amount=100, currency="eur", outcome=DECLINED)
        yield {**order, "order_id": f"cancelled-{n}", "status": "cancelled"}


def pending_order(
    number: int, customer: int, *, amount: int, currency: str, outcome: str
) -> SeedRow:
    """The row of an order that waits for payment. Payment providers take turns."""
    providers = sorted(PAYMENT_METHODS)
    provider = providers[number % len(providers)]
    return {
        "order_id": f"{number}",
        "customer_id": f"customer_{customer}",
        "amount": amount,
        "currency": currency,
        "payment_customer": f"cus_{customer}",
        "payment_provider": provider,
        "payment_method": PAYMENT_METHODS[provider][outcome],
        "receipt_email": f"order-{number}@example.com",
        "status": "payment_pending",
    }


def refund_request(order: SeedRow, refund_id: str, *, amount: int) -> SeedRow:
    """The row in which the shop permits a refund."""
    return {
        "order_id": order["order_id"],
        "refund_id": refund_id,
        "amount": amount,
        "currency": order["currency"],
        "requested_by": "support",
        "requested_at": "2026-01-05T09:00:00Z",
    }


def _record(n: int) -> SeedRow:
    return {
        "record_id": f"shop#{n + 1}",
        "source": "shop",
        "source_id": f"{n + 1}",
        "source_updated_at": "2026-11-01T00:00:00.000Z",
        "version": 1,
    }


def _duplicates(
    draw: random.Random, first: Sequence[ScheduledMessage]
) -> Iterator[ScheduledMessage]:
    """Duplicate 30 % of the messages: half of them concurrently, half later."""
    for one in first:
        if draw.random() >= SHARE_DUPLICATED:
            continue
        for _ in range(draw.randint(1, MAX_DUPLICATES - 1)):
            at = one.time_fraction if draw.random() < 0.5 else draw.uniform(one.time_fraction, 1.0)  # noqa: PLR2004  # a half
            yield ScheduledMessage(at, one.queue, one.body)


def _conflicting_messages(
    draw: random.Random, orders: Sequence[SeedRow]
) -> Iterator[ScheduledMessage]:
    """Messages with another amount than their order. They must be rejected."""
    for n in range(_at_least_one(len(orders) * SHARE_CONFLICTING)):
        order = draw.choice(orders)
        amount = int(order["amount"]) + 1 + n
        body = _message("payment.charge", order_id=order["order_id"], amount=amount)
        yield ScheduledMessage(draw.random(), PAYMENTS, body)


def _invalid_messages(
    draw: random.Random, messages: int, queues: Sequence[str]
) -> Iterator[ScheduledMessage]:
    """Messages with unknown job types, missing or unknown fields, or without JSON."""
    shapes = (
        '{{"job": "no.such", "v": 1, "n": {n}}}',
        '{{"job": "payment.charge", "v": 1, "note": "{n} has no order"}}',
        '{{"job": "payment.charge", "v": 1, "order_id": "1", "colour": {n}}}',
        "not JSON, {n}",
    )
    for n in range(_at_least_one(messages * SHARE_INVALID)):
        body = shapes[n % len(shapes)].format(n=n)
        yield ScheduledMessage(draw.random(), draw.choice(queues), body)


def _message(job: str, **fields: str | int) -> str:
    return json.dumps({"job": job, "v": 1, **fields})


def _at_least_one(number: float) -> int:
    return max(1, round(number))
