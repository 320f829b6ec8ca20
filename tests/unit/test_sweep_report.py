"""The report of a sweep: counts of all jobs, and a short line for each as far as they fit."""

import json
from dataclasses import replace

from oncely.alerts.budget import AlertDelivery
from oncely.contracts.settings import Settings
from oncely.core.effect_outcomes import Json
from oncely.core.errors import UnavailableError
from oncely.core.keys import MAX_KEY_LENGTH, JobKey
from oncely.core.lifecycle import Status
from oncely.reconcile.find_due_work import MAX_PAGE_BYTES, MAX_SWEEP_LIMIT, DueWork, SweepItem
from oncely.reconcile.reconciler import Resolution
from oncely.reconcile.resolve_group import (
    MAX_RESULT_BYTES,
    HandledItem,
    build_group_summary,
    build_report,
    made_progress,
    split_into_groups,
    truncate_reason,
)

GROUP_SIZE = Settings().sweep_group_size
STEP_FUNCTIONS_LIMIT = 256 * 1024
PLENTY = 10_000


def finished_item(key: str = "a:1") -> HandledItem:
    done = Resolution(
        key=JobKey(key),
        outcome="finished",
        from_status=Status.UNKNOWN,
        to_status=Status.FINISHED,
        reason="charged",
    )
    return HandledItem(key=JobKey(key), resolution=done)


def failed_item(key: str, reason: str = "no answer") -> HandledItem:
    return HandledItem(key=JobKey(key), error=UnavailableError(reason))


def test_group_counts_outcomes_and_lists_jobs_with_reasons() -> None:
    late = HandledItem(key=JobKey("a:3"))

    items = [finished_item(), failed_item("a:2"), finished_item(), late]
    made = build_group_summary(items, max_bytes=PLENTY)

    assert made["counts"] == {"finished": 2, "error": 1, "later": 1}
    assert made["jobs"][:2] == [
        {"key": "a:2", "outcome": "error", "reason": "UnavailableError: no answer"},
        {
            "key": "a:1",
            "outcome": "finished",
            "old": "unknown",
            "new": "finished",
            "reason": "charged",
        },
    ]
    assert made["jobs"][3] == {
        "key": "a:3",
        "outcome": "later",
        "reason": "there was no time left for it",
    }


def test_alert_is_listed_with_its_delivery() -> None:
    done = Resolution(key=JobKey("a:1"), outcome="needs_review", reason="odd", needs_alert=True)

    made = build_group_summary(
        [HandledItem(key=done.key, resolution=done, alert_delivery=AlertDelivery.FAILED)],
        max_bytes=PLENTY,
    )

    assert made["jobs"][0]["alert"] == "not delivered"


def test_report_sums_groups_and_names_jobs_of_crashed_one() -> None:
    first = build_group_summary([finished_item(), finished_item("a:2")], max_bytes=PLENTY)
    died = {"items": [{"key": "a:3"}, {"key": "a:4"}], "error": "Lambda.Unknown"}

    report = build_report([first, died])

    assert report["counts"] == {"finished": 2, "error": 2}
    assert report["jobs"][2] == {"key": "a:3", "outcome": "error", "reason": "Lambda.Unknown"}
    assert "not_listed" not in report


def test_report_lists_errors_first_and_counts_omitted_jobs() -> None:
    handled = [finished_item(f"a:{one}") for one in range(100)]

    report = build_report([build_group_summary([*handled, failed_item("a:bad")], max_bytes=500)])

    assert report["counts"] == {"finished": 100, "error": 1}
    assert report["jobs"][0]["key"] == "a:bad"
    assert len(report["jobs"]) + report["not_listed"] == 101


def test_empty_sweep_reports_nothing() -> None:
    assert build_report([]) == {"counts": {}, "jobs": []}


def test_summary_masks_email_addresses() -> None:
    reason = "not verified: ada@example.com"
    done = Resolution(key=JobKey("a:1"), outcome="finished", reason=reason)

    report = build_group_summary(
        [HandledItem(key=done.key, resolution=done), failed_item("a:2", reason)], max_bytes=PLENTY
    )

    assert "ada@" not in json.dumps(report)
    assert report["jobs"][1]["reason"] == "not verified: a***@example.com"


def _largest_item(number: int) -> HandledItem:
    key = JobKey(f"{number:03}" + "k" * (MAX_KEY_LENGTH - 3))
    review = Status.NEEDS_REVIEW
    done = Resolution(
        key=key,
        outcome=review,
        from_status=review,
        to_status=review,
        reason="😀" * 5000,
        needs_alert=True,
    )
    return HandledItem(key=key, resolution=done, alert_delivery=AlertDelivery.FAILED)


def test_every_job_of_largest_manual_sweep_is_listed() -> None:
    worst = [_largest_item(number) for number in range(MAX_SWEEP_LIMIT)]
    items = tuple(SweepItem(key=one.key) for one in worst)
    inputs = split_into_groups(DueWork(items=items), size=GROUP_SIZE, dry_run=False)

    results = [
        build_group_summary(worst[at : at + GROUP_SIZE], max_bytes=one["bytes"])
        for at, one in zip(range(0, MAX_SWEEP_LIMIT, GROUP_SIZE), inputs, strict=True)
    ]

    report = build_report(results)
    assert len(report["jobs"]) == MAX_SWEEP_LIMIT
    assert len(report["jobs"][0]["reason"]) > 20
    assert len(json.dumps([inputs, results])) < STEP_FUNCTIONS_LIMIT


def test_largest_page_and_its_results_fit_together() -> None:
    assert MAX_PAGE_BYTES + MAX_RESULT_BYTES + 10_000 < STEP_FUNCTIONS_LIMIT


def test_groups_hold_every_item_once_in_its_order() -> None:
    items = tuple(SweepItem(key=JobKey(f"a:{number}")) for number in range(60))

    made = split_into_groups(DueWork(items=items), size=25, dry_run=True)

    assert [len(one["items"]) for one in made] == [25, 25, 10]
    assert [SweepItem.from_json(item) for one in made for item in one["items"]] == list(items)
    assert all(one["dry_run"] for one in made)
    assert split_into_groups(DueWork(), size=25, dry_run=False) == []


def test_item_survives_state_machine_round_trip() -> None:
    plain = SweepItem(key=JobKey("a:1"))
    message: dict[str, Json] = {"job": "a.b", "v": 1}

    assert plain.to_json() == {"key": "a:1"}
    for item in (plain, replace(plain, on_demand=True), replace(plain, message=message)):
        for sent in (item, replace(item, on_demand=True)):
            assert SweepItem.from_json(json.loads(json.dumps(sent.to_json()))) == sent


def test_only_outcomes_that_change_rows_are_progress() -> None:
    assert made_progress({"finished": 1, "error": 9})
    assert made_progress({"unknown": 1})
    assert not made_progress({"error": 3, "later": 2, "nothing": 1})
    assert not made_progress({})


def test_reason_is_shortened_only_beyond_bound() -> None:
    longest = "x" * (400 - len('""'))
    assert truncate_reason(longest) == longest
    assert len(truncate_reason(f"{longest}x")) == len(f"{longest}x") * 3 // 4
