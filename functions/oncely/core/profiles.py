"""What decisions depend on: retry safety, the provider's profile with its rates, and limits."""

import math
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from oncely.core.keys import MAX_IDEMPOTENCY_KEY_LENGTH

# Two DynamoDB calls of 4 s at worst (aws/client_config.py): the write that ends a job, and the read
# that tells whether it arrived when its reply did not.
COMMIT_BUDGET: Final = timedelta(seconds=8)
# Requests per second. One item of a table can lease no more slots than the highest.
MIN_RATE: Final = 0.001
MAX_RATE: Final = 10_000.0


class RetrySafety(StrEnum):
    """Whether it is safe to send the same effect twice."""

    NATURAL = "natural"  # a set or an upsert: a repeat changes nothing
    KEYED = "keyed"  # the provider deduplicates on our key, for a time
    LOOKUP = "lookup"  # no key, but the provider can look it up
    AT_MOST_ONCE = "at_most_once"  # neither: never resent automatically


class EndpointGroup(StrEnum):
    """The requests that share a gate. The values are stored."""

    EFFECTS = "effects"
    LOOKUPS = "lookups"


def check_rate(per_second: float) -> float:
    """Return the rate if it is valid; infinity means no limit. Raises ValueError."""
    if per_second != math.inf and not MIN_RATE <= per_second <= MAX_RATE:
        raise ValueError(f"a rate is from {MIN_RATE:g} to {MAX_RATE:g} a second, or inf for none")
    return per_second


@dataclass(frozen=True, kw_only=True)
class ProviderProfile:
    """The numbers of a provider that decisions need; docs/providers.md has their sources."""

    name: str
    request_timeout: timedelta
    max_calls: int  # requests of one run, one after the other
    max_closing_calls: int = 0  # requests after a decline, to close what was prepared
    key_ttl: timedelta | None = None  # how long a key is remembered after the first send
    key_ttl_margin: timedelta = timedelta(hours=1)  # left unused at the end of the window
    max_key_length: int = MAX_IDEMPOTENCY_KEY_LENGTH
    key_scope: str = ""  # where the key is unique: account, credential, region
    lookup_lag: timedelta | None = None  # how stale a lookup may be; None if there is no lookup
    # Requests that it accepts, at each endpoint if its client names them. None for no limit. A
    # stage may set others.
    effects_per_second: float | None = None
    lookups_per_second: float | None = None

    def __post_init__(self) -> None:
        for rate in (self.effects_per_second, self.lookups_per_second):
            check_rate(math.inf if rate is None else rate)

    @property
    def max_run_time(self) -> timedelta:
        """Every call of the effect at its timeout."""
        return self.request_timeout * self.max_calls


@dataclass(frozen=True, kw_only=True)
class RetryLimits:
    """When a job stops retrying and goes to review."""

    max_attempts: int = 8
    max_consecutive_timeouts: int = 5
    max_age: timedelta = timedelta(hours=24)
    # How long a provider may process an effect that has no limit of its own. Bank debits take days.
    max_processing_time: timedelta = timedelta(days=14)
    grace_period: timedelta = timedelta(minutes=15)  # how long it waits for its business rows


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Everything that decisions read about a job type."""

    safety: RetrySafety
    profile: ProviderProfile
    limits: RetryLimits = RetryLimits()
    # Business rows may change while the effect runs. The outcome is then looked up again and
    # recorded by the rows as they are, instead of going to review.
    tolerates_row_changes: bool = False
    # The effect may fail days after it succeeded, as a refund that the bank returns.
    may_fail_later: bool = False
    # What is prepared stays open at the provider until it is closed; only then may the job fail.
    leaves_open: bool = False
    # What a lookup does not find goes to review until one has found an effect of this job type in
    # this deployment: a wrong path finds nothing either.
    must_prove_lookup: bool = False

    @property
    def can_look_up(self) -> bool:
        """Whether the provider has a lookup."""
        asks = self.safety in {RetrySafety.KEYED, RetrySafety.LOOKUP}
        return asks and self.profile.lookup_lag is not None

    @property
    def max_duration(self) -> timedelta:
        """How long one run may take. With less time left, it is not started."""
        return self.profile.max_run_time + COMMIT_BUDGET
