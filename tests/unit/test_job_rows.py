"""How a job is stored in its row: complete, readable, and sorted by time."""

import json
import re
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.core.errors import UnreadableRowError
from oncely.core.job_row import ENGINE_NUMBER, EventMark, EventRecord, EvidenceEntry, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.row_items import (
    DUE,
    deserialize_job,
    deserialize_row,
    serialize,
    serialize_field,
    serialize_job,
)
from oncely.core.text import truncate_to_milliseconds
from oncely.operate.job_view import describe_event
from tests.unit.samples import NOW, make_entry, make_job

ZONES = st.sampled_from(
    [UTC, timezone(timedelta(hours=5, minutes=45)), timezone(-timedelta(hours=8))]
)
TIMES = st.datetimes(datetime(1970, 1, 2), datetime(9998, 1, 1), timezones=ZONES).map(  # noqa: DTZ001  # hypothesis adds the zone
    truncate_to_milliseconds
)
SECONDS = TIMES.map(lambda at: at.replace(microsecond=0))
COUNTS = st.integers(0, 10**9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=3)
ENTRIES = st.builds(
    EvidenceEntry,
    at=TIMES,
    event=st.sampled_from(Event),
    from_status=st.none() | st.sampled_from(Status),
    to_status=st.sampled_from(Status),
    reason=st.text(),
    actor=st.text(),
) | st.builds(make_entry, count=st.integers(2, 10**6), last_at=TIMES)
EVENTS = st.builds(
    EventRecord,
    at=TIMES,
    provider=st.text(),
    name=st.text(),
    mark=st.sampled_from(EventMark),
    fence=st.none() | COUNTS,
    ref=st.none() | st.text(),
    code=st.none() | st.text(),
)
MAYBE_TIMES = st.none() | TIMES
MAYBE_TEXT = st.none() | st.text()
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "job_key": st.text(min_size=1).map(JobKey),
    "job_type": st.text(),
    "status": st.sampled_from(Status),
    **dict.fromkeys(("created_at", "updated_at"), TIMES),
    **dict.fromkeys(("fence", "version", "attempts", "key_number"), COUNTS),
    **dict.fromkeys(("timeouts", "unreachable"), COUNTS),
    "min_engine": st.integers(1, ENGINE_NUMBER),
    **dict.fromkeys(("first_sent_at", "claimed_at", "lease_until", "due_at"), MAYBE_TIMES),
    **dict.fromkeys(("since", "age_from", "erasure_requested_at"), MAYBE_TIMES),
    "run_at": MAYBE_TIMES,
    **dict.fromkeys(("owner", "key_scope", "deployment", "fingerprint", "customer_id"), MAYBE_TEXT),
    **dict.fromkeys(("provider", "provider_ref", "last_error", "subject", "currency"), MAYBE_TEXT),
    "amount": st.none() | COUNTS,
    "key_answered": st.booleans(),
    "waits_for": st.none() | st.sampled_from(WaitKind),
    "message": OBJECTS,
    **dict.fromkeys(("result", "progress", "pending_repair"), st.none() | OBJECTS),
    "closing": st.none()
    | st.fixed_dictionaries({"reason": st.text(), "code": st.text(), "result": OBJECTS}),
    "resubmissions": st.lists(TIMES, max_size=3).map(tuple),
    "provider_events": st.lists(EVENTS, max_size=3).map(tuple),
    "evidence": st.lists(ENTRIES, max_size=3).map(tuple),
    "ended_version": st.none() | COUNTS,
    "expires_at": st.none() | SECONDS,
}
JOBS = st.builds(JobRow, **FIELDS)


def test_samples_cover_every_field_of_job() -> None:
    assert {field.name for field in fields(JobRow)} == set(FIELDS)


@given(job=JOBS)
def test_any_job_is_unchanged_after_round_trip(job: JobRow) -> None:
    assert deserialize_job(serialize_job(job)) == job


@given(job=JOBS)
def test_row_is_plain_json_without_null_attribute(job: JobRow) -> None:
    row = serialize_job(job)
    assert json.loads(json.dumps(row)) == row
    assert {"NULL": True} not in row.values()


@given(one=TIMES, other=TIMES)
def test_times_sort_as_text(one: datetime, other: datetime) -> None:
    texts = [serialize_field("due_at", at)["S"] for at in (one, other)]
    assert (texts[0] < texts[1]) is (one < other)
    assert all(re.fullmatch(r"[-0-9]{10}T[:0-9]{8}\.\d{3}Z", text) for text in texts)


def test_row_attributes_match_stored_format() -> None:
    counted = make_entry(count=3, last_at=NOW)

    row = serialize_job(make_job(provider_ref="pi_1", expires_at=NOW, evidence=(counted,)))

    expected = {
        "job_key": {"S": "payment.charge:order_18452"},
        "status": {"S": "started"},
        "attempts": {"N": "1"},
        "due_at": {"S": "2026-11-16T03:01:00.000Z"},
        "expires_at": {"N": str(int(NOW.timestamp()))},
        "message": {"S": '{"job":"payment.charge","v":1,"order_id":"18452"}'},
    }
    assert {name: row[name] for name in expected} == expected
    action, _, shard = row["due"]["S"].partition("#")
    assert (action, int(shard) < 8) == ("ask", True)
    assert "attention" not in row
    at = "2026-11-16T03:00:00.000Z"
    entry = [at, "recheck", "unknown", "reconciler", "still processing"]
    assert json.loads(row["evidence"]["S"]) == [[*entry, {"count": 3, "last_at": at}]]


