"""What decisions rest on: how safe an effect is, what its provider offers, and when to stop."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from oncely.domain.keys import MAX_IDEMPOTENCY_KEY_LENGTH

# Two DynamoDB calls of 4 s at worst (aws/client_config.py): the write that ends a job, and the read
# that tells whether it arrived when its reply did not.
COMMIT_BUDGET: Final = timedelta(seconds=8)


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

    @property
    def max_duration(self) -> timedelta:
        """How long one run may take; with less time left, it is not started."""
        return self.profile.max_run_time + COMMIT_BUDGET
