"""Every job that ships and every safety class, each with the providers that it may meet."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from oncely.contracts.payment_charge import PaymentCharge
from oncely.contracts.receipt_send import ReceiptSend
from oncely.contracts.sync_contact import SyncContact
from oncely.contracts.sync_import import SyncImport
from oncely.contracts.sync_push import SyncPush
from oncely.domain.answers import NotSent, Prepared
from oncely.domain.jobs import enqueued
from oncely.domain.keys import JobKey, provider_key
from oncely.domain.lifecycle import Status
from oncely.domain.money import Money
from oncely.domain.profiles import STRIPE, Safety, StopRules, Terms
from oncely.domain.writes import Json
from oncely.ports import Clock
from oncely.providers import Payment
from oncely.testing import Ended, Provider, Scenario, acting, asking, own_job
from oncely.testing.actors import START
from oncely.testing.memory import MemoryRows
from tests.faults.providers import (
    DroppingPayments,
    FicklePayments,
    ForgetfulPayments,
    LaggingPayments,
    LimitedCrm,
    PickyPayments,
    SlowPayments,
    SmallPages,
    StrictPayments,
)
from tests.faults.restores import restores
from tests.faults.safety_classes import BRIEF, LAG, MESSAGE, SHORT, Outside, contract_of
from tests.faults.truths import (
    CONTACT,
    KEY,
    ORDER,
    a_limit_is_waited_out,
    charges_of,
    each_stack_has_its_charge,
    imported,
    imported_once,
    newest_is_pushed,
    nobody_is_charged,
    one_contact_is_ours,
    order_tells_the_truth,
    pushed_version,
    second_attempt_pays_once,
    the_contact_is_left_alone,
)
from tests.support.crm import FakeCrm
from tests.support.mail import FakeMailer
from tests.support.orders import order_row
from tests.support.payments import FakePayments, Intent

CHARGE: Final[dict[str, Json]] = {"job": "payment.charge", "v": 1, **ORDER}
RECEIPT: Final = {"job": "receipt.send", "v": 1, **ORDER}
PUSH: Final = {"job": "sync.push", "v": 1, "target": "hubspot", **CONTACT, "version": 7}


class ShortWindowCharge(PaymentCharge):
    """At a provider that forgets keys soon."""

    terms = Terms(
        safety=Safety.KEYED,
        profile=replace(STRIPE, key_window=SHORT, key_margin=timedelta(minutes=5)),
    )


class ImpatientPush(SyncPush):
    """May age for an hour only, so that one wait for a limit is longer."""

    terms = replace(SyncPush.terms, stop=StopRules(age=timedelta(hours=1)))


class LaggingCharge(PaymentCharge):
    """At a provider whose look-up is late."""

    terms = Terms(safety=Safety.KEYED, profile=replace(STRIPE, lookup_lag=LAG))


def an_order(rows: MemoryRows, **changes: object) -> None:
    rows.put("orders", ORDER, order_row(**changes))


def a_paid_order(rows: MemoryRows) -> None:
    an_order(rows, status="paid", charge_id="ch_1")


def a_record(rows: MemoryRows) -> None:
    rows.put("records", CONTACT, {"version": 7, "record": {"properties": {"email": "7@e.org"}}})


def a_record_of_a_deleted_contact(rows: MemoryRows) -> None:
    a_record(rows)
    rows.rows["records", tuple(CONTACT.values())]["crm_id"] = "1"


class PublishedCharge(PaymentCharge):
    """A charge whose end other systems hear of."""

    publishes_events = True


def the_amount_changes(rows: MemoryRows) -> list[Mapping[str, object]]:
    rows.rows["orders", tuple(ORDER.values())]["amount"] = 9900
    return []


def the_record_moves_on(rows: MemoryRows) -> list[Mapping[str, object]]:
    rows.rows["records", tuple(CONTACT.values())]["version"] = 8
    return [{**PUSH, "version": 8}]


def somebody_tries_again(_: MemoryRows) -> list[Mapping[str, object]]:
    return [{**CHARGE, "attempt": 2}]


def paid_in_the_end(ended: Ended) -> int:
    ended.providers["payments"].late_confirmations_arrive()
    return len(ended.providers["payments"].charges)


def charging(
    name: str,
    payments: Callable[[Clock], FakePayments],
    contract: type[PaymentCharge] = PaymentCharge,
    *,
    receipts: bool = False,
    **more: Any,  # noqa: ANN401  # fields of a scenario
) -> Scenario:
    def providers(clock: Clock) -> Mapping[str, Provider | None]:
        acts = acting("prepare", "execute", "close")
        return {
            "payments": Provider(target=payments(clock), acts=acts, asks=asking("look_up", "find")),
            "mailer": a_mailer(FakeMailer()) if receipts else None,
        }

    return Scenario(
        name=f"payment.charge/{name}",
        contracts=(contract, ReceiptSend),
        message=CHARGE,
        providers=providers,
        **{
            "effects": lambda ended: len(ended.providers["payments"].charges),
            "rows": an_order,
            "check": order_tells_the_truth,
            **more,
        },
    )


def a_mailer(target: FakeMailer) -> Provider:
    return Provider(target=target, acts=acting("send"))


def a_crm(target: FakeCrm) -> Provider:
    unread = dict.fromkeys(("fetch", "page", "changed"), NotSent("timeout"))
    return Provider(target=target, acts=acting("push"), asks={**asking("find"), **unread})


def crm_with(clock: Clock, contacts: int, kind: type[FakeCrm] = FakeCrm) -> Mapping[str, Provider]:
    crm = kind(clock=clock)  # type: ignore[arg-type]  # it only ever looks at the time
    crm.add_contacts(contacts)
    return {"crm": a_crm(crm)}


def pushing(
    name: str,
    crm: Callable[[FakeCrm], object],
    **more: Any,  # noqa: ANN401  # fields of a scenario
) -> Scenario:
    """A push to a CRM in which people have worked before."""

    def providers(clock: Clock) -> Mapping[str, Provider]:
        held = FakeCrm(clock=clock)  # type: ignore[arg-type]  # it only ever looks at the time
        crm(held)
        return {"crm": a_crm(held)}

    return Scenario(
        name=f"sync.push/{name}",
        contracts=(SyncPush,),
        message=PUSH,
        providers=providers,
        **{
            "effects": lambda ended: ended.providers["crm"].writes.total(),
            "rows": a_record,
            "check": one_contact_is_ours,
            **more,
        },
    )


def an_existing_contact(crm: FakeCrm) -> None:
    crm.add(email="7@e.org")


def a_contact_of_another_record(crm: FakeCrm) -> None:
    crm.add(email="7@e.org", oncely_id="shop#7")


def a_deleted_contact(crm: FakeCrm) -> None:
    crm.archive(crm.add(email="7@e.org"))


def a_deleted_contact_and_its_successor(crm: FakeCrm) -> None:
    a_deleted_contact(crm)
    an_existing_contact(crm)


def of_class(
    name: str,
    safety: Safety,
    *,
    window: timedelta | None = None,
    remembers: timedelta | None = None,
    lag: timedelta | None = None,
    given: str = "",
) -> Scenario:
    natural = safety is Safety.NATURAL
    return own_job(
        contract_of(safety, window=window, lag=lag),
        name=f"test.effect/{name}",
        message=MESSAGE,
        provider=lambda clock: Outside(clock, remembers, lag or timedelta(0)),
        named="outside",
        asks={"find"},
        effects=lambda outside: len({one for _, one in outside.done} if natural else outside.done),
        given=given,
    )


DAY: Final = timedelta(hours=24)

# A neighbour in the same group of a sweep: its order is gone, so it ends with an operator.
NEIGHBOUR: Final = replace(
    enqueued(
        JobKey("payment.charge:order_gone"),
        "payment.charge",
        {**CHARGE, "order_id": "gone"},
        now=START,
        due_at=START + timedelta(seconds=72),
        actor="producer",
        reason="enqueued",
    ),
    status=Status.UNKNOWN,
    lease_until=START,
)

FORGED: Final = replace(
    enqueued(
        KEY,
        "payment.charge",
        CHARGE,
        now=START,
        due_at=START + timedelta(minutes=15),
        actor="producer",
        reason="forged",
    ),
    provider_ref="pi_victim",
)
COPIED: Final = replace(FORGED, provider_ref="pi_1", deployment="staging", fence=1)


def after_staging() -> FakePayments:
    """Staging has charged the same order, under its own keys."""
    payments = FakePayments()
    theirs = Payment(
        money=Money(1250, "eur"),
        customer="cus_7",
        method="pm_card_visa",
        job_key=KEY,
        order_id="18452",
        deployment="staging",
    )
    create, confirm = (
        provider_key(KEY, step, 1, deployment="staging") for step in ("create", "confirm")
    )
    made = payments.prepare(theirs, key=create)
    assert isinstance(made, Prepared)
    payments.execute(made.ref, theirs, key=confirm, verified=True)
    return payments


def with_a_victim() -> FakePayments:
    """Another customer's payment, not confirmed; its customer never meant to pay our order."""
    theirs = Payment(
        money=Money(9900, "eur"),
        customer="cus_victim",
        method="pm_card_visa",
        job_key=JobKey("payment.charge:order_9"),
        order_id="9",
    )
    return FakePayments(intents={"pi_victim": Intent("pi_victim", theirs)})


