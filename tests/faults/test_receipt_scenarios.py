"""The explorer finds what receipts would break without the rules for proofs."""

import pytest

from oncely.core.job_row import JobRow
from oncely.reconcile import event_intake
from oncely.testing.explorer import run_schedule
from oncely.testing.schedule import ScriptedChooser
from oncely.testing.script import parse_injections
from tests.faults.test_explorer import BY_NAME

# The email was sent: its worker dies before it records that, or its response is lost.
UNRECORDED = ("w1:jobs.update_item#2!die", "w1:ses.send_email!lost", "w1:ses.send_email!late")
WITH_EVENT = ("", "-late", "-twice", "-bounce", "-forged")


def final_statuses(name: str, script: str) -> list[str]:
    simulation, problems = run_schedule(BY_NAME[name], ScriptedChooser(parse_injections(script)))
    assert problems == []
    return list(simulation.final_statuses())


@pytest.mark.parametrize("script", UNRECORDED)
def test_receipt_that_was_sent_needs_an_operator_only_without_its_event(script: str) -> None:
    assert final_statuses("receipt.send", script) == ["receipt.send needs_review"]
    assert final_statuses("receipt.send/event-lost", script) == ["receipt.send needs_review"]
    for suffix in WITH_EVENT:
        assert final_statuses(f"receipt.send/event{suffix}", script) == ["receipt.send finished"]


def test_forged_event_would_end_a_receipt_that_was_never_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forged, script = (
        BY_NAME["receipt.send/event-forged"],
        parse_injections("w1:ses.send_email!fail"),
    )
    assert run_schedule(forged, ScriptedChooser(script))[1] == []

    def any_claim(job: JobRow, _tag: str, _key: str) -> int:
        return job.fence

    monkeypatch.setattr(event_intake, "claim_of_tag", any_claim)
    assert run_schedule(forged, ScriptedChooser(script))[1]
