"""Every situation of `decide`, with each limit just before it and exactly at it."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Final, TypeVar

from oncely.core.decide import decide_effect, decide_lookup, on_lease_expired
from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    InProgress,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    NotSent,
    Pending,
    ProviderState,
    StillOpen,
    Succeeded,
)
from oncely.core.job_row import Decision, JobRow
from oncely.core.lifecycle import Status
from oncely.core.profiles import RetryLimits, RetryPolicy, RetrySafety
from tests.unit.samples import NOW, PROFILE, TICK, make_job

STOP: Final = RetryLimits(max_age=timedelta(hours=48))
CONCLUSIVE_NOT_FOUND: Final = NotFound("nothing was prepared", conclusive=True)
NOT_CLOSED: Final = NotSent("our key is refused", credentials_rejected=True)
EFFECT_OUTCOMES: Final[tuple[EffectOutcome, ...]] = (
    Succeeded("charged", "pi_1", {"charge_id": "ch_1"}),
    Succeeded("set", None, {}),
    Declined("declined", "card_declined", {"request_id": "req_1"}),
    StillOpen("declined, and open", "card_declined", {"request_id": "req_1"}),
    StillOpen("declined, and open", "card_declined", {}, NOT_CLOSED),
    NotSent("connection refused"),
    NotSent("our key is refused", timedelta(minutes=2), credentials_rejected=True),
    Ambiguous("timeout"),
    InProgress("320 of 1,000"),
    Pending("the bank is thinking"),
    Anomalous("two were found", "pi_1", {"charge_id": "ch_1"}),
    Anomalous("it was refunded"),
)
LOOKUP_OUTCOMES: Final[tuple[LookupOutcome, ...]] = (
    *(one for one in EFFECT_OUTCOMES if isinstance(one, ProviderState)),
    NotFound("there is none"),
    CONCLUSIVE_NOT_FOUND,
    LookupFailed("the provider is down"),
    LookupUnsupported(),
)
# What happens to a job of each status, and what it can bring. None is the end of a lease.
OUTCOMES_BY_STATUS: Final[Mapping[Status, tuple[EffectOutcome | LookupOutcome | None, ...]]] = {
    Status.STARTED: (*EFFECT_OUTCOMES, None),
    Status.UNKNOWN: LOOKUP_OUTCOMES,
}

_Outcome = TypeVar("_Outcome", bound=EffectOutcome | LookupOutcome)


def decide_any(
    job: JobRow,
    policy: RetryPolicy,
    outcome: EffectOutcome | LookupOutcome | None,
    *,
    now: datetime,
    key_scope: str = "",
    jitter: float = 0.0,
) -> Decision:
    """The decision by the job's status: an owner has an effect's outcome, a sweep a lookup's."""
    if outcome is None:
        return on_lease_expired(job, policy, now=now, jitter=jitter)
    if job.status is Status.STARTED:
        assert isinstance(outcome, EffectOutcome)
        return decide_effect(job, policy, outcome, now=now, jitter=jitter)
    assert isinstance(outcome, LookupOutcome)
    return decide_lookup(job, policy, outcome, now=now, key_scope=key_scope, jitter=jitter)


@dataclass(frozen=True)
class DecisionCase:
    """One situation. `after` is the job after the decision."""

    status: Status
    outcome: EffectOutcome | LookupOutcome | None
    safety: RetrySafety
    inside_window: bool
    same_scope: bool
    absence_conclusive: bool  # no send can follow, so "not found" is proof
    last_timeout: bool  # the limit of timeouts is reached
    last_attempt: bool  # the limit of attempts is reached
    too_old: bool
    key_answered: bool  # no earlier request can still arrive under the key

    @cached_property
    def job(self) -> JobRow:
        # The window ends an hour early, and a whole run must fit before that.
        first_sent = NOW + PROFILE.max_run_time - timedelta(hours=23)
        lease = NOW - PROFILE.request_timeout - timedelta(seconds=30)
        return make_job(
            status=self.status,
            created_at=NOW - STOP.max_age + (timedelta(0) if self.too_old else TICK),
            first_sent_at=first_sent + (TICK if self.inside_window else timedelta(0)),
            lease_until=lease + (timedelta(0) if self.absence_conclusive else TICK),
            timeouts=STOP.max_consecutive_timeouts - (0 if self.last_timeout else 1),
            attempts=STOP.max_attempts - (0 if self.last_attempt else 1),
            key_answered=self.key_answered,
            provider_ref="pi_0",
            expires_at=NOW + timedelta(days=90),
        )

    @cached_property
    def decision(self) -> Decision:
        policy = RetryPolicy(safety=self.safety, profile=PROFILE, limits=STOP)
        scope = "live" if self.same_scope else "test"
        return decide_any(self.job, policy, self.outcome, now=NOW, key_scope=scope)

    @cached_property
    def after(self) -> JobRow:
        return self.decision.apply_to(self.job, now=NOW, actor="worker")


@cache
def _grid() -> tuple[DecisionCase, ...]:
    questions = len(fields(DecisionCase)) - 3
    return tuple(
        DecisionCase(status, outcome, safety, *yes)
        for status in (Status.STARTED, Status.UNKNOWN)
        for outcome in OUTCOMES_BY_STATUS[status]
        for safety in RetrySafety
        for yes in itertools.product((True, False), repeat=questions)
    )


def decision_cases(
    status: Status | None = None, safety: RetrySafety | None = None
) -> Iterator[DecisionCase]:
    for case in _grid():
        if status in {None, case.status} and safety in {None, case.safety}:
            yield case


def cases_with_outcome(
    outcome_type: type[_Outcome], status: Status | None = None
) -> Iterator[tuple[DecisionCase, _Outcome]]:
    for case in decision_cases(status):
        if isinstance(case.outcome, outcome_type):
            yield case, case.outcome
