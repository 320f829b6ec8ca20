"""What decisions rest on: how safe an effect is, what its provider offers, and when to stop."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from oncely.domain.keys import MAX_IDEMPOTENCY_KEY_LENGTH


class RetrySafety(StrEnum):
    """What a second send of the same effect would do."""

    NATURAL = "natural"  # a set or an upsert: sending it again changes nothing
    KEYED = "keyed"  # the provider deduplicates on our key, within a window
    LOOKUP = "lookup"  # no key, but the provider can be asked
    AT_MOST_ONCE = "at_most_once"  # neither: an unknown is never sent again by itself


@dataclass(frozen=True, kw_only=True)
class ProviderProfile:
    """The facts about one provider that `decide` needs, each with its source in docs/."""

    name: str
    request_timeout: timedelta
    max_calls: int  # the most requests one run of the effect can make, one after the other
    max_closing_calls: int = 0  # and after a decline, to close what was prepared, if time is left
    key_ttl: timedelta | None = None  # how long a key is remembered, from the first send
    key_ttl_margin: timedelta = timedelta(hours=1)  # the window is taken to end this much earlier
    max_key_length: int = MAX_IDEMPOTENCY_KEY_LENGTH
    key_scope: str = ""  # within what the key is unique: account, credential, region
    lookup_lag: timedelta | None = None  # how long "not there" may be stale; None: cannot be asked
    facts: tuple[str, ...] = ()  # what the numbers rest on, for docs/providers.md

    @property
    def max_run_time(self) -> timedelta:
        """Every call of the effect, each at its timeout."""
        return self.request_timeout * self.max_calls


@dataclass(frozen=True, kw_only=True)
class RetryLimits:
    """When a job stops trying by itself and a person is asked."""

    max_attempts: int = 8
    max_consecutive_timeouts: int = 5
    max_age: timedelta = timedelta(hours=24)
    review_codes: frozenset[str] = frozenset()  # codes of refusals that are no plain "no"


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """What a contract has agreed to: `decide` reads nothing else about a job type."""

    safety: RetrySafety
    profile: ProviderProfile
    limits: RetryLimits = RetryLimits()
    # Our own rows may rightly change while the effect runs: then the outcome is asked for again
    # and judged by the rows as they are, instead of by a person.
    tolerates_row_changes: bool = False
    # What is prepared stays open at the provider until it is closed; a job fails only after that.
    leaves_open: bool = False


STRIPE: Final = ProviderProfile(
    name="Stripe",
    request_timeout=timedelta(seconds=10),
    # A run: create, the read that verifies what this run did not make, confirm, and the read
    # after an error. A look-up: the intent, and up to three pages of its customer's payments.
    max_calls=4,
    max_closing_calls=2,  # cancel, and the read after an error
    key_ttl=timedelta(hours=24),
    key_scope="account and mode (live or test)",
    lookup_lag=timedelta(0),
    facts=(
        "A key is remembered for at least 24 hours; an hour of that is left unused.",
        "A 500 is stored under its key as well, so a key is left behind once absence is proved.",
        "Reading an intent by its id is consistent; the search index lags, and is not used.",
        "Listing is as fresh as reading: a second payment of the same job is found there.",
        "A key is valid for one account and one mode: another API key may not know it.",
        "Confirming takes a few seconds at worst; ten are waited for the whole answer.",
        "401, 403 and `lock_timeout` on confirm prove nothing: the intent is read after them.",
        "A second payment of a job is looked for in the customer's newest 300, and no further.",
        "A declined intent stays open: only one that is canceled can never take money.",
        "An intent is ours only with our deployment, job key, customer, amount, currency and mode.",
        "An intent that an earlier run made, saved or replayed, is read before it is confirmed.",
        "`amount_to_confirm` pins what a confirmation may charge, whatever the intent says then.",
        "The API key's prefix names its mode; without one, Stripe shows only objects of its mode.",
    ),
)

# Which of the day's quarters the account's midnight is in, nobody tells us: each is tried.
DAILY_LIMIT_RECHECK_INTERVAL: Final = timedelta(hours=6)

HUBSPOT: Final = ProviderProfile(
    name="HubSpot",
    request_timeout=timedelta(seconds=10),
    max_calls=4,  # the update, the upsert after a 404, the read and the update that link a contact
    key_scope="none: HubSpot knows no idempotency keys; a unique property stands for one",
    lookup_lag=timedelta(seconds=10),
    facts=(
        (
            "The API version is v3, named once, in adapters/hubspot_paths.py. HubSpot ends the "
            "support of v1 to v3 in September 2027; newer versions are dates, such as 2026-09."
        ),
        (
            "The id of a contact is a number, and our id is one segment of the path. No request "
            "is sent for any other id, such as “..”: there is no contact to read under it, and "
            "an operator decides about a push."
        ),
        (
            "Keys of private apps begin with “pat-”, service keys do not have to. `oncely doctor` "
            "reads one contact with the key, which needs the scope crm.objects.contacts.read; the "
            "jobs also need crm.objects.contacts.write."
        ),
        "There are no idempotency keys; a unique property of ours takes their place.",
        (
            "That property does not carry the deployment's identity: a deployment that moves must "
            "find its contacts again. Two deployments on one HubSpot account need two properties."
        ),
        "Reading by a unique property sees a write at once; ten seconds are kept as a margin.",
        "The search endpoint lags and ends at 10,000 results: it pages by id, and proves nothing.",
        "429 with Retry-After: the request was not performed.",
        "Each request has a connection of its own, as with SES.",
        (
            "429 with the policy DAILY: nothing is sent until the limit is reset, at midnight in "
            "the account's time zone, which we do not know. A waiting job tries again at 00:00, "
            "06:00, 12:00 and 18:00 UTC. It spends no attempt and does not age, and one alarm is "
            "raised. With the policy SECONDLY it tries again after a second."
        ),
        (
            "409 “Contact already exists. Existing ID: …” wrote nothing. That contact is read by "
            "its id. It is linked if it has the record's email and none of our ids; otherwise an "
            "operator decides, and the review names the id."
        ),
        "413 and 414: the request is too large. It is declined and never sent again.",
        (
            "404 on an update by id wrote nothing: the contact was deleted. The record is then "
            "pushed by our unique id."
        ),
    ),
)

SES: Final = ProviderProfile(
    name="Amazon SES",
    request_timeout=timedelta(seconds=10),
    max_calls=1,
    key_scope="none: SES knows no idempotency keys and cannot be asked",
    facts=(
        "SendEmail has no idempotency token, and no call tells whether a mail went out.",
        "A client with default retries sends a mail up to three times on a dropping connection.",
        "SES's events repeat the tag of a mail: a digest of deployment, job key and claim number.",
        "An error about our account, such as an unverified sender: nothing was sent, one alarm.",
        "SES drops idle connections and a frozen Lambda does not notice: each mail has its own.",
    ),
)
