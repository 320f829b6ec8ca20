"""The timeline shows provider events with our own steps: hint, proof, or reported later."""

from typing import Any

from oncely.core.job_row import EventMark, EventRecord
from oncely.core.lifecycle import Status
from oncely.core.text import format_time
from oncely.operate.job_view import build_view
from oncely.operate.verdicts import verdicts
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.mail_events import mail_event
from tests.unit.samples import NOW, make_job
from tests.unit.test_event_proofs import KEY, RECEIPT, receive


def timeline_of(world: InMemoryStack, key: str) -> list[dict[str, Any]]:
    view = world.inspector().get(key)
    assert view is not None
    shown: Any = view.to_json()
    return list(shown["timeline"])


def test_timeline_marks_proof_and_later_reports_beside_steps(world: InMemoryStack) -> None:
    world.add_order(status="paid", charge_id="ch_1")
    world.run(RECEIPT)
    for name in ("Send", "Bounce", "Complaint"):
        world.clock.advance(minutes=1)
        receive(world, mail_event(name, key=KEY))

    lines = timeline_of(world, KEY)

    assert [(line["mark"], line["event_label"]) for line in lines] == [
        (None, "claimed by a worker"),
        (None, "confirmed by the provider"),
        ("proof", "event Send: it was done (proof)"),
        ("report", "event Bounce Permanent (reported later)"),
        ("report", "event Complaint (reported later)"),
    ]
    assert lines[2]["reason"] == "reference mail_1, claim 1"
    assert lines[2]["actor"] == "Amazon SES"


def test_timeline_marks_hint() -> None:
    name = "payment_intent.succeeded"
    event = EventRecord(at=NOW, provider="stripe", name=name, mark=EventMark.HINT, ref="pi_1")
    job = make_job(status=Status.UNKNOWN, provider_events=(event,))
    shown: Any = build_view(job, InMemoryStack().registry, now=NOW).to_json()
    (hint,) = [line for line in shown["timeline"] if line["mark"]]
    assert (hint["mark"], hint["at"]) == ("hint", format_time(NOW))
    assert hint["event_label"] == f"event {name} brought the lookup forward (hint)"


def test_support_sees_bounce_in_headline_and_verdict(world: InMemoryStack) -> None:
    world.run(charge_message())
    world.add_order(status="paid", charge_id="ch_1")
    world.run(RECEIPT)
    receive(world, mail_event("Bounce", key=KEY))
    charge, receipt = (
        build_view(world.job(key), world.registry, now=NOW)
        for key in ("payment.charge:order_18452", KEY)
    )

    assert receipt.headline.endswith("The provider reported later: Bounce Permanent.")
    (verdict,) = verdicts((charge, receipt), at=NOW)
    assert "receipt sent, reported later: Bounce Permanent" in verdict.sentence
