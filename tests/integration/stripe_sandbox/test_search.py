"""Search works as at Stripe, with its lag."""

import pytest
import stripe

from tests.integration.stripe_sandbox.sandbox_client import (
    CHARGE,
    CONFIRM,
    ORDER,
    CallableClock,
    Intents,
)


def test_search_finds_job_only_after_index_lag(intents: Intents, clock: CallableClock) -> None:
    intent = intents.create(ORDER)
    query = "metadata['job_key']:'payment.charge:order_18452'"

    at_once = intents.search({"query": query}).data
    clock.advance(minutes=1)
    intents.confirm(intent.id, CONFIRM)
    later = intents.search({"query": query}).data

    assert at_once == []
    assert [(found.id, found.status) for found in later] == [(intent.id, "requires_confirmation")]


def test_search_joins_clauses(intents: Intents, clock: CallableClock) -> None:
    intents.create(ORDER)
    paid = intents.create(CHARGE)
    clock.advance(minutes=1)
    found = intents.search({"query": 'status:\'succeeded\' AND metadata["order_id"]:"18452"'})
    assert [one.id for one in found.data] == [paid.id]


def test_invalid_query_is_rejected(intents: Intents) -> None:
    with pytest.raises(stripe.InvalidRequestError):
        intents.search({"query": "metadata['job_key']:'a' OR status:'succeeded'"})


def test_list_pages_customer_intents_newest_first(intents: Intents) -> None:
    mine = [intents.create(ORDER).id for _ in range(3)]
    intents.create({**ORDER, "customer": "cus_2"})
    page = intents.list({"customer": "cus_1", "limit": 2})
    assert [one.id for one in page.auto_paging_iter()] == mine[::-1]
    assert page.has_more
