"""Whether a write of ours arrived, though its reply did not: the row tells."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.jobs import Job, is_our_write
from oncely.domain.lifecycle import Event, Status
from tests.unit.samples import NOW, make_job

BEFORE = make_job(version=1)
WRITE = BEFORE.apply(
    Event.CONFIRM, now=NOW, actor="worker", reason="charged", provider_ref="pi_1", due_at=NOW
)
NOTE = BEFORE.apply(Event.NOTE, now=NOW, actor="worker", reason="a late worker reports")
LATER = NOW + timedelta(minutes=1)


def _add_note(job: Job, reason: str = "another late worker") -> Job:
    return job.apply(Event.NOTE, now=LATER, actor="worker", reason=reason)


@pytest.mark.parametrize(
    ("row", "arrived"),
    [
        pytest.param(WRITE, True, id="the row is what we wrote"),
        pytest.param(_add_note(WRITE), True, id="it arrived, and someone left evidence since"),
        pytest.param(_add_note(_add_note(WRITE), "once more"), True, id="twice"),
        pytest.param(BEFORE, False, id="the row is what it was before"),
        pytest.param(_add_note(BEFORE), False, id="someone left evidence instead"),
        pytest.param(_add_note(_add_note(BEFORE), "once more"), False, id="and once more"),
        pytest.param(replace(WRITE, owner="owner-9"), False, id="another owner"),
        pytest.param(replace(WRITE, version=1), False, id="another write of that version"),
        pytest.param(
            BEFORE.apply(Event.MARK_UNKNOWN, now=NOW, actor="reconciler", reason="lease over"),
            False,
            id="someone else moved the row",
        ),
        pytest.param(
            replace(WRITE, provider_ref="pi_2", version=5), False, id="with another reference"
        ),
        pytest.param(
            replace(WRITE, status=Status.NEEDS_REVIEW, version=3), False, id="and moved on since"
        ),
    ],
)
def test_write_is_ours_if_all_its_changes_stand(row: Job, *, arrived: bool) -> None:
    assert is_our_write(row, before=BEFORE, write=WRITE) is arrived


@pytest.mark.parametrize(
    ("row", "arrived"),
    [
        pytest.param(NOTE, True, id="the row is what we wrote"),
        pytest.param(_add_note(NOTE), True, id="it arrived, and someone left evidence since"),
        pytest.param(_add_note(BEFORE), False, id="someone else's note stands, and not ours"),
        pytest.param(BEFORE, False, id="the row is what it was before"),
    ],
)
def test_note_is_ours_if_its_entry_stands(row: Job, *, arrived: bool) -> None:
    assert is_our_write(row, before=BEFORE, write=NOTE) is arrived


def test_version_only_write_is_ours_if_row_is_equal() -> None:
    write = replace(BEFORE, version=2)
    assert is_our_write(write, before=BEFORE, write=write)
    assert not is_our_write(replace(write, timeouts=1), before=BEFORE, write=write)
