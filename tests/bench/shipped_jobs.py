"""One job of each shipped type, and two of the smallest, with ids as long as real ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from oncely.contract import AnyContract
from oncely.contracts import CONTRACTS
from oncely.contracts.payment_charge import charge_shard
from oncely.domain.answers import Done, Prepared
from oncely.domain.keys import JobKey
from oncely.domain.profiles import Profile, Safety, Terms
from oncely.providers import CrmRecord, Mail, Payment
from tests.integration.ping import Ping
from tests.support.crm import FakeCrm
from tests.support.fakes import FakeClock
from tests.support.mail import FakeMailer
from tests.support.payments import FakePayments, Fault, Intent
from tests.support.world import World

ORDER: Final = "ord_01HF2Z6Q8W"
CONTACT: Final = "104190077123"
_BEGIN: Final = datetime(2026, 11, 16, 3, 0, 0, 123_457, tzinfo=UTC)


class NaturalPing(Ping):
    """The smallest job that may simply run again."""

    terms = Terms(
        safety=Safety.NATURAL,
        profile=Profile(name="Ping", request_timeout=timedelta(seconds=1), calls=1),
    )


class KeyedPing(Ping):
    """The smallest job whose provider deduplicates on our key."""

    terms = Terms(
        safety=Safety.KEYED,
        profile=Profile(
            name="Ping",
            request_timeout=timedelta(seconds=1),
            calls=1,
            key_window=timedelta(hours=24),
        ),
    )


class LongPayments(FakePayments):
    """Intents with ids as long as Stripe's."""

    def _create(self, payment: Payment) -> Prepared:
        ref = f"pi_{len(self.intents) + 1:024d}"
        self.intents[ref] = Intent(ref, payment)
        return Prepared(ref)

    def scope(self) -> str:
        return "acct_1OqLk2Hx9TzVb3Ns:live"


class LongMails(FakeMailer):
    """Message ids as long as those of SES."""

    def _sent(self, mail: Mail) -> Done:
        self.sent.append(mail)
        ref = f"{len(self.sent):016d}-8b7d1f3c-8d1e-4c0a-9a53-3c1d2e4f5a6b-000000"
        return Done(f"sent to {mail.to} as {ref}", ref, {"message_id": ref})


@dataclass
class TickingClock(FakeClock):
    """Time goes on between two calls, as it does in a worker."""

    time: datetime = _BEGIN

    def now(self) -> datetime:
        self.move(milliseconds=7)
        return self.time


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One job: its message, what must be there before it, and what makes its outcome unclear."""

    name: str
    contract: type[AnyContract]
    message: Mapping[str, object]
    arrange: Callable[[World], None] = lambda _: None
    lose_the_answer: Callable[[World], None] | None = None
    # A message under the same key with other values; None if the contract takes any.
    contradicting: Mapping[str, object] = field(default_factory=dict)

    @property
    def key(self) -> JobKey:
        """The job's key."""
        return self.contract.key(self.contract.message.model_validate(dict(self.message)))

    def contracts(self) -> tuple[type[AnyContract], ...]:
        """This contract, and all that ship."""
        return tuple(dict.fromkeys((self.contract, *CONTRACTS)))


def new_world(**ports: Any) -> World:  # noqa: ANN401  # any port of the world
    """A world whose rows are as long as those of a deployment."""
    tokens: Any = _tokens()
    return World(
        payments=LongPayments(),
        mail=LongMails(),
        crm=FakeCrm(),
        clock=TickingClock(),
        tokens=tokens,
        deployment="d" * 16,
        **ports,
    )


def _tokens() -> Callable[[], str]:
    numbers = iter(range(10**6))
    return lambda: f"{next(numbers):032x}"


def order(world: World, order_id: str = ORDER, **changes: object) -> None:
    """An order that asks for payment."""
    ids = {
        "customer_id": "cus_internal_48151623",
        "payment_customer": "cus_P9xYkQm2Tz7RbL",
        "payment_method": "pm_1OqLk2Hx9TzVb3NsWq8RtYuI",
        "charge_shard": charge_shard(order_id),
    }
    world.add_order(order_id, **{**ids, **changes})


def _paid(world: World) -> None:
    order(world, status="paid", charge_id=f"ch_{'0' * 24}")


def _contact(world: World) -> None:
    held = world.crm.add(email="seven@example.com", firstname="Seven", lastname="of Nine")
    record: CrmRecord = world.crm.contacts.pop(held)
    body = {**record.body, "id": CONTACT}
    world.crm.contacts[CONTACT] = replace(record, record_id=CONTACT, body=body)


def _contacts(world: World) -> None:
    world.crm.add_contacts(100)


def _record(world: World) -> None:
    world.tools.rows.put(
        "records",
        {"record_id": f"hubspot#{CONTACT}"},
        {"version": 7, "properties": {"email": "seven@example.com", "firstname": "Seven"}},
    )


def _ping(job_type: type[AnyContract], name: str) -> Sample:
    message = {"job": job_type.job_type, "v": 1, "number": 104190077123}
    return Sample(name=name, contract=job_type, message=message)


def _by_type() -> dict[str, type[AnyContract]]:
    return {contract.job_type: contract for contract in CONTRACTS}


def samples() -> tuple[Sample, ...]:
    """All of them; a job type of a team's own is not among them."""
    found = _by_type()
    shipped = (
        Sample(
            name="payment.charge",
            contract=found["payment.charge"],
            message={"job": "payment.charge", "v": 1, "order_id": ORDER},
            contradicting={"job": "payment.charge", "v": 1, "order_id": ORDER, "amount": 1},
            arrange=order,
            lose_the_answer=lambda world: world.payments.fails("execute", Fault.TIMEOUT_AFTER),
        ),
        Sample(
            name="receipt.send",
            contract=found["receipt.send"],
            message={"job": "receipt.send", "v": 1, "order_id": ORDER},
            arrange=_paid,
        ),
        Sample(
            name="sync.contact",
            contract=found["sync.contact"],
            message={
                "job": "sync.contact",
                "v": 1,
                "source": "hubspot",
                "source_id": CONTACT,
                "event_id": "01HF2Z6Q8W5J9K3M",
            },
            arrange=_contact,
        ),
        Sample(
            name="sync.import",
            contract=found["sync.import"],
            message={
                "job": "sync.import",
                "v": 1,
                "source": "hubspot",
                "batch_id": "2026-11-16-nightly",
            },
            arrange=_contacts,
        ),
        Sample(
            name="sync.push",
            contract=found["sync.push"],
            message={
                "job": "sync.push",
                "v": 1,
                "target": "hubspot",
                "record_id": f"hubspot#{CONTACT}",
                "version": 7,
            },
            arrange=_record,
            lose_the_answer=lambda world: world.crm.fails("push", Fault.TIMEOUT_AFTER),
        ),
    )
    return (_ping(NaturalPing, "natural"), _ping(KeyedPing, "smallest keyed"), *shipped)
