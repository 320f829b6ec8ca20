"""History lines: which changes are recorded, with which fields, and never with free text."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.core.job_row import EvidenceEntry, JobRow, new_job, operator_actor
from oncely.core.lifecycle import Event, Status
from oncely.history.lines import (
    IMAGE,
    MAX_FIELDS,
    MAX_HISTORY_ID_LENGTH,
    UNKNOWN_JOB_TYPE,
    HistoryLine,
    HistoryRecordType,
    backfill_line,
    deduplicate,
    history_line,
    is_newer,
    scalar_fields,
    unreadable_line,
)
from oncely.history.restore import RESTORE_ACTOR, restore_row
from tests.unit.samples import KEY, NOW, claim_row, make_claim, make_entry, make_job

TABLE = "table-1"
LATER = NOW + timedelta(minutes=3)
TOO_LONG = "x" * (MAX_HISTORY_ID_LENGTH + 1)


def line_for(old: JobRow | None, new: JobRow | None, **more: Any) -> HistoryLine | None:  # noqa: ANN401  # as `history_line` takes them
    return history_line(old, new, generation=TABLE, at=LATER, **more)


def recorded_line(old: JobRow | None, new: JobRow | None, **more: Any) -> HistoryLine:  # noqa: ANN401  # the same
    line = line_for(old, new, **more)
    assert line is not None
    return line


def ready_job() -> JobRow:
    sent: Any = {"now": NOW, "due_at": NOW, "actor": "producer", "reason": "sent"}
    return new_job(KEY, "payment.charge", {"order_id": "18452"}, **sent)


def test_first_row_is_recorded_with_its_event() -> None:
    line = recorded_line(None, ready_job())
    assert (line.old_status, line.status, line.event) == (None, "ready", "enqueue")
    assert (line.actor, line.at, line.version, line.generation) == ("producer", NOW, 1, TABLE)


def test_claim_is_recorded_without_evidence_entry() -> None:
    old = ready_job()
    line = recorded_line(old, claim_row(old, make_claim(now=LATER)))
    assert (line.old_status, line.status, line.event) == ("ready", "started", "claim")
    assert (line.actor, line.at, line.image["fence"]) == ("worker", LATER, 1)


def test_restored_claim_is_recorded_as_restore() -> None:
    """The row has the fence of a claim, but this write is none."""
    line = recorded_line(ready_job(), claim_row(ready_job(), make_claim(now=NOW)))

    restored = restore_row(None, line, deployment="ours", now=LATER)

    again = recorded_line(None, restored)
    assert (again.status, again.event, again.actor) == ("unknown", "restore", RESTORE_ACTOR)


def test_ended_job_is_recorded_with_result_and_reference() -> None:
    old = make_job()
    result = {"charge_id": "ch_1", "live": True, "amount": 1200}
    paid: Any = {"result": result, "amount": 1200, "currency": "eur", "subject": "18452"}
    confirm: Any = {"now": LATER, "actor": "worker", "reason": "paid", "provider_ref": "pi_1"}

    line = recorded_line(old, old.apply(Event.CONFIRM, **confirm, **paid))

    assert (line.status, line.event, line.image["provider_ref"]) == ("finished", "confirm", "pi_1")
    assert line.image["result"] == result
    assert (line.image["amount"], line.image["currency"], line.image["subject"], line.left_out) == (
        1200,
        "eur",
        "18452",
        (),
    )
    assert (line.image["fingerprint"], line.image["key_scope"], line.image["key_number"]) == (
        "of the order",
        "live",
        1,
    )


def test_saved_reference_is_recorded_without_new_status() -> None:
    old = make_job()
    saved = {"reason": "saved", "provider_ref": "pi_1"}

    line = recorded_line(old, old.apply(Event.CHECKPOINT, now=LATER, actor="worker", **saved))

    assert (line.status, line.old_status, line.event) == ("started", "started", "checkpoint")
    assert line.image["provider_ref"] == "pi_1"


@pytest.mark.parametrize("event", [Event.NOTE, Event.RECHECK])
def test_change_without_new_status_or_reference_is_not_recorded(event: Event) -> None:
    old = make_job(status=Status.UNKNOWN, provider_ref="pi_1")
    assert line_for(old, old.apply(event, now=LATER, actor="reconciler", reason="later")) is None


def test_operator_note_is_recorded_without_its_text() -> None:
    old = make_job()
    note = {"actor": operator_actor("ada"), "reason": "Called the customer"}

    line = recorded_line(old, old.apply(Event.NOTE, now=LATER, **note))

    assert (line.event, line.actor, line.status) == ("note", "operator:ada", "started")
    assert "Called" not in json.dumps(line.to_dict())


def test_repeated_operator_note_is_recorded() -> None:
    note = make_entry(event=Event.NOTE, actor=operator_actor("ada"))
    old = make_job(evidence=(note,))
    new = replace(old, evidence=(replace(note, count=2, last_at=LATER),), version=old.version + 1)
    assert recorded_line(old, new).actor == "operator:ada"


def test_write_without_change_is_not_recorded() -> None:
    assert line_for(make_job(), make_job()) is None
    assert line_for(None, None) is None


@pytest.mark.parametrize(("expired", "record"), [(True, "expired"), (False, "deleted")])
def test_removed_row_is_recorded_as_its_own_version(*, expired: bool, record: str) -> None:
    line = recorded_line(make_job(status=Status.FINISHED, version=4), None, expired=expired)
    assert (line.record, line.status, line.old_status) == (record, None, "finished")
    assert (line.version, line.at) == (5, LATER)


def test_backfill_records_row_and_its_last_actor() -> None:
    ended = make_job().apply(Event.CONFIRM, now=LATER, actor="worker", reason="paid")
    line = backfill_line(ended, generation=TABLE)
    assert (line.record, line.status, line.old_status) == ("backfill", "finished", None)
    assert (line.event, line.actor, line.at) == ("confirm", "worker", LATER)


def test_backfill_names_no_event_older_than_row() -> None:
    row = make_job(evidence=(make_entry(at=NOW),), updated_at=LATER)
    line = backfill_line(row, generation=TABLE)
    assert (line.event, line.actor) == (None, None)


def test_unreadable_row_is_recorded_by_key() -> None:
    line = unreadable_line(KEY, generation=TABLE, at=NOW, version=None)
    assert (line.record, line.job_key, line.job_type) == ("unreadable", KEY, "payment.charge")


@pytest.mark.parametrize("key", ["", "no colon", "../up:1", "Ä.b:1"])
def test_job_type_of_broken_key_is_unknown(key: str) -> None:
    assert unreadable_line(key, generation=TABLE, at=NOW, version=3).job_type == UNKNOWN_JOB_TYPE


def test_repeated_lines_are_merged_and_change_beats_backfill() -> None:
    old = make_job()
    new = old.apply(Event.CONFIRM, now=LATER, actor="worker", reason="paid")
    change = recorded_line(old, new)
    scanned = backfill_line(new, generation=TABLE)

    assert deduplicate([scanned, change, change, scanned]) == [change]


def test_lines_of_other_generation_version_or_row_are_kept() -> None:
    line = backfill_line(make_job(), generation=TABLE)
    changes: list[Any] = [{"generation": "table-2"}, {"version": 7}, {"created_at": LATER}]
    others = [replace(line, **change) for change in changes]
    assert deduplicate([line, *others]) == [line, *others]


def test_newest_line_has_newest_row_then_version() -> None:
    line = backfill_line(make_job(version=9), generation=TABLE)

    assert is_newer(line, None)
    assert is_newer(replace(line, version=10), line)
    assert is_newer(replace(line, created_at=LATER, version=1), line)
    assert is_newer(replace(line, record=HistoryRecordType.CHANGE), line)
    assert not is_newer(line, line)


def test_partial_message_and_result_are_marked() -> None:
    job = make_job(message={"id": "1", "record": {"name": "Ada"}}, result={"text": "Hello Ada"})
    line = backfill_line(job, generation=TABLE)
    assert (line.image["message"], line.image["result"]) == ({"id": "1"}, {})
    assert line.left_out == ("message", "result")


@pytest.mark.parametrize(
    "value", ["two words", "ada@example.com", TOO_LONG, {}, [], 2**63, float("nan"), "Größe"]
)
def test_values_other_than_ids_codes_and_numbers_are_left_out(value: object) -> None:
    assert scalar_fields({"field": value}) == {}


@pytest.mark.parametrize(
    "value", ["", "order_18452", "2026-11-16T03:00:00+01:00", "a/b=", 5, 1.5, None, True]
)
def test_ids_codes_times_and_numbers_are_kept(value: object) -> None:
    assert scalar_fields({"field": value}) == {"field": value}


def test_field_count_and_field_names_are_limited() -> None:
    kept = scalar_fields({f"field_{number}": number for number in range(MAX_FIELDS + 1)})
    assert len(kept) == MAX_FIELDS
    assert scalar_fields({"free text": 1}) == {}


@pytest.mark.parametrize("amount", [2**63, -(2**63)])
def test_number_that_readers_cannot_hold_is_left_out(amount: int) -> None:
    assert "amount" not in backfill_line(make_job(amount=amount), generation=TABLE).image
    whole = backfill_line(make_job(amount=amount // 2), generation=TABLE)
    assert whole.image["amount"] == amount // 2


def test_image_holds_only_listed_attributes() -> None:
    """A new attribute of the row may name a person: whoever lists it decides how it appears."""
    line = backfill_line(make_job(last_error="Ada", progress={"name": "Ada"}), generation=TABLE)
    assert line.image.keys() <= IMAGE.keys()
    assert {"last_error", "progress", "evidence", "owner"}.isdisjoint(line.to_dict())


def test_too_long_id_is_left_out() -> None:
    assert (
        "provider_ref" not in backfill_line(make_job(provider_ref=TOO_LONG), generation=TABLE).image
    )


SECRET = "Ada Lovelace"
TEXTS = st.text(max_size=20).map(lambda text: f"{text} {SECRET} {text}")
NESTED = st.recursive(
    TEXTS | st.integers(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=5,
)
DOCUMENTS = st.dictionaries(st.sampled_from(["note", "record", "name"]) | TEXTS, NESTED)
ENTRIES = st.builds(
    EvidenceEntry,
    at=st.sampled_from([NOW, LATER]),
    event=st.sampled_from(Event) | TEXTS,
    from_status=st.none() | st.sampled_from(Status) | TEXTS,
    to_status=st.sampled_from(Status) | TEXTS,
    reason=TEXTS,
    actor=st.sampled_from(["worker", operator_actor("ada")]),
)
ROWS = st.builds(
    make_job,
    status=st.sampled_from(Status),
    version=st.integers(1, 9),
    fence=st.integers(0, 2),
    updated_at=st.sampled_from([NOW, LATER]),
    message=DOCUMENTS,
    result=st.none() | DOCUMENTS,
    closing=st.none() | DOCUMENTS,
    progress=st.none() | DOCUMENTS,
    last_error=st.none() | TEXTS,
    provider_ref=st.none() | st.just("pi_1"),
    evidence=st.lists(ENTRIES, max_size=3).map(tuple),
)
LINES = st.one_of(
    st.builds(line_for, st.none() | ROWS, st.none() | ROWS, expired=st.booleans()),
    st.builds(backfill_line, ROWS, generation=st.just(TABLE)),
).filter(lambda line: line is not None)


@given(line=LINES)
def test_line_contains_no_free_text_of_row(line: HistoryLine) -> None:
    assert SECRET not in json.dumps(line.to_dict(), ensure_ascii=False)


@given(line=LINES)
def test_line_survives_json(line: HistoryLine) -> None:
    assert HistoryLine.from_dict(json.loads(json.dumps(line.to_dict()))) == line


def test_unknown_fields_of_newer_version_are_ignored() -> None:
    line = backfill_line(make_job(), generation=TABLE)
    assert HistoryLine.from_dict({**line.to_dict(), "new_field": 1}) == line
