"""The shipped clients and the models of their providers keep to what the vendors publish.

The other tests of this folder compare their exchanges as well. These reach every operation, and
show that each stated difference is still one.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import stripe

from oncely.core.effect_outcomes import Declined, Succeeded
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.plugins.events import EffectChange
from oncely.plugins.ledger import EntryKind
from oncely.plugins.provider import AnyProvider
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.interfaces import ChargeState, Email, Refund
from oncely.providers.ses import SES
from oncely.providers.ses.sandbox.model import (
    REFUSED_RECIPIENTS,
    REFUSED_SENDERS,
)
from oncely.providers.stripe import STRIPE
from oncely.testing.sandbox.faults import REFUSAL_STATUSES, FaultKind
from oncely.testing.sandbox.provider_sandbox import sandbox_type
from tests.conformance.crm_harnesses import crm_harness
from tests.conformance.payment_harnesses import (
    charge_payment,
    execute_payment,
    payment_harness,
    prepare_payment,
)
from tests.specs import ses
from tests.support.fake_aws_account import FakeAwsAccount
from tests.support.fakes import START
from tests.support.mail import MemoryMail, ses_mailer
from tests.support.published_specs import Comparison, compare_exchanges, descriptions
from tests.support.shipped_sandbox import ShippedSandbox

DAY = timedelta(days=1)
KEY = IdempotencyKey("key")
# Those that a provider answers itself.
FAULTS = (*REFUSAL_STATUSES, FaultKind.ERROR_AFTER)


def use_stripe(comparison: Comparison) -> None:
    with payment_harness(STRIPE, in_process=True) as rig:
        model: Any = rig.payments
        client: Any = rig.provider
        events: list[Any] = []
        model.on_event = events.append
        asked = replace(rig.payment(), deployment="dev")
        ref = charge_payment(rig, asked)
        charge_payment(rig, rig.payment("declined"), number=2)
        charge_payment(rig, rig.payment("processing"), number=3)
        assert isinstance(client.lookup(ref, asked), Succeeded)
        client.find(asked)
        open_ref = prepare_payment(rig, asked, number=4)
        client.close(open_ref, asked, verified=True)
        execute_payment(rig, open_ref, asked, number=4)
        model.acts_as = "pm_card_authenticationRequired"
        intents = client.client.v1.payment_intents
        draft = {"amount": 1250, "currency": "eur", "payment_method": "pm_card_visa"}
        own = {"automatic_payment_methods": {"enabled": True, "allow_redirects": "never"}}
        assert intents.create({**draft, **own, "confirm": True}).status == "requires_action"
        with pytest.raises(stripe.InvalidRequestError):
            intents.create({**draft, "payment_method_types": ["card"]})
        (charge,) = model.ledger.charges
        refund = Refund(
            charge_id=charge.charge_id,
            money=replace(asked.money, amount=100),
            job_key=JobKey("payment.refund:order_18452:1"),
            order_id="18452",
            refund_id="1",
            deployment="dev",
        )
        assert isinstance(client.read_charge(charge.charge_id), ChargeState)
        assert isinstance(client.refund(refund, idempotency_key=KEY), Succeeded)
        assert isinstance(client.lookup_refund(refund), Succeeded)
        assert isinstance(client.read_change(charge.charge_id), EffectChange)
        (made,) = model.ledger.refunds
        model.complete_refund(made.refund_id, succeeded=False)
        rig.dispute(ref)
        assert isinstance(client.lookup_refund(refund), Declined)
        client.refund(replace(refund, refund_id="2"), idempotency_key=IdempotencyKey("key 2"))
        (dispute,) = model.ledger.disputes
        assert isinstance(client.read_change(dispute.dispute_id), EffectChange)
        rig.set_email("cus_7", "seven@example.com")
        for text in (
            "seven@example.com",
            charge.charge_id,
            made.refund_id,
            dispute.dispute_id,
            ref,
        ):
            assert client.ledger.find_owners(text)
        client.ledger.find_refund(made.refund_id)
        client.ledger.find_charge("pi_other")
        now = datetime.now(UTC)
        for kind in EntryKind:
            client.ledger.list_entries(kind, since=now - DAY, until=now + DAY, after=None)
        for fault in FAULTS:
            rig.sandbox.faults.add(fault)
            client.lookup(ref, asked)
        for event in events:
            described = descriptions()["stripe"]
            comparison.add(model, described.compare("#Event", event, "event"))
            comparison.add(model, described.compare(*_shown(event), "event"))
        assert len({one["type"] for one in events}) == 7


def _shown(event: Mapping[str, Any]) -> tuple[str, Any]:
    shown = event["data"]["object"]
    names = {"payment_intent": "PaymentIntent"}
    return f"#{names.get(shown['object'], shown['object'].title())}", shown


def use_hubspot(_: Comparison) -> None:
    with crm_harness("in process") as rig:
        crm, rules = rig.crm, rig.model.rules
        for one in ("seven", "eight"):
            rig.users.add(email=f"{one}@example.com")
        rules.max_results = 1
        crm.list_contacts(after="1")
        crm.list_contacts(after=None)
        crm.list_changed(since=START, after=None)
        crm.get_contact("1")
        crm.get_contact("77")
        crm.upsert_contact("a", {"email": "nine@example.com"})
        crm.upsert_contact("a", {"firstname": "Grace"})
        crm.upsert_contact("b", {}, crm_id="2")
        crm.find_by_external_id("a")
        crm.upsert_contact("x" * 3_000_000, {})
        for rules.reports_conflicting_property in (False, True):
            crm.upsert_contact("c", {"email": "nine@example.com"})
            crm.upsert_contact("c", {"email": "nine@example.com"}, crm_id="1")
        crm.upsert_contact("d", {"no_such_name": "1"})
        for fault in FAULTS:
            rig.sandbox.faults.add(fault)
            crm.get_contact("1")
        rules.is_daily_limit_reached = True
        crm.get_contact("1")


def use_ses(_: Comparison) -> None:
    with ShippedSandbox() as sandbox:
        senders = [f"{one}@example.com" for one in ("receipts", *REFUSED_SENDERS)]
        for sender in senders:
            _send(sandbox, sender=sender)
        for one in REFUSED_RECIPIENTS:
            _send(sandbox, to=f"{one}@example.com")
        for fault in FAULTS:
            sandbox.faults.add(fault)
            _send(sandbox)


def _send(
    sandbox: ShippedSandbox, *, sender: str = "receipts@example.com", to: str = "7@example.com"
) -> None:
    email = Email(to=to, subject="Receipt", text="Thank you.")
    job = JobKey("receipt.send:order_1")
    ses_mailer(sandbox.url, sender=sender).send(email, idempotency_key=KEY, job_key=job, tag="tag")


USES = {STRIPE: use_stripe, HUBSPOT: use_hubspot, SES: use_ses}


@pytest.mark.parametrize("plugin", USES, ids=lambda plugin: plugin.name)
def test_model_differs_only_where_it_says(plugin: AnyProvider) -> None:
    with compare_exchanges() as comparison:
        USES[plugin](comparison)
    stated = sandbox_type(plugin).differs or {}
    assert not comparison.unknown, "\n".join(sorted(comparison.unknown))
    assert comparison.known == {one for patterns in stated.values() for one in patterns}
    operations = {name for name, status in comparison.exchanges if status < 300}
    assert operations == set(descriptions()[plugin.name].operations)


def test_ses_in_memory_returns_what_botocore_describes() -> None:
    account, mail = FakeAwsAccount(), MemoryMail()
    sent = mail.client.send_email(
        FromEmailAddress="receipts@example.com",
        Destination={"ToAddresses": ["7@example.com"]},
        Content={
            "Simple": {"Subject": {"Data": "-"}, "Body": {"Text": {"Data": "-"}}, "Headers": []}
        },
        EmailTags=[],
    )
    del sent["ResponseMetadata"]
    outputs = {
        "SendEmail": sent,
        "GetAccount": account.get_account(),
        "GetConfigurationSetEventDestinations": account.get_configuration_set_event_destinations(),
        "GetEmailIdentity": account.get_email_identity(EmailIdentity="example.com"),
    }
    for name, output in outputs.items():
        assert list(ses.compare_output(name, output)) == []
