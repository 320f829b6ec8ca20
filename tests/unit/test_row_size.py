"""Every row stays under 1,000 bytes: one write unit, with ids as long as they really are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any
from uuid import UUID

import pytest

from oncely.core.claims import Claim
from oncely.core.effect_outcomes import BusinessWrite, EffectOutcome, Succeeded
from oncely.core.job_row import JobRow
from oncely.core.row_items import serialize_job
from oncely.core.store import ClaimResult, SwapResult
from oncely.ports import new_owner_token
from tests.integration.ping import Ping, ping_message
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.mail import MemoryMail
from tests.support.provider_fault import ProviderFault
from tests.support.stored_rows import InspectableStore
from tests.support.stripe_account import StripeAccount

LIMIT = 1_000  # bytes, and DynamoDB's write unit is 1,024
ORDER, CUSTOMER = str(UUID(int=18452)), str(UUID(int=7))
PAYMENT, REQUEST = "pi_3PqYzA2eZvKYlo2C1a2B3c4D", "req_8sYtPq2LmNoXyZ"
MESSAGE = "0102018f9c3e5a7b-1b2c3d4e-5f60-4718-92a3-b4c5d6e7f809-000000"


def item_size(item: Mapping[str, Any]) -> int:
    return sum(len(name.encode()) + _size(value) for name, value in item.items())


def _size(attribute: Mapping[str, Any]) -> int:
    ((kind, value),) = attribute.items()
    match kind:
        case "S":
            return len(value.encode())
        case "N":
            return ceil(len(value.strip("-0.")) / 2) + 1
        case "L":
            return 3 + sum(1 + _size(one) for one in value)
        case "M":
            return 3 + sum(1 + len(name.encode()) + _size(one) for name, one in value.items())
        case _:
            return 1


class SizeRecordingStore(InspectableStore):
    def claim(self, claim: Claim) -> ClaimResult:
        result = super().claim(claim)
        self._note(self.jobs[claim.job_key])
        return result

    def swap(
        self, before: JobRow, after: JobRow, *, business_writes: Sequence[BusinessWrite] = ()
    ) -> SwapResult:
        result = super().swap(before, after, business_writes=business_writes)
        self._note(self.jobs[before.job_key])
        return result

    def _note(self, job: JobRow) -> None:
        sizes.setdefault(job.job_type, []).append(item_size(serialize_job(job)))


sizes: dict[str, list[int]] = {}


class MaxLengthNamePayments(StripeAccount):
    def __init__(self) -> None:
        super().__init__(new_id=lambda prefix: f"{prefix}{PAYMENT[2:]}")

    def key_scope(self) -> str:
        return "stripe:sk_live_51PqYzA2eZvKYlo2"

    def execute(self, *given: Any, **named: Any) -> EffectOutcome:  # noqa: ANN401  # as it is
        outcome: EffectOutcome = self.client.execute(*given, **named)
        if not isinstance(outcome, Succeeded):
            return outcome
        return replace(outcome, result={**outcome.result, "request_id": REQUEST})


def make_world(**more: Any) -> InMemoryStack:  # noqa: ANN401  # fields of a world
    sizes.clear()
    tokens: Any = new_owner_token
    world = InMemoryStack(
        store=SizeRecordingStore(),
        payments=MaxLengthNamePayments(),
        mail=MemoryMail(new_id=lambda: MESSAGE),
        tokens=tokens,
        deployment="0123456789abcdef",
        **more,
    )
    world.add_order(ORDER, customer_id=CUSTOMER)
    return world


def test_payment_and_its_receipt_stay_under_one_write_unit() -> None:
    world = make_world()

    world.run(charge_message(ORDER))
    world.publisher().publish(world.job(f"payment.charge:order_{ORDER}").job_key)
    world.run(world.outbox.sent.pop())

    print(sizes)  # noqa: T201  # the figures are what a reader wants to see
    assert len(sizes["payment.charge"]) == 4, "claim, reference, end, publish"
    assert len(sizes["receipt.send"]) == 2, "claim, end"
    assert max(sizes["payment.charge"]) < LIMIT
    assert max(sizes["receipt.send"]) < LIMIT


@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER])
def test_once_unknown_payment_stays_under_two_write_units(fault: ProviderFault) -> None:
    world = make_world()
    world.payments.fail_next("execute", fault)
    world.run(charge_message(ORDER))

    world.run_until_idle(f"payment.charge:order_{ORDER}")

    assert max(sizes["payment.charge"]) < 2 * LIMIT


def test_smallest_job_stays_under_half_write_unit() -> None:
    make_world(contracts=(Ping,)).run(ping_message(1))
    assert len(sizes["test.ping"]) == 2, "claim, end"
    assert max(sizes["test.ping"]) < LIMIT / 2


def test_contact_stays_under_one_write_unit_with_any_message() -> None:
    times = {"updatedAt": "2026-11-16T02:20:00.000Z"}
    record = {"id": "4419", "properties": {f"p{n}": "x" * 50 for n in range(100)}, **times}
    event = {"source": "hubspot", "source_id": "4419", "event_id": times["updatedAt"]}

    make_world().run({"job": "sync.contact", "v": 1, **event, "record": record})

    assert len(sizes["sync.contact"]) == 2, "claim, end"
    assert max(sizes["sync.contact"]) < LIMIT
