"""What a contract does that its author did not say."""

import pytest

from oncely.contract import AnyContract
from oncely.contracts.payment_charge import PaymentCharge
from oncely.contracts.receipt_send import ReceiptSend
from oncely.domain.answers import Done, Refused
from oncely.domain.lifecycle import Event
from oncely.domain.writes import LocalWrite
from tests.unit.errand_contract import FACTS, KEY, MESSAGE, Errand, errand
from tests.unit.samples import a_job

BROUGHT = LocalWrite(table="errands", key={"id": "7"}, set={"page": 3})
BY_SUCCESS = LocalWrite(table="errands", key={"id": "7"}, set={"run": True})
BY_FAILURE = LocalWrite(table="errands", key={"id": "7"}, set={"run": False})


def test_minimal_contract_has_no_follow_ups_and_key_as_window() -> None:
    plain = errand()

    assert (plain.follow_ups(a_job()), list(plain.unserved(now=a_job().created_at))) == ((), [])
    assert Errand.window_name(MESSAGE) == KEY
    assert (Errand.subject(MESSAGE), Errand.another_attempt(MESSAGE)) == (None, None)
    assert list(Errand.keys_of("7")) == []
    assert Errand.done_words(a_job()) == "Done: it is run."
    assert plain.scope() == ""


@pytest.mark.parametrize(
    ("contract", "looks"), [(PaymentCharge, True), (ReceiptSend, False), (Errand, False)]
)
def test_contract_detects_missing_jobs_only_if_implemented(
    contract: type[AnyContract], *, looks: bool
) -> None:
    assert contract.looks_for_unserved() is looks


@pytest.mark.parametrize(
    ("event", "writes"),
    [
        (Event.CONFIRM, (BY_SUCCESS, BROUGHT)),
        (Event.RULE_FINISHED, (BY_SUCCESS, BROUGHT)),
        (Event.REFUSE, (BY_FAILURE,)),
        (Event.RULE_FAILED, (BY_FAILURE,)),
        (Event.ESCALATE, ()),
        (Event.LOSE, ()),
    ],
)
def test_business_writes_follow_only_ended_jobs(
    event: Event, writes: tuple[LocalWrite, ...]
) -> None:
    contract = errand(
        on_success=lambda *_: (BY_SUCCESS,),
        on_failure=lambda *_: (BY_FAILURE,),
    )
    answer = Done("run", writes=(BROUGHT,))

    assert contract.local_writes(event, FACTS, a_job(), answer) == writes
    without = tuple(write for write in writes if write is not BROUGHT)
    assert contract.local_writes(event, FACTS, a_job(), Refused("no", "no")) == without
