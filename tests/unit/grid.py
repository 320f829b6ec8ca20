"""Every situation that `decide` can meet, each limit just before it and exactly at it."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cache, cached_property
from typing import Final, TypeVar

from oncely.domain.answers import (
    Absent,
    Answer,
    CannotAsk,
    Done,
    NotSent,
    Odd,
    OwnerGone,
    Processing,
    Refused,
    StillOpen,
    Unclear,
    Unfinished,
    Unreachable,
)
from oncely.domain.decide import decide
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Status
from oncely.domain.moves import Decision
from oncely.domain.profiles import Safety, StopRules, Terms
from tests.unit.samples import NOW, PROFILE, TICK, a_job

FRAUD: Final = "fraudulent"
STOP: Final = StopRules(age=timedelta(hours=48), person_looks_at=frozenset({FRAUD}))
PROVED: Final = Absent("nothing was prepared", proved=True)
ANSWERS: Final[tuple[Answer, ...]] = (
    Done("charged", "pi_1", {"charge_id": "ch_1"}),
    Done("set", None, {}),
    Refused("declined", "card_declined", {"request_id": "req_1"}),
    Refused("stolen card", FRAUD, {"request_id": "req_1"}),
    StillOpen("declined, and open", "card_declined", {"request_id": "req_1"}),
    StillOpen("declined, and open", "card_declined", {}, NotSent("our key is refused", alarm=True)),
    NotSent("connection refused"),
    NotSent("our key is refused", timedelta(minutes=2), alarm=True),
    Unclear("timeout"),
    Unfinished("320 of 1,000"),
    Processing("the bank is thinking"),
    Odd("two were found", "pi_1", {"charge_id": "ch_1"}),
    Odd("it was refunded"),
    OwnerGone(),
    Absent("there is none"),
    PROVED,
    Unreachable("the provider is down"),
    CannotAsk(),
)

_Kind = TypeVar("_Kind", bound=Answer)


@dataclass(frozen=True)
class Case:
    """One situation; `after` is the job that the decision makes of it."""

    status: Status
    answer: Answer
    safety: Safety
    inside_window: bool
    same_scope: bool
    seen_through: bool  # the last possible send has been: "not there" counts
    last_timeout: bool  # the limit of timeouts is reached
    last_attempt: bool  # the limit of attempts is reached
    too_old: bool

    @cached_property
    def job(self) -> Job:
        # The window ends an hour early, and a whole run must fit before that.
        first_sent = NOW + PROFILE.longest_run - timedelta(hours=23)
        lease = NOW - PROFILE.request_timeout - timedelta(seconds=30)
        return a_job(
            status=self.status,
            created_at=NOW - STOP.age + (timedelta(0) if self.too_old else TICK),
            first_sent_at=first_sent + (TICK if self.inside_window else timedelta(0)),
            lease_until=lease + (timedelta(0) if self.seen_through else TICK),
            timeouts=STOP.timeouts_in_a_row - (0 if self.last_timeout else 1),
            attempts=STOP.attempts - (0 if self.last_attempt else 1),
            provider_ref="pi_0",
            expires_at=NOW + timedelta(days=90),
        )

    @cached_property
    def decision(self) -> Decision:
        terms = Terms(safety=self.safety, profile=PROFILE, stop=STOP)
        scope = "live" if self.same_scope else "test"
        return decide(self.job, terms, self.answer, now=NOW, scope=scope)

    @cached_property
    def after(self) -> Job:
        return self.decision.on(self.job, now=NOW, actor="worker")


@cache
def _grid() -> tuple[Case, ...]:
    questions = len(fields(Case)) - 3
    return tuple(
        Case(status, answer, safety, *yes)
        for status in (Status.STARTED, Status.UNKNOWN)
        for answer in ANSWERS
        for safety in Safety
        for yes in itertools.product((True, False), repeat=questions)
    )


def cases(status: Status | None = None, safety: Safety | None = None) -> Iterator[Case]:
    """The grid, or the part of it in which this is so."""
    for case in _grid():
        if status in {None, case.status} and safety in {None, case.safety}:
            yield case


def answered(kind: type[_Kind], status: Status | None = None) -> Iterator[tuple[Case, _Kind]]:
    """The part of the grid that is about one kind of answer."""
    for case in cases(status):
        if isinstance(case.answer, kind):
            yield case, case.answer
