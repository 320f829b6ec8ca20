"""What Stripe documents of idempotency, lags, limits and errors."""

from datetime import date
from typing import Final

from oncely.plugins.facts import Fact, ProviderFacts, Sdk
from oncely.providers.stripe.payments import MAX_PAGES, PAGE_SIZE

_READ: Final = date(2026, 11, 18)
_KEYS: Final = "https://docs.stripe.com/idempotency"
_HTTP: Final = "https://docs.stripe.com/error-low-level"
_RATES: Final = "https://docs.stripe.com/rate-limits"
_SEARCH: Final = "https://docs.stripe.com/search"
_ERRORS: Final = "https://docs.stripe.com/api/errors?lang=ruby"

FACTS: Final = ProviderFacts(
    facts=(
        Fact(
            of="key window",
            says=(
                "A key is remembered for at least 24 hours after its first request. After that, "
                "the same key makes a new request."
            ),
            source=_KEYS,
            read=_READ,
            does="Leaves 1 hour of that unused, then only looks up.",
        ),
        Fact(
            of="key length",
            says="A key has at most 255 characters. Only a POST uses it.",
            source=_KEYS,
            read=_READ,
        ),
        Fact(
            says=(
                "The status and the body of the first response are stored, also those of an error, "
                "and of a 500. A repeat returns them."
            ),
            source=_KEYS,
            read=_READ,
            does=(
                "Takes a new key only after a stored error was replayed, or after a lookup proved "
                "that nothing was charged."
            ),
        ),
        Fact(
            says="A replayed response has the header `Idempotent-Replayed: true`.",
            source="https://osv.dev/vulnerability/GHSA-8mhj-rffc-rcvw",
            read=_READ,
            does=(
                "Takes only that as proof that an error is stored under the key: not every 500 is. "
                "A replayed object is as old as the first response, so it is read again."
            ),
        ),
        Fact(
            says=(
                "Parameters of a repeat are compared with those of the first request. If they "
                "differ, the request fails with an `idempotency_error`."
            ),
            source=_KEYS,
            read=_READ,
            does="Numbers the keys of a job, and sends the same parameters under each.",
        ),
        Fact(
            says=(
                "Nothing is stored if a parameter is invalid or another request with the key is "
                "in progress (409, `idempotency_key_in_use`). Such a request can be repeated."
            ),
            source=_KEYS,
            read=_READ,
            does="Reads 409 as an open outcome, and asks.",
        ),
        Fact(
            says=(
                "429 and a 401 without an API key are returned before keys are looked at, so the "
                "same key may get another response later."
            ),
            source=_HTTP,
            read=_READ,
            does=(
                "Reads 401, 403 and 429 as not sent. On confirm, 401, 403 and `lock_timeout` prove "
                "nothing, so it reads the intent."
            ),
        ),
        Fact(
            says="All of this is API v1. In v2, a key has 30 days, and a repeat works otherwise.",
            source="https://docs.stripe.com/error-low-level?locale=en-US",
            read=_READ,
            does="Uses v1.",
        ),
        Fact(
            says="A key is valid for one account and one mode.",
            read=_READ,
            does=(
                "Stores account and mode with the first send. With another API key, it does not "
                "repeat a request."
            ),
        ),
        Fact(
            of="lookup lag",
            says="No lag of reads by id is documented, so they count as immediate.",
            read=_READ,
            does="Reads intents and charges by id.",
        ),
        Fact(
            says=(
                "The search index usually has new objects within a minute, and later in an outage. "
                "Lists are not subject to that delay."
            ),
            source=_SEARCH,
            read=_READ,
            does="Lists a customer's payments, and never searches.",
        ),
        Fact(
            of="lookup lag of payment.refund",
            says="It is not documented how long the list of a charge's refunds may lack a new one.",
            read=_READ,
            does=(
                "Takes a refund as absent only 5 minutes after the last request, and only if the "
                "charge's own `amount_refunded` is not more than the list shows."
            ),
        ),
        Fact(
            says="A page of results has at most 100 objects.",
            source="https://docs.stripe.com/api/pagination/search",
            read=_READ,
            does=(
                f"Reads a customer's newest {PAGE_SIZE * MAX_PAGES} payments to find a second one "
                f"of the same job, and the newest {PAGE_SIZE} refunds of a charge."
            ),
        ),
        Fact(
            of="request rate",
            says=(
                "An account may send 100 requests a second (25 in a sandbox), 25 to each endpoint, "
                "and 1,000 updates an hour to one PaymentIntent. Stripe may set other limits."
            ),
            source=_RATES,
            read=_READ,
            does=(
                "Sends 25 effects and 25 lookups a second. Other limits are set as "
                "`stripe_effects_per_second` and `stripe_lookups_per_second`."
            ),
        ),
        Fact(
            says=(
                "400 and 404 reject a request, 402 declines a payment, 409 is a conflict with "
                "another request, and 5xx are errors of Stripe."
            ),
            source="https://docs.stripe.com/api/errors?api-version=2025-04-30.basil",
            read=_READ,
            does="Reads the intent after every error on confirm, whatever its status.",
        ),
        Fact(
            says="`idempotency_error` is a type of its own, beside `card_error` and `api_error`.",
            source=_ERRORS,
            read=_READ,
        ),
        Fact(
            says="`charge_already_refunded` does not name the refund that was made.",
            read=_READ,
            does="Searches the list of refunds by metadata before it accepts a decline.",
        ),
        Fact(
            says="A refund may be `pending` or `requires_action`, and fail or be canceled later.",
            source="https://docs.stripe.com/api/refunds/object?lang=php",
            read=_READ,
            does="Waits, and reads again what was reported as done.",
        ),
        Fact(
            says=(
                "A SEPA debit was documented to take up to 14 business days. By a later notice, "
                "Stripe reports success after 6."
            ),
            source=(
                "https://support.stripe.com/questions/changes-to-sepa-direct-debit-payment-behavior"
            ),
            read=_READ,
            does="Waits for 23 days: 14 business days, and holidays.",
        ),
        Fact(
            says="An ACH debit takes up to 4 business days.",
            source="https://docs.stripe.com/payments/ach-direct-debit",
            read=_READ,
            does="Waits for 14 days, its default.",
        ),
    ),
    sdk=Sdk(
        package="stripe",
        version="16.1.0",
        read=_READ,
        knows={
            "idempotency_key": "the request option with the key",
            "Idempotency-Key": "the request header that carries it",
            "idempotency-key": "the response header that repeats it",
            "idempotency_error": "the error type of a key that was used for another request",
            "IdempotencyError": "the exception for that type",
            "idempotency_key_in_use": "the error code while a request with the key is in progress",
            "max_network_retries = 2": "by default the SDK repeats a request twice; Oncely: never",
        },
    ),
    notes=(
        "A declined intent stays open. Only a canceled intent can never take money.",
        "An intent is ours only with our deployment, job key, customer, amount, currency and mode.",
        (
            "Oncely reads an intent of an earlier run, saved or replayed, before it confirms the "
            "intent."
        ),
        (
            "A refund is one call. Oncely repeats it under the same key, and uses a new one only "
            "after Stripe replayed an error and the refund is certainly absent."
        ),
        (
            "A charge whose metadata names another deployment is never refunded. One without "
            "metadata, made before Oncely, is."
        ),
        "`amount_to_confirm` limits what a confirmation may charge, even if the intent changed.",
        (
            "Events are hints: Oncely reads the object at Stripe before it records anything. They "
            "are off unless `stripe_event_source` or `stripe_webhook` is set."
        ),
        (
            "The prefix of an API key contains its mode. If it does not, Oncely compares no mode: "
            "Stripe returns only objects of the key's mode."
        ),
        "Confirming takes a few seconds at worst. The timeout for the whole request is 10 seconds.",
    ),
)
