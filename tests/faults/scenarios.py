"""Every shipped job and every safety class, each with the providers that it may use."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any, Final

from oncely.core.effect_outcomes import Json
from oncely.core.job_row import JobRow, new_job
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.payment_providers import DEFAULT_PROVIDER, PAYMENT_PROVIDERS
from oncely.jobs.receipt_send import ReceiptSend
from oncely.jobs.sync_contact import SyncContact
from oncely.jobs.sync_import import SyncImport
from oncely.jobs.sync_push import SyncPush
from oncely.providers.hubspot.sandbox.api import HubSpotSandbox
from oncely.providers.hubspot.sandbox.model import HubSpotContacts
from oncely.providers.ses.sandbox.api import SesSandbox
from oncely.providers.stripe.sandbox.model import DECLINED_FIRST
from oncely.testing import FinalState
from oncely.testing.rows import BusinessRows
from oncely.testing.sandbox import ProviderSandbox, SandboxOptions
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import START
from tests.faults import expectations
from tests.faults.botocore_scenarios import botocore_scenarios
from tests.faults.braintree_refund_scenarios import braintree_refund_scenarios
from tests.faults.cancel_scenarios import cancel_scenarios
from tests.faults.early_scenarios import WRONG, early_scenarios
from tests.faults.erasure_scenarios import erasure_scenarios
from tests.faults.event_scenarios import event_scenarios
from tests.faults.expectations import CONTACT, KEY, ORDER
from tests.faults.gate_scenarios import gate_scenarios
from tests.faults.gone_scenarios import gone_scenarios
from tests.faults.later_scenarios import FIRST, later_scenarios
from tests.faults.providers import (
    DECLINED,
    PROCESSING,
    PROCESSING_TIME,
    DecliningFirstAttempt,
    LimitedHubSpot,
    SmallPages,
    add_foreign_intent,
    add_paid_intent,
    pay_open_intents,
    stripe,
)
from tests.faults.receipt_scenarios import count_sent, receipt_scenarios
from tests.faults.recovery_scenarios import recovery_scenarios
from tests.faults.refund_scenarios import refund_scenarios
from tests.faults.repair_scenarios import repair_scenarios
from tests.faults.restore_scenarios import restore_scenarios
from tests.faults.safety_classes import LAG, SAFETY_SCENARIOS, SHORT_KEY_TTL, with_short_window
from tests.support.orders import order_row

CHARGE: Final[dict[str, Json]] = {"job": "payment.charge", "v": 1, **ORDER}
RECEIPT: Final = {"job": "receipt.send", "v": 1, **ORDER}
EVENT: Final = {"source": "hubspot", "source_id": "1", "event_id": "e"}
PUSH: Final = {"job": "sync.push", "v": 1, "target": "hubspot", **CONTACT, "version": 7}


class ShortWindowCharge(PaymentCharge):
    pass


ShortWindowCharge.policies = {"stripe": with_short_window(PaymentCharge.policy)}


class ShortAgePush(SyncPush):
    """With an age limit of an hour, so that one wait for a rate limit is longer."""

    max_age = timedelta(hours=1)


class LookupLagCharge(PaymentCharge):
    lookup_lag = LAG


def seed_order(rows: BusinessRows, **changes: object) -> None:
    rows.put("orders", ORDER, order_row(**changes))


def seed_paid_order(rows: BusinessRows) -> None:
    seed_order(rows, status="paid", charge_id="ch_1")


def seed_record(rows: BusinessRows) -> None:
    rows.put("records", CONTACT, {"version": 7, "record": {"properties": {"email": "7@e.org"}}})


def seed_record_of_deleted_contact(rows: BusinessRows) -> None:
    seed_record(rows)
    rows.change("records", CONTACT, crm_id="1")


class PublishedCharge(PaymentCharge):
    publishes_events = True


def forge_paid(rows: BusinessRows) -> list[Mapping[str, object]]:
    rows.change("orders", ORDER, status="paid", charge_id="ch_invented")
    return [CHARGE]


def change_amount(rows: BusinessRows) -> list[Mapping[str, object]]:
    rows.change("orders", ORDER, amount=9900)
    return []


def update_record(rows: BusinessRows) -> list[Mapping[str, object]]:
    rows.change("records", CONTACT, version=8)
    return [{**PUSH, "version": 8}]


def resubmit_charge(_: BusinessRows) -> list[Mapping[str, object]]:
    return [{**CHARGE, "attempt": 2}]


def count_final_charges(ended: FinalState) -> int:
    pay_open_intents(expectations.payments_in(ended))
    return len(expectations.charges_in(ended))


def check_one_receipt(ended: FinalState) -> Iterable[str]:
    yield from expectations.check_order_matches_charges(ended)
    if (sent := count_sent(ended)) > 1:
        yield f"the receipt was sent {sent} times"


def charge_scenario(
    name: str,
    payments: Callable[[SandboxOptions], ProviderSandbox],
    contract: type[PaymentCharge] = PaymentCharge,
    *,
    provider: str = DEFAULT_PROVIDER,
    receipts: bool = False,
    **more: Any,  # noqa: ANN401  # fields of a scenario
) -> Scenario:
    def providers(options: SandboxOptions) -> Mapping[str, ProviderSandbox | None]:
        return {
            provider: payments(options),
            "ses": SesSandbox(options) if receipts else None,
        }

    return Scenario(
        name=f"payment.charge/{name}"
        if provider == "stripe"
        else f"payment.charge/{provider}/{name}",
        contracts=(contract, ReceiptSend),
        providers=providers,
        **{
            "message": CHARGE,
            "count_effects": lambda ended: len(expectations.charges_in(ended)),
            "seed_rows": partial(seed_order, payment_provider=provider),
            "check": expectations.check_order_matches_charges,
            **more,
        },
    )


def scenarios_of(provider: str) -> Iterable[Scenario]:
    """The scenarios of one payment provider, in a module that is named after it."""
    module = f"tests.faults.{provider}_scenarios"
    if find_spec(module) is None:
        return ()
    found: Iterable[Scenario] = resolve_name(f"{module}:scenarios")(charge_scenario)
    return found


def crm_seeded(
    options: SandboxOptions,
    seed: Callable[[HubSpotContacts], object],
    model_type: type[HubSpotSandbox] = HubSpotSandbox,
) -> Mapping[str, ProviderSandbox]:
    model = model_type(options)
    seed(model.contacts)
    return {"hubspot": model}


def push_scenario(
    name: str,
    seed_crm: Callable[[HubSpotContacts], object] = lambda _: None,
    *,
    crm: type[HubSpotSandbox] = HubSpotSandbox,
    contract: type[SyncPush] = SyncPush,
    **more: Any,  # noqa: ANN401  # fields of a scenario
) -> Scenario:
    return Scenario(
        name=f"sync.push{name}",
        contracts=(contract,),
        providers=lambda options: crm_seeded(options, seed_crm, crm),
        **{
            "message": PUSH,
            "count_effects": expectations.writes_in,
            "seed_rows": seed_record,
            "check": expectations.check_single_contact,
            **more,
        },
    )


def add_existing_contact(crm: HubSpotContacts) -> None:
    crm.add(email="7@e.org")


def add_contact_of_other_record(crm: HubSpotContacts) -> None:
    crm.add(email="7@e.org", oncely_id="shop#7")


def add_deleted_contact(crm: HubSpotContacts) -> None:
    crm.archive(crm.add(email="7@e.org"))


def add_deleted_contact_and_successor(crm: HubSpotContacts) -> None:
    add_deleted_contact(crm)
    add_existing_contact(crm)


def enqueued(key: JobKey, message: Mapping[str, Json], *, seconds: float) -> JobRow:
    due = START + timedelta(seconds=seconds)
    return new_job(
        key, "payment.charge", message, now=START, due_at=due, actor="producer", reason="enqueued"
    )


MOVES_ON: Final[Mapping[str, Any]] = {
    "count_effects": lambda ended: min(expectations.writes_in(ended), 1),
    "edit": update_record,
    "check": expectations.check_newest_version_pushed,
}

# Another job in the same group of a sweep: its order is gone, so it needs review.
NEIGHBOUR: Final = replace(
    enqueued(JobKey("payment.charge:order_gone"), {**CHARGE, "order_id": "gone"}, seconds=72),
    status=Status.UNKNOWN,
    lease_until=START,
)
FORGED: Final = replace(enqueued(KEY, CHARGE, seconds=900), provider_ref="pi_victim")
WRONG_FIRST: Final = enqueued(KEY, WRONG, seconds=900)
LATER: Final = replace(WRONG_FIRST, message=CHARGE, run_at=FIRST, due_at=FIRST)
COPIED: Final = replace(FORGED, provider_ref="pi_1", deployment="staging", fence=1)


_DIRECT: Final = (
    charge_scenario("keys", stripe()),
    charge_scenario("no-keys", stripe(honors_idempotency_keys=False)),
    charge_scenario("short-window", stripe(key_window=SHORT_KEY_TTL), ShortWindowCharge),
    charge_scenario("lagging", stripe(intent_lag=LAG), LookupLagCharge),
    charge_scenario("declined", stripe(acts_as=DECLINED)),
    # A confirmation that arrives late finds the money that the first one did not.
    *(
        charge_scenario(
            name,
            stripe(acts_as=DECLINED_FIRST, honors_idempotency_keys=False),
            count_effects=count_final_charges,
            fixed_prefix=prefix,
        )
        for name, prefix in (
            ("late-confirm", ""),
            ("close-lost", "w1:stripe.close!fail"),
            ("decline-lost", "w1:stripe.execute!lost"),
        )
    ),
    charge_scenario("slow", stripe(acts_as=PROCESSING, processing_time=PROCESSING_TIME)),
    # Two jobs in one group, and sweeps that exclude each other until a lease expires.
    charge_scenario(
        "sweep-leases",
        stripe(),
        jobs=(NEIGHBOUR,),
        sweep_leases=True,
        fixed_prefix="w1:stripe.execute!lost",
        sweeps_at=(timedelta(minutes=2), timedelta(minutes=2)),
    ),
    charge_scenario("edited", stripe(), edit=change_amount),
    # Whoever may write the order's row calls it paid: before the job, and while it runs.
    charge_scenario(
        "paid-forged",
        stripe(),
        seed_rows=partial(seed_order, status="paid", charge_id="ch_invented"),
        check=expectations.check_no_charge,
    ),
    charge_scenario(
        "paid-meanwhile",
        stripe(),
        edit=forge_paid,
        check=expectations.check_only_real_charges_end_it,
    ),
    # Another system, or an earlier table, took the money: one charge, and the job ends with it.
    charge_scenario(
        "paid-before",
        stripe(seed=add_paid_intent),
        seed_rows=partial(seed_order, status="paid", charge_id="ch_1"),
    ),
    charge_scenario(
        "second-attempt",
        stripe(DecliningFirstAttempt),
        count_effects=lambda _: 0,  # of the first attempt
        edit=resubmit_charge,
        check=expectations.check_resubmission_charges_once,
    ),
    # A zombie wakes with a reference to save when its job was proved absent and begun anew;
    # no key hides what comes of it.
    charge_scenario(
        "zombie",
        stripe(honors_idempotency_keys=False),
        fixed_prefix="w1:jobs.update_item#2>sweep w1:jobs.update_item#2>deliver",
    ),
    *(
        charge_scenario(
            name,
            stripe(seed=add_foreign_intent),
            jobs=(FORGED,),
            check=expectations.check_no_charge,
            max_alerts_per_hour=max_alerts,
        )
        # The alert of the second is part of a summary, which a sweep sends.
        for name, max_alerts in (("forged", 10), ("summary", 0))
    ),
    # A producer inserted the row with this status, and no sweep will ever look at it.
    *(
        charge_scenario(
            f"forged-{name}",
            stripe(honors_idempotency_keys=False),
            jobs=(replace(enqueued(KEY, CHARGE, seconds=900), status=status, due_at=None),),
            check=expectations.check_forged_row_blocks_nothing,
        )
        for name, status in (("unknown", Status.UNKNOWN), ("review", Status.NEEDS_REVIEW))
    ),
    *(
        charge_scenario(
            name,
            stripe(seed=partial(add_paid_intent, deployment="staging")),
            jobs=jobs,
            count_effects=lambda ended: len(expectations.charges_by_deployment(ended, "dev")),
            check=expectations.check_charge_per_deployment,
        )
        for name, jobs in (
            # Staging and dev share a provider account, ids, customers and amounts.
            ("two-stacks", ()),
            # A row of staging in a copied table. Staging continues with it as well.
            ("copied-row", (COPIED,)),
        )
    ),
    *restore_scenarios(charge_scenario),
    *recovery_scenarios(charge_scenario),
    *erasure_scenarios(charge_scenario, seed_order, crm_seeded),
    *repair_scenarios(charge_scenario),
    *early_scenarios(charge_scenario, push_scenario, WRONG_FIRST),
    *gate_scenarios(charge_scenario),
    *later_scenarios(charge_scenario, push_scenario, LATER),
    *cancel_scenarios(charge_scenario, enqueued(KEY, CHARGE, seconds=900)),
    *(one for name in PAYMENT_PROVIDERS for one in scenarios_of(name)),
    charge_scenario("with-receipt", stripe(), receipts=True, check=check_one_receipt),
    charge_scenario(
        "with-event", stripe(), PublishedCharge, receipts=True, check=check_one_receipt
    ),
    *receipt_scenarios(seed_paid_order),
    Scenario(
        name="receipt.send",
        contracts=(ReceiptSend,),
        message=RECEIPT,
        providers=lambda options: {"ses": SesSandbox(options)},
        count_effects=count_sent,
        seed_rows=seed_paid_order,
    ),
    Scenario(
        name="sync.contact",
        contracts=(SyncContact,),
        message={"job": "sync.contact", "v": 1, **EVENT},
        providers=lambda options: crm_seeded(options, lambda crm: crm.add_contacts(1)),
        count_effects=expectations.count_complete_imports,
        check=expectations.check_imported_once,
    ),
    *refund_scenarios(),
    *braintree_refund_scenarios(),
    *event_scenarios(),
    *gone_scenarios(crm_seeded),
    push_scenario("", check=expectations.check_pushed_version),
    push_scenario("/moves-on", **MOVES_ON),
    push_scenario("/exists", add_existing_contact),
    push_scenario("/exists-moves-on", add_existing_contact, **MOVES_ON),
    push_scenario(
        "/exists-elsewhere", add_contact_of_other_record, check=expectations.check_contact_unchanged
    ),
    push_scenario("/deleted", add_deleted_contact, seed_rows=seed_record_of_deleted_contact),
    push_scenario(
        "/replaced", add_deleted_contact_and_successor, seed_rows=seed_record_of_deleted_contact
    ),
    push_scenario(
        "/daily-limit",
        crm=LimitedHubSpot,
        contract=ShortAgePush,
        check=expectations.check_limit_not_counted_as_age,
    ),
    Scenario(
        name="sync.import",
        contracts=(SyncImport, SyncContact),
        message={"job": "sync.import", "v": 1, "source": "hubspot", "batch_id": "b"},
        providers=lambda options: crm_seeded(options, lambda crm: crm.add_contacts(3), SmallPages),
        count_effects=expectations.count_complete_imports,
        check=expectations.check_imported_once,
    ),
    *SAFETY_SCENARIOS,
)

SCENARIOS: Final = (*_DIRECT, *botocore_scenarios(_DIRECT, NEIGHBOUR))
