"""What Braintree documents of idempotency, lags, limits and errors."""

from datetime import date
from typing import Final

from oncely.plugins.facts import Fact, ProviderFacts, Sdk

_READ: Final = date(2026, 11, 18)
_KEYS: Final = "https://developer.paypal.com/braintree/graphql/integration_guides/idempotency"
_DUPLICATES: Final = (
    "https://developer.paypal.com/braintree/articles/control-panel/transactions/duplicate-checking"
)
_STATUSES: Final = "https://developer.paypal.com/braintree/docs/reference/general/statuses"

FACTS: Final = ProviderFacts(
    facts=(
        Fact(
            says=(
                "A request can carry an `ApiRequestKey`. For 30 days, a repeat of it performs "
                "nothing and returns the current state of the first one."
            ),
            source=_KEYS,
            read=_READ,
        ),
        Fact(
            says=(
                "Keys are documented for GraphQL only; an older copy of the page offers them to "
                "selected merchants. The SDK, which uses the older API, accepts them since 4.43, "
                "and `915231` is the error of a merchant that may not use them."
            ),
            source=_KEYS,
            read=_READ,
            does=(
                "Sends a key with each sale, submission, void and refund, and relies on the "
                "lookup. After 915231, which created nothing, it sends the request once more "
                "without a key. 915232, 915233 and 915235 prove nothing."
            ),
        ),
        Fact(
            of="key window of payment.refund",
            says="No window is documented for the keys of the older API.",
            read=_READ,
            does=(
                "Assumes 24 hours for a refund, leaves 1 hour of that unused, and sends the key "
                "again only after a lookup found nothing."
            ),
        ),
        Fact(
            of="key length of payment.refund",
            says="`915230` is the error of a key that is too long. Its limit is not documented.",
            read=_READ,
            does="Sends at most 255 characters, as to Stripe.",
        ),
        Fact(
            says="A repeat during the first request gets an error that asks to retry.",
            source=_KEYS,
            read=_READ,
        ),
        Fact(
            says="Keys and the check for duplicates exclude each other.",
            source=_KEYS,
            read=_READ,
        ),
        Fact(
            says=(
                "The check for duplicates compares amount, order id and card with successful "
                "transactions of the last 30 seconds. A merchant can change that time, or turn it "
                "off. A rejected sale is `gateway_rejected` with the reason `duplicate`."
            ),
            source=_DUPLICATES,
            read=_READ,
            does=(
                "Does not rely on it. But a rejected duplicate proves that another transaction of "
                "the job exists, so it is searched for."
            ),
        ),
        Fact(
            of="lookup lag",
            says="No delay between a sale and its appearance in a search is documented.",
            read=_READ,
            does=(
                "Authorizes again only after 5 minutes without a result. A longer delay cannot "
                "charge twice: it leaves an authorization that a later run voids, or that expires."
            ),
        ),
        Fact(
            says=(
                "A search returns at most 20,000 transactions; another copy of the page says "
                "10,000."
            ),
            source=(
                "https://developers.braintreepayments.com/reference/general/searching/"
                "search-results/python"
            ),
            read=_READ,
            does="Halves every search with more than 1,000 results.",
        ),
        Fact(
            says=(
                "An authorization takes no money. It expires after 3 to 30 days, which depends on "
                "the card, and should be voided if it is not submitted."
            ),
            source=_STATUSES,
            read=_READ,
            does=(
                "Authorizes first, saves the transaction id, and submits nothing else. A second "
                "submission of a transaction is rejected."
            ),
        ),
        Fact(
            says=(
                "A void is possible while a transaction is `authorized`, "
                "`submitted_for_settlement` or, with PayPal, `settlement_pending`."
            ),
            source="https://developer.paypal.com/braintree/docs/reference/request/transaction/void/",
            read=_READ,
            does="Reads a transaction before it voids it.",
        ),
        Fact(
            says=(
                "A transaction that is `submitted_for_settlement`, `settling`, "
                "`settlement_confirmed` or `settled` takes the money without a further request. "
                "`authorizing` and `settlement_pending` are undecided; `settlement_declined` took "
                "nothing."
            ),
            source=_STATUSES,
            read=_READ,
            does="Decides by the state of the transaction, not by that of a request.",
        ),
        Fact(
            says="It is not documented whether a request that got 500, 503 or 504 was performed.",
            read=_READ,
            does=(
                "Reads those and timeouts as an open outcome. 401, 403 and 429 create no "
                "transaction."
            ),
        ),
    ),
    sdk=Sdk(
        package="braintree",
        version="4.48.0",
        read=_READ,
        knows={
            "create(api_request_key)": "the key of a transaction of any type",
            "sale(api_request_key)": "the key of a sale",
            "credit(api_request_key)": "the key of a credit without a sale",
            "refund(api_request_key)": "the key of a refund",
            "reverse(api_request_key)": "the key of a void or a refund, whichever is possible",
            "void(api_request_key)": "the key of a void",
            "submit_for_settlement(api_request_key)": "the key of a submission",
            "submit_for_partial_settlement(api_request_key)": "the key of a part of a submission",
            "915230": "ApiRequestKeyTooLong",
            "915231": "ApiRequestKeyNotAllowed: this merchant may not use keys",
            "915232": "ApiRequestKeyCanBeReusedOnlyWithTheSameRequest: the parameters differ",
            "915233": "ApiRequestKeyIsInFlight: the first request is in progress",
            "915234": "ApiRequestKeyWithFailedRequest: the first request failed",
            "915235": "ApiRequestKeyServerError",
        },
    ),
    notes=(
        (
            "An authorization whose response was lost is searched for by `order_id`, which holds "
            "the deployment and the job key. What is found is verified and submitted, or voided."
        ),
        (
            "Until a sale is settled, it can only be voided in full: that is the refund of all of "
            "it, and a part waits. Then a refund is one call with an idempotency key, and its "
            "`order_id` holds its job. The sale lists its refunds."
        ),
        (
            "Soft and hard declines end the job; the result has the processor's code and type. "
            "Only a resubmission tries again."
        ),
        (
            "The currency is the merchant account's. `merchant_accounts` names one for each "
            "currency, and an authorization in another currency is never submitted."
        ),
        "A transaction is ours only with our deployment, job key, customer, amount and currency.",
        (
            "A repeated run searches and reads before it submits, with up to ten requests. If it "
            "runs out of time, it is looked up as after a crash."
        ),
        "Each request opens a connection, since Lambda freezes a function with idle ones.",
    ),
)