def test_field_without_value_has_no_attribute() -> None:
    row = serialize_job(make_job(due_at=None, owner=None))
    assert not {"due_at", DUE, "owner", "result", "expires_at"} & row.keys()


def test_field_at_default_has_no_attribute_except_version() -> None:
    row = serialize_job(make_job(fence=0, attempts=0, timeouts=0, key_number=1, version=1))
    left_out = {"fence", "attempts", "timeouts", "unreachable", "key_number"}
    assert not (left_out | {"evidence"}) & row.keys()
    assert row["version"] == {"N": "1"}


def test_attribute_of_later_version_is_ignored() -> None:
    row: dict[str, Any] = {**serialize_job(make_job()), "later": {"S": "unknown here"}}
    assert deserialize_job(row) == make_job()


def test_numbers_of_business_row_are_whole_where_possible() -> None:
    row = {"amount": {"N": "1250"}, "rate": {"N": "0.5"}, "tags": {"L": [{"N": "1.0"}]}}
    assert deserialize_row(row) == {"amount": 1250, "rate": 0.5, "tags": [1]}


@pytest.mark.parametrize("more", [[{"new": "paused"}], []], ids=["unusual", "usual there"])
def test_evidence_of_newer_version_is_kept_unchanged(more: list[object]) -> None:
    line = ["2026-11-16T03:00:00.000Z", "pause", "unknown", "worker", "why", *more]
    evidence = json.dumps([line], separators=(",", ":"))
    row = {**serialize_job(make_job()), "evidence": serialize(evidence)}

    job = deserialize_job(row)

    assert serialize_job(job)["evidence"] == row["evidence"]
    assert describe_event(job.evidence[0].event) == "pause"


@pytest.mark.parametrize(
    "spoiled", [{"status": {"S": "paused"}}, {"created_at": {"S": "soon"}}, {"message": {"S": "{"}}]
)
def test_unreadable_row_error_names_job_and_fix(spoiled: Any) -> None:  # noqa: ANN401  # the SDK's own form
    with pytest.raises(UnreadableRowError, match=r"order_18452 .* deploy that version again"):
        deserialize_job({**serialize_job(make_job()), **spoiled})


@pytest.mark.parametrize(
    "spoiled",
    [
        {"attempts": {"S": "3"}},
        {"version": {"N": "1.5"}},
        {"owner": {"N": "5"}},
        {"message": {"S": "5"}},
        {"result": {"S": "[]"}},
        {"closing": {"S": "{}"}},
        {"closing": {"S": '{"reason":"declined","code":"declined","result":[]}'}},
        {"updated_at": {"N": "20260101"}},
        {"expires_at": {"N": "1E+60"}},
        {"evidence": {"S": '[["2026-01-01T00:00:00Z","claim",null,"worker","","x"]]'}},
        {"evidence": {"S": '[["2026-01-01T00:00:00Z","claim",null,5,""]]'}},
        {"evidence": {"S": '[["2026-01-01T00:00:00Z","claim",null,"worker",null]]'}},
        {"message": {"S": "[" * 200_000}},
    ],
    ids=lambda spoiled: f"{next(iter(spoiled))}-{next(iter(spoiled.values()))}"[:70],
)
def test_row_with_wrong_attribute_type_is_unreadable(spoiled: Any) -> None:  # noqa: ANN401  # the SDK's own form
    with pytest.raises(UnreadableRowError, match="order_18452"):
        deserialize_job({**serialize_job(make_job()), **spoiled})


def test_write_raises_engine_number_of_older_row() -> None:
    written = replace(make_job(), min_engine=ENGINE_NUMBER - 1).apply(
        Event.NOTE, now=NOW, actor="worker", reason="why"
    )
    assert written.min_engine == ENGINE_NUMBER


def test_time_without_zone_is_in_utc() -> None:
    edited = {**serialize_job(make_job()), "due_at": {"S": "2026-01-01T00:00:00"}}
    assert deserialize_job(edited).due_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_row_without_required_attributes_is_unreadable() -> None:
    with pytest.raises(UnreadableRowError):
        deserialize_job({"job_key": {"S": "payment.charge:order_18452"}})


@pytest.mark.parametrize(
    "value", ["2026-11-18T20:00:00+14:00", "20260101T000000Z", "2026-W01-1T00:00:00Z"]
)
def test_run_at_that_sorts_wrongly_as_text_is_unreadable(value: str) -> None:
    """The claim's condition would refuse a time that the domain takes for the past."""
    with pytest.raises(UnreadableRowError, match="run_at"):
        deserialize_job({**serialize_job(make_job()), "run_at": {"S": value}})
