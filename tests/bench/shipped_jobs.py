"""One job of each shipped type, and two of the smallest, with ids as long as real ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

from oncely.contracts.job import AnyJob
from oncely.core.keys import JobKey
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.jobs.tables import charge_shard
from tests.integration.ping import Ping
from tests.support.fakes import FakeClock
from tests.support.in_memory_stack import InMemoryStack
from tests.support.mail import MemoryMail
from tests.support.provider_fault import ProviderFault
from tests.support.stripe_account import StripeAccount

ORDER: Final = "ord_01HF2Z6Q8W"
CONTACT: Final = "104190077123"
_BEGIN: Final = datetime(2026, 11, 16, 3, 0, 0, 123_000, tzinfo=UTC)


class NaturalPing(Ping):
    safety = "natural"


class KeyedPing(Ping):
    safety = "keyed"
    key_ttl = timedelta(hours=24)


class MaxLengthPayments(StripeAccount):
    def __init__(self) -> None:
        numbers = iter(range(1, 10**6))
        super().__init__(new_id=lambda prefix: f"{prefix}_{next(numbers):024d}")

    def key_scope(self) -> str:
        return "acct_1OqLk2Hx9TzVb3Ns:live"


def max_length_mail() -> MemoryMail:
    numbers = count(1)
    return MemoryMail(
        new_id=lambda: f"{next(numbers):016d}-8b7d1f3c-8d1e-4c0a-9a53-3c1d2e4f5a6b-000000"
    )


@dataclass
class TickingClock(FakeClock):
    time: datetime = _BEGIN

    def now(self) -> datetime:
        self.advance(milliseconds=7)
        return self.time


@dataclass(frozen=True, kw_only=True)
class JobSample:
    """One job: its message, the rows that it needs, and what makes its outcome ambiguous."""

    name: str
    contract: type[AnyJob]
    message: Mapping[str, object]
    seed: Callable[[InMemoryStack], object] = lambda _: None
    make_ambiguous: Callable[[InMemoryStack], None] | None = None
    # A message under the same key with other values; None if the contract takes any.
    conflicting_message: Mapping[str, object] = field(default_factory=dict)

    @property
    def key(self) -> JobKey:
        return self.contract.model_validate(dict(self.message)).job_key()

    def contracts(self) -> tuple[type[AnyJob], ...]:
        return tuple(dict.fromkeys((self.contract, *SHIPPED_JOBS)))


def new_world(**ports: Any) -> InMemoryStack:  # noqa: ANN401  # any port of the world
    tokens: Any = _tokens()
    return InMemoryStack(
        payments=MaxLengthPayments(),
        mail=max_length_mail(),
        clock=TickingClock(),
        tokens=tokens,
        deployment="d" * 16,
        **ports,
    )


def _tokens() -> Callable[[], str]:
    numbers = iter(range(10**6))
    return lambda: f"{next(numbers):032x}"


def seed_order(world: InMemoryStack, order_id: str = ORDER, **changes: object) -> None:
    ids = {
        "customer_id": "cus_internal_48151623",
        "payment_customer": "cus_P9xYkQm2Tz7RbL",
        "payment_method": "pm_1OqLk2Hx9TzVb3NsWq8RtYuI",
        "charge_shard": charge_shard(order_id),
    }
    world.add_order(order_id, **{**ids, **changes})


def _seed_contact(world: InMemoryStack) -> None:
    world.crm.model.contacts.last_id = int(CONTACT) - 1
    world.crm.add(email="seven@example.com", firstname="Seven", lastname="of Nine")


def _seed_record(world: InMemoryStack) -> None:
    world.rows.put(
        "records",
        {"record_id": f"hubspot#{CONTACT}"},
        {"version": 7, "properties": {"email": "seven@example.com", "firstname": "Seven"}},
    )


def _sample(
    contract: type[AnyJob] | str, fields: Mapping[str, object], name: str = ""
) -> JobSample:
    if isinstance(contract, str):
        name, contract = contract, next(one for one in SHIPPED_JOBS if one.job_type == contract)
    message = {"job": contract.job_type, "v": 1, **fields}
    return JobSample(name=name, contract=contract, message=message)


def samples() -> tuple[JobSample, ...]:
    """Return all shipped jobs, without a team's own job types."""
    ping, order = {"number": 104190077123}, {"order_id": ORDER}
    charge = _sample("payment.charge", order)
    contact = {"source": "hubspot", "source_id": CONTACT, "event_id": "01HF2Z6Q8W5J9K3M"}
    pushed = {"target": "hubspot", "record_id": f"hubspot#{CONTACT}", "version": 7}
    batch = {"source": "hubspot", "batch_id": "2026-11-16-nightly"}
    lost = ProviderFault.TIMEOUT_AFTER
    return (
        _sample(NaturalPing, ping, "natural"),
        _sample(KeyedPing, ping, "smallest keyed"),
        replace(
            charge,
            conflicting_message={**charge.message, "amount": 1},
            seed=seed_order,
            make_ambiguous=lambda world: world.payments.fail_next("execute", lost),
        ),
        replace(
            _sample("receipt.send", order),
            seed=lambda world: seed_order(world, status="paid", charge_id=f"ch_{'0' * 24}"),
        ),
        replace(_sample("sync.contact", contact), seed=_seed_contact),
        replace(_sample("sync.import", batch), seed=lambda world: world.crm.add_contacts(100)),
        replace(
            _sample("sync.push", pushed),
            seed=_seed_record,
            make_ambiguous=lambda world: world.crm.fail_next("upsert_contact", lost),
        ),
    )
