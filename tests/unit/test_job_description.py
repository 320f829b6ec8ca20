"""A job type in plain language."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.contracts.job import AnyJob
from oncely.core.profiles import COMMIT_BUDGET, RetryPolicy, RetrySafety
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.providers.stripe.plugin import PROFILE as STRIPE

PAYMENT_CHARGE = """\
payment.charge (queue payments)
  Effect: The order's customer is charged the order's amount, at most once.
  Business rows: the order becomes paid (with its charge_id) or payment_failed, with the job; \
until then payment_processing, if its bank takes longer.
  Success: the payment provider reports that the payment of this order succeeded.
  Failure: the card was declined, or the bank requires the customer to authenticate. The \
payment was canceled, so it cannot succeed later.
  Retry: an ended job returns its first result. While the outcome is unknown, Oncely looks it up \
at the provider. It resends only if the effect certainly did not happen, or under the same \
idempotency key while the provider still honors it.
  Needs review:
    - after 5 timeouts in a row, 8 attempts, or 24 hours without an outcome
    - when a message has the same key and other business values
    - when the effect is done but the business rows reject the write
    - when it waited 15 minutes for its order
    - when the order cannot be charged, or its payment provider is not configured
    - when the payment has another amount, or was refunded
    - when the order names a charge that its payment provider does not have for it
    - when it is still processing after 14 days, or the limit of its payment method
    - when its row was enqueued as a resubmission too soon or too often
    - when the saved payment is not this job's: its key, customer, amount or mode differs
    - when the payment provider rejects our API key or our request"""


def test_payment_charge_description_matches_snapshot() -> None:
    assert _describe(stripe=PaymentCharge.policy) == PAYMENT_CHARGE


def test_providers_of_different_safety_are_described_one_by_one() -> None:
    keyless = replace(STRIPE, name="Other", key_ttl=None)
    text = _describe(
        stripe=PaymentCharge.policy, other=RetryPolicy(safety=RetrySafety.LOOKUP, profile=keyless)
    )
    assert "Retry: Stripe: an ended job" in text
    assert "honors it. Other: an ended job" in text


@pytest.mark.parametrize("contract", SHIPPED_JOBS, ids=lambda contract: contract.job_type)
def test_every_contract_describes_effect_rows_and_outcomes(contract: type[AnyJob]) -> None:
    text = str(contract.describe_fields())
    for question in ("Effect: ", "Business rows: ", "Success: ", "Failure: ", "Retry: "):
        assert text.split(question)[1].strip()
    assert text.count("\n    - ") >= 3


@pytest.mark.parametrize(
    ("safety", "promise"),
    [
        (RetrySafety.NATURAL, "before that it runs again"),
        (RetrySafety.KEYED, "while the provider still honors it"),
        (RetrySafety.LOOKUP, "only if the effect certainly did not happen."),
        (RetrySafety.AT_MOST_ONCE, "an operator decides"),
    ],
)
def test_description_of_retry_follows_safety_class(safety: RetrySafety, promise: str) -> None:
    assert promise in _describe(stripe=RetryPolicy(safety=safety, profile=STRIPE))


def test_description_states_limits_in_numbers() -> None:
    class Impatient(PaymentCharge):
        max_attempts = 3
        max_consecutive_timeouts = 2
        max_age = timedelta(minutes=90)

    text = str(Impatient.describe_fields())
    assert "after 2 timeouts in a row, 3 attempts, or 1.5 hours without an outcome" in text


def test_run_time_covers_every_call_and_commit() -> None:
    assert (
        PaymentCharge.policy.max_duration
        == STRIPE.request_timeout * STRIPE.max_calls + COMMIT_BUDGET
    )


def _describe(**policies: RetryPolicy) -> str:
    class Other(PaymentCharge):
        pass

    Other.policies = policies
    return str(Other.describe_fields())
