"""A provider may leave a field out or send null, whatever its description says."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from oncely.core.effect_outcomes import Declined, Prepared, Succeeded
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.money import Money
from oncely.plugins.provider import AnyProvider, ProviderAccess
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.interfaces import CrmRecord, Payment, Refund
from oncely.providers.stripe import STRIPE
from oncely.testing.in_process import InProcessSandbox, base_url
from oncely.testing.sandbox import SandboxOptions
from oncely.testing.sandbox.http_messages import SandboxHandler, SandboxRequest, SandboxResponse
from oncely.testing.sandbox.provider_sandbox import sandbox_type

Body = Mapping[str, Any]
ResponseChange = Callable[[SandboxResponse], SandboxResponse]
LEFT_OUT: Final = object()
JOB: Final = JobKey("payment.charge:order_1")


def connect(plugin: AnyProvider, change: ResponseChange) -> tuple[Any, Any]:
    """The shipped client and the model, whose responses are changed."""

    class Changed(sandbox_type(plugin)):  # type: ignore[misc]  # known only now
        def handle(
            self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
        ) -> SandboxResponse:
            response = super().handle(request, wrap=wrap)
            return change(response)

    model = Changed(SandboxOptions())
    network = InProcessSandbox(models={plugin.name: model}).network
    settings = plugin.read_settings({plugin.env_var("api_base"): base_url(plugin.name)})
    access = ProviderAccess(settings=settings, api_key=model.api_key, network=network)
    return plugin.connect(access), model


def with_value(body: Body, name: str, value: object) -> Body:
    left = {key: one for key, one in body.items() if key != name}
    return left if value is LEFT_OUT else {**left, name: value}


@pytest.mark.parametrize(
    ("value", "code"),
    [(LEFT_OUT, "failed"), (None, "failed"), ("expired_or_canceled_card",) * 2],
    ids=["left out", "null", "given"],
)
def test_failed_refund_has_a_code_without_a_reason(value: object, code: str) -> None:
    def change(response: SandboxResponse) -> SandboxResponse:
        if response.body["object"] != "refund":
            return response
        return replace(response, body=with_value(response.body, "failure_reason", value))

    client, model = connect(STRIPE, change)
    money, key = Money(1250, "eur"), IdempotencyKey("key")
    payment = Payment(
        money=money, customer="cus_7", method="pm_card_visa", job_key=JOB, order_id="1"
    )
    prepared = client.prepare(payment, idempotency_key=key)
    assert isinstance(prepared, Prepared)
    client.execute(prepared.ref, payment, idempotency_key=IdempotencyKey("2"), verified=True)
    model.refund_status = "failed"

    refund = Refund(
        charge_id=model.ledger.charges[0].charge_id,
        money=money,
        job_key=JOB,
        order_id="1",
        refund_id="1",
    )
    made = client.refund(refund, idempotency_key=IdempotencyKey("3"))

    assert isinstance(made, Declined)
    assert made.code == code


@pytest.mark.parametrize("value", [LEFT_OUT, None, ""], ids=["left out", "null", "empty"])
def test_contact_without_our_id_has_none(value: object) -> None:
    def change(response: SandboxResponse) -> SandboxResponse:
        properties = with_value(response.body["properties"], "oncely_id", value)
        return replace(response, body={**response.body, "properties": properties})

    client, model = connect(HUBSPOT, change)
    contact_id = model.contacts.add(email="seven@example.com")

    found = client.find_by_external_id("hubspot#7", crm_id=contact_id)

    assert isinstance(found, CrmRecord)
    assert found.external_id is None


@pytest.mark.parametrize("status", [200, 201, 207])
def test_upsert_succeeds_with_any_status_of_success(status: int) -> None:
    client, model = connect(HUBSPOT, lambda response: replace(response, status=status))
    assert isinstance(client.upsert_contact("hubspot#7", {}), Succeeded)
    assert len(model.ledger.contacts) == 1
