"""Asking what became of an effect: whatever goes wrong is an answer, and nothing is changed."""

import pytest

from oncely.contract import Call, Mismatch, Proceed, Settled
from oncely.domain.answers import Absent, Answer, Done, Odd, Unreachable
from oncely.domain.fingerprint import fingerprint
from oncely.ports import TableOpen
from oncely.services.asking import Heard, heard_about
from tests.unit.errand_contract import FACTS, MESSAGE, READY_TO_GO, Errand, errand, raising
from tests.unit.samples import a_job

TABLE = TableOpen(deployment=None)
ROW = a_job(fingerprint=fingerprint(READY_TO_GO.values))


@pytest.mark.parametrize(
    ("contract", "heard"),
    [
        pytest.param(errand(), Heard(Done("was run"), FACTS), id="answered"),
        pytest.param(
            errand(checks=raising(OSError("no table"))),
            Heard(Unreachable("our own rows could not be read: OSError: no table")),
            id="rows unreadable",
        ),
        pytest.param(
            errand(checks=lambda: Mismatch("another errand")),
            Heard(Odd("another errand")),
            id="mismatch",
        ),
        pytest.param(
            errand(checks=lambda: Settled(answer=Done("run before"))),
            Heard(Odd("our own rows do not tell any more what was asked for")),
            id="no facts",
        ),
        pytest.param(
            errand(asks=raising(OSError("no network"))),
            Heard(Unreachable("asking ended in OSError: no network"), FACTS),
            id="provider unreachable",
        ),
        pytest.param(
            errand(checks=lambda: Settled(answer=Done("x"), facts=FACTS)),
            Heard(Done("was run"), FACTS),
            id="no values to compare",
        ),
        pytest.param(
            errand(checks=lambda: Proceed(facts=FACTS, values={"to": "the post office"})),
            Heard(
                Odd("was run; but the business values changed since a worker first claimed it"),
                FACTS,
            ),
            id="other values",
        ),
    ],
)
def test_lookup_always_returns_outcome(contract: Errand, heard: Heard) -> None:
    assert heard_about(ROW, contract, MESSAGE, TABLE) == heard


def test_lookup_gets_row_facts_and_key_length() -> None:
    asked: list[tuple[object, ...]] = []

    def asks(call: Call[str]) -> Answer:
        asked.append((call.job, call.facts, call.key_length))
        return Absent("none")

    contract = errand(asks=asks)
    heard_about(ROW, contract, MESSAGE, TABLE)

    assert asked == [(ROW, FACTS, contract.terms.profile.key_length)]
