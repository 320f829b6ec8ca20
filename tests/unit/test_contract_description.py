"""The contract in plain language."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.profiles import COMMIT_BUDGET, RetryLimits, RetryPolicy, RetrySafety
from oncely.jobs import CONTRACTS
from oncely.jobs.payment_charge import PaymentCharge
from oncely.providers.stripe.plugin import PROFILE as STRIPE

PAYMENT_CHARGE = """\
payment.charge (queue payments)
  Effect: the order's customer is charged the order's amount, at most once.
  Business rows: the order becomes paid (with its charge_id) or payment_failed, with the job.
  Success: Stripe reports that the payment of this order succeeded.
  Failure: the card was declined, or the bank requires the customer to authenticate. The \
payment was canceled, so it cannot succeed later.
  Retry: an ended job returns its first result. While the outcome is unknown, Oncely looks it up \
at the provider. It resends only if the effect certainly did not happen, or under the same \
idempotency key while the provider still honors it.
  Needs review:
    - after 5 timeouts in a row, 8 attempts, or 24 hours without an outcome
    - when the same key comes with other business values
    - when the effect is done but the business rows reject the write
    - when the order is missing or cannot be charged
    - when the payment has another amount, or was refunded
    - when the saved payment is not this job's: its key, customer, amount or mode differs
    - when Stripe rejects our API key or our request"""


def test_payment_charge_description_matches_snapshot() -> None:
    assert PaymentCharge.describe() == PAYMENT_CHARGE


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.job_type)
def test_every_contract_describes_effect_rows_and_outcomes(contract: type[PaymentCharge]) -> None:
    text = contract.describe()
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
    assert promise in _with_terms(RetryPolicy(safety=safety, profile=STRIPE)).describe()


def test_description_states_limits_in_numbers() -> None:
    stop = RetryLimits(max_attempts=3, max_consecutive_timeouts=2, max_age=timedelta(minutes=90))
    text = _with_terms(replace(PaymentCharge.policy, limits=stop)).describe()
    assert "after 2 timeouts in a row, 3 attempts, or 1.5 hours without an outcome" in text


def test_run_time_covers_every_call_and_commit() -> None:
    assert (
        PaymentCharge.policy.max_duration
        == STRIPE.request_timeout * STRIPE.max_calls + COMMIT_BUDGET
    )


def _with_terms(terms: RetryPolicy) -> type[PaymentCharge]:
    return type("Other", (PaymentCharge,), {"policy": terms})
