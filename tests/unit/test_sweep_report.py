"""What a sweep says it did: counts of all jobs, and a short line for each as far as they fit."""

import json

from oncely.domain.errors import UnavailableError
from oncely.domain.keys import MAX_KEY, JobKey
from oncely.domain.lifecycle import Status
from oncely.services.find_due import MAX_LIMIT, PAGE_BYTES, Found, Item
from oncely.services.reconcile import Resolution
from oncely.services.resolve_group import Handled
from oncely.services.sweep_report import (
    GROUP_SIZE,
    RESULT_BYTES,
    groups,
    moved,
    report,
    shortened,
    summary,
)
from oncely.services.tell import Telling

STEP_FUNCTIONS_LIMIT = 256 * 1024
PLENTY = 10_000


def test_item_of_row_is_passed_on_as_key_only() -> None:
    assert Item(key=JobKey("a:1")).as_json() == {"key": "a:1"}


def test_item_with_message_is_passed_on_whole() -> None:
    item = Item(key=JobKey("a:1"), message={"job": "a", "v": 1}, asked_for=True)

    assert Item.of(item.as_json()) == item


def finished(key: str = "a:1") -> Handled:
    done = Resolution(
        key=JobKey(key),
        outcome="finished",
        old=Status.UNKNOWN,
        new=Status.FINISHED,
        reason="charged",
    )
    return Handled(key=JobKey(key), done=done)


def failed(key: str, reason: str = "no answer") -> Handled:
    return Handled(key=JobKey(key), error=UnavailableError(reason))


def test_group_counts_outcomes_and_lists_jobs_with_reasons() -> None:
    late = Handled(key=JobKey("a:3"))

    said = summary([finished(), failed("a:2"), finished(), late], limit=PLENTY)

    assert said["counts"] == {"finished": 2, "error": 1, "later": 1}
    assert said["jobs"][:2] == [
        {"key": "a:2", "outcome": "error", "reason": "UnavailableError: no answer"},
        {
            "key": "a:1",
            "outcome": "finished",
            "old": "unknown",
            "new": "finished",
            "reason": "charged",
        },
    ]
    assert said["jobs"][3] == {
        "key": "a:3",
        "outcome": "later",
        "reason": "no time was left for it",
    }


def test_alert_is_listed_with_its_delivery() -> None:
    done = Resolution(key=JobKey("a:1"), outcome="needs_review", reason="odd", alert=True)

    said = summary([Handled(key=done.key, done=done, telling=Telling.LATER)], limit=PLENTY)

    assert said["jobs"][0]["alert"] == "not delivered"


def test_report_sums_groups_and_names_jobs_of_crashed_one() -> None:
    first = summary([finished(), finished("a:2")], limit=PLENTY)
    died = {"items": [{"key": "a:3"}, {"key": "a:4"}], "error": "Lambda.Unknown"}

    told = report([first, died])

    assert told["counts"] == {"finished": 2, "error": 2}
    assert told["jobs"][2] == {"key": "a:3", "outcome": "error", "reason": "Lambda.Unknown"}
    assert "not_listed" not in told


def test_report_lists_errors_first_and_counts_omitted_jobs() -> None:
    handled = [finished(f"a:{one}") for one in range(100)]

    told = report([summary([*handled, failed("a:bad")], limit=500)])

    assert told["counts"] == {"finished": 100, "error": 1}
    assert told["jobs"][0]["key"] == "a:bad"
    assert len(told["jobs"]) + told["not_listed"] == 101


def test_empty_sweep_reports_nothing() -> None:
    assert report([]) == {"counts": {}, "jobs": []}


def test_summary_masks_email_addresses() -> None:
    said = "not verified: ada@example.com"
    done = Resolution(key=JobKey("a:1"), outcome="finished", reason=said)

    told = summary([Handled(key=done.key, done=done), failed("a:2", said)], limit=PLENTY)

    assert "ada@" not in json.dumps(told)
    assert told["jobs"][1]["reason"] == "not verified: a***@example.com"


def _worst(number: int) -> Handled:
    key = JobKey(f"{number:03}" + "k" * (MAX_KEY - 3))
    review = Status.NEEDS_REVIEW
    done = Resolution(
        key=key, outcome=review, old=review, new=review, reason="😀" * 5000, alert=True
    )
    return Handled(key=key, done=done, telling=Telling.LATER)


def test_every_job_of_largest_manual_sweep_is_listed() -> None:
    worst = [_worst(number) for number in range(MAX_LIMIT)]
    items = tuple(Item(key=one.key) for one in worst)
    inputs = groups(Found(items=items), size=GROUP_SIZE, dry_run=False)

    results = [
        summary(worst[at : at + GROUP_SIZE], limit=one["bytes"])
        for at, one in zip(range(0, MAX_LIMIT, GROUP_SIZE), inputs, strict=True)
    ]

    told = report(results)
    assert len(told["jobs"]) == MAX_LIMIT
    assert len(told["jobs"][0]["reason"]) > 20
    assert len(json.dumps([inputs, results])) < STEP_FUNCTIONS_LIMIT


def test_largest_page_and_its_results_fit_together() -> None:
    assert PAGE_BYTES + RESULT_BYTES + 10_000 < STEP_FUNCTIONS_LIMIT


def test_groups_hold_every_item_once_in_its_order() -> None:
    items = tuple(Item(key=JobKey(f"a:{number}")) for number in range(60))

    made = groups(Found(items=items), size=25, dry_run=True)

    assert [len(one["items"]) for one in made] == [25, 25, 10]
    assert [Item.of(item) for one in made for item in one["items"]] == list(items)
    assert all(one["dry_run"] for one in made)
    assert groups(Found(), size=25, dry_run=False) == []


def test_item_survives_state_machine_round_trip() -> None:
    for item in (
        Item(key=JobKey("a:1")),
        Item(key=JobKey("a:1"), asked_for=True),
        Item(key=JobKey("a:1"), message={"job": "a.b", "v": 1}),
    ):
        assert Item.of(json.loads(json.dumps(item.as_json()))) == item


def test_only_outcomes_that_change_rows_are_progress() -> None:
    assert moved({"finished": 1, "error": 9})
    assert moved({"unknown": 1})
    assert not moved({"error": 3, "later": 2, "nothing": 1})
    assert not moved({})


def test_reason_is_shortened_only_beyond_bound() -> None:
    longest = "x" * (400 - len('""'))

    assert shortened(longest) == longest
    assert len(shortened(f"{longest}x")) == len(f"{longest}x") * 3 // 4
