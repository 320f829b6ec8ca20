"""What each provider offers, as docs/providers.md states it."""

from datetime import timedelta

import pytest

from oncely.core.profiles import ProviderProfile, RetryLimits
from oncely.providers.hubspot.plugin import PROFILE as HUBSPOT
from oncely.providers.ses.plugin import PROFILE as SES
from oncely.providers.stripe.plugin import PROFILE as STRIPE


@pytest.mark.parametrize(
    ("profile", "longest_run", "key_window", "lookup_lag"),
    [
        (STRIPE, 40, timedelta(hours=24), timedelta(0)),
        (HUBSPOT, 40, None, timedelta(seconds=10)),
        (SES, 10, None, None),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_profile_states_provider_time_limits(
    profile: ProviderProfile,
    longest_run: int,
    key_window: timedelta | None,
    lookup_lag: timedelta | None,
) -> None:
    assert profile.max_run_time == timedelta(seconds=longest_run)
    assert profile.request_timeout == timedelta(seconds=10)
    assert (profile.key_ttl, profile.lookup_lag) == (key_window, lookup_lag)
    assert profile.key_ttl_margin == timedelta(hours=1)


def test_default_stop_rules_limit_age_attempts_and_timeouts() -> None:
    stop = RetryLimits()

    assert (stop.max_age, stop.max_attempts, stop.max_consecutive_timeouts) == (
        timedelta(days=1),
        8,
        5,
    )