SCENARIOS: Final = (
    charging("keys", lambda _: FakePayments()),
    charging("no-keys", lambda _: FakePayments(honours_keys=False)),
    charging("short-window", lambda clock: ForgetfulPayments(wall=clock), ShortWindowCharge),
    charging("lagging", lambda clock: LaggingPayments(wall=clock), LaggingCharge),
    charging("declined", lambda _: FakePayments(declines=True)),
    # A confirmation that arrives late finds the money that the first one did not.
    charging("late-confirm", lambda _: FicklePayments(), effects=paid_in_the_end),
    charging(
        "close-lost",
        lambda _: FicklePayments(),
        effects=paid_in_the_end,
        given="w1:payments.close!fail",
    ),
    charging(
        "decline-lost",
        lambda _: FicklePayments(),
        effects=paid_in_the_end,
        given="w1:payments.execute!lost",
    ),
    charging("slow", lambda clock: SlowPayments(wall=clock)),
    charging("unserved", lambda _: FakePayments(), copies=0, sweeps_at=(timedelta(minutes=6),)),
    # Two jobs in one group, and sweeps that keep each other off until a lease expires.
    charging(
        "sweep-leases",
        lambda _: FakePayments(),
        jobs=(NEIGHBOUR,),
        sweep_leases=True,
        given="w1:payments.execute!lost",
        sweeps_at=(timedelta(minutes=2), timedelta(minutes=2)),
    ),
    charging("edited", lambda _: StrictPayments(), edit=the_amount_changes),
    charging("outage", lambda clock: DroppingPayments(wall=clock)),
    charging(
        "second-attempt",
        lambda _: PickyPayments(),
        effects=lambda _: 0,  # of the first attempt
        edit=somebody_tries_again,
        check=second_attempt_pays_once,
    ),
    # A zombie wakes with a reference to save when its job was proved absent and begun anew;
    # no key hides what comes of it.
    charging(
        "zombie",
        lambda _: FakePayments(honours_keys=False),
        given="w1:store.swap>sweep w1:store.swap>deliver",
    ),
    charging(
        "forged",
        lambda _: with_a_victim(),
        jobs=(FORGED,),
        check=nobody_is_charged,
    ),
    # Staging and dev use one provider account, and the same order ids, customers and amounts.
    charging(
        "two-stacks",
        lambda _: after_staging(),
        effects=lambda ended: len(charges_of(ended, "dev")),
        check=each_stack_has_its_charge,
    ),
    # A row of staging's, as a copied table has it; staging goes on with it as well.
    charging(
        "copied-row",
        lambda _: after_staging(),
        jobs=(COPIED,),
        effects=lambda ended: len(charges_of(ended, "dev")),
        check=each_stack_has_its_charge,
    ),
    *restores(charging),
    charging("with-receipt", lambda _: FakePayments(), receipts=True),
    charging("with-event", lambda _: FakePayments(), PublishedCharge, receipts=True),
    Scenario(
        name="receipt.send",
        contracts=(ReceiptSend,),
        message=RECEIPT,
        providers=lambda _: {"mailer": a_mailer(FakeMailer())},
        effects=lambda ended: len(ended.providers["mailer"].sent),
        rows=a_paid_order,
    ),
    Scenario(
        name="sync.contact",
        contracts=(SyncContact,),
        message={
            "job": "sync.contact",
            "v": 1,
            "source": "hubspot",
            "source_id": "1",
            "event_id": "e",
        },
        providers=lambda clock: crm_with(clock, 1),
        effects=imported,
        check=imported_once,
    ),
    Scenario(
        name="sync.push",
        contracts=(SyncPush,),
        message=PUSH,
        providers=lambda clock: crm_with(clock, 0),
        effects=lambda ended: ended.providers["crm"].writes.total(),
        rows=a_record,
        check=pushed_version,
    ),
    Scenario(
        name="sync.push/moves-on",
        contracts=(SyncPush,),
        message=PUSH,
        providers=lambda clock: crm_with(clock, 0),
        effects=lambda ended: min(ended.providers["crm"].writes.total(), 1),
        rows=a_record,
        edit=the_record_moves_on,
        check=newest_is_pushed,
    ),
    pushing("exists", an_existing_contact),
    pushing(
        "exists-moves-on",
        an_existing_contact,
        effects=lambda ended: min(ended.providers["crm"].writes.total(), 1),
        edit=the_record_moves_on,
        check=newest_is_pushed,
    ),
    pushing("exists-elsewhere", a_contact_of_another_record, check=the_contact_is_left_alone),
    pushing("deleted", a_deleted_contact, rows=a_record_of_a_deleted_contact),
    pushing("replaced", a_deleted_contact_and_its_successor, rows=a_record_of_a_deleted_contact),
    Scenario(
        name="sync.push/daily-limit",
        contracts=(ImpatientPush,),
        message=PUSH,
        providers=lambda clock: crm_with(clock, 0, LimitedCrm),
        effects=lambda ended: ended.providers["crm"].writes.total(),
        rows=a_record,
        check=a_limit_is_waited_out,
    ),
    Scenario(
        name="sync.import",
        contracts=(SyncImport, SyncContact),
        message={"job": "sync.import", "v": 1, "source": "hubspot", "batch_id": "b"},
        providers=lambda clock: crm_with(clock, 3, SmallPages),
        effects=imported,
        check=imported_once,
    ),
    of_class("natural", Safety.NATURAL),
    of_class("keyed", Safety.KEYED, window=DAY, remembers=DAY),
    of_class("keyed-short-window", Safety.KEYED, window=SHORT, remembers=SHORT),
    # A send is open, and its key is forgotten before every hold-up is over.
    of_class(
        "keyed-brief-window",
        Safety.KEYED,
        window=BRIEF,
        remembers=BRIEF,
        given="w1:outside.do!lost",
    ),
    of_class("lookup", Safety.LOOKUP, lag=timedelta(0)),
    of_class("lookup-lagging", Safety.LOOKUP, lag=LAG),
    of_class("at-most-once", Safety.AT_MOST_ONCE),
)
