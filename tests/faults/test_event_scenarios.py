"""Schedules in which events, or concurrent work, once broke something."""

import pytest

from oncely.testing.explorer import run_schedule
from oncely.testing.schedule import ScriptedChooser
from oncely.testing.script import parse_injections
from tests.faults.test_explorer import BY_NAME


@pytest.mark.parametrize(
    ("scenario", "script"),
    [
        # Two copies of an event at the same time: the second entry was counted again.
        (
            "payment.charge/events-dispute",
            (
                "w1:clock>sleep w4:orders.get_item>event0 e1:jobs.get_item>event1 "
                "e2:jobs.update_item>sleep"
            ),
        ),
        # A delayed sweep sees that the refund failed: its amount stayed marked as refunded.
        ("payment.refund/events-returned", "w1:clock#5>sweep r2:clock#4>sleep"),
        # A worker reads its claim back after its lease, when a sweep has moved the row on: it took
        # the row for its own and raised.
        ("payment.charge/keys", "w1:jobs.update_item!lost w1:jobs.get_item>sweep"),
        ("payment.charge/summary", "w1:jobs.update_item!lost w1:jobs.get_item>sleep"),
        ("payment.charge/second-attempt", "w1:end>edit w3:jobs.get_item#2>sweep"),
    ],
)
def test_found_schedule_holds(scenario: str, script: str) -> None:
    chooser = ScriptedChooser(parse_injections(script))
    assert run_schedule(BY_NAME[scenario], chooser)[1] == []
    assert chooser.remaining == 0, "the script meets every place that it names"
