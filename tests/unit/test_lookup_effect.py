"""Looking up an effect: every error is an outcome, and nothing is changed."""

from typing import Any

import pytest

from oncely.core.ask_and_record import LookupResult, lookup_effect
from oncely.core.effect_outcomes import (
    Anomalous,
    LookupFailed,
    LookupOutcome,
    NotFound,
    NotSent,
    Succeeded,
)
from oncely.core.job_type import (
    AlreadyResolved,
    Call,
    Mismatch,
    Proceed,
)
from oncely.core.keys import fingerprint
from oncely.core.table_guard import TableOpen
from tests.unit.errand_job import FACTS, PROCEED, Errand, make_errand, raising_step
from tests.unit.samples import make_job

TABLE = TableOpen(deployment=None)
ROW = make_job(fingerprint=fingerprint(PROCEED.values))


@pytest.mark.parametrize(
    ("contract", "expected"),
    [
        pytest.param(make_errand(), LookupResult(Succeeded("was run"), FACTS), id="answered"),
        pytest.param(
            make_errand(checks=raising_step(OSError("no table"))),
            LookupResult(LookupFailed("the business rows could not be read: OSError: no table")),
            id="rows unreadable",
        ),
        pytest.param(
            make_errand(checks=lambda: Mismatch("another errand")),
            LookupResult(Anomalous("another errand")),
            id="mismatch",
        ),
        pytest.param(
            make_errand(checks=lambda: AlreadyResolved(outcome=Succeeded("run before"))),
            LookupResult(Anomalous("the business rows no longer say what the job should do")),
            id="no facts",
        ),
        pytest.param(
            make_errand(asks=raising_step(OSError("no network"))),
            LookupResult(LookupFailed("the lookup failed with OSError: no network"), FACTS),
            id="provider unreachable",
        ),
        pytest.param(
            make_errand(checks=lambda: AlreadyResolved(outcome=Succeeded("x"), facts=FACTS)),
            LookupResult(Succeeded("was run"), FACTS),
            id="no values to compare",
        ),
        pytest.param(
            make_errand(checks=lambda: Proceed(facts=FACTS, values={"to": "the post office"})),
            LookupResult(
                Anomalous(
                    "was run; but the business values changed since a worker first claimed it"
                ),
                FACTS,
            ),
            id="other values",
        ),
    ],
)
def test_lookup_always_returns_outcome(contract: Errand, expected: LookupResult) -> None:
    assert lookup_effect(ROW, contract, TABLE) == expected


def test_answer_that_no_lookup_can_give_is_a_failed_lookup() -> None:
    """Authors need not check types. Without an outcome, the job would never reach its limits."""
    answer: Any = NotSent("refused")
    outcome = lookup_effect(ROW, make_errand(asks=lambda _: answer), TABLE).outcome
    reason = "the lookup failed with TypeError: a lookup cannot answer NotSent"
    assert outcome == LookupFailed(reason)


def test_lookup_gets_row_facts_and_key_length() -> None:
    asked: list[tuple[object, ...]] = []

    def asks(call: Call[str]) -> LookupOutcome:
        asked.append((call.row, call.facts, call.max_key_length))
        return NotFound("none")

    contract = make_errand(asks=asks)
    lookup_effect(ROW, contract, TABLE)

    assert asked == [(ROW, FACTS, contract.policy.profile.max_key_length)]
