"""What a sweep says it did: a short line for each job, of any 200 within Step Functions' limit."""

import json

from oncely.domain.errors import UnavailableError
from oncely.domain.keys import MAX_KEY, JobKey
from oncely.domain.lifecycle import Status
from oncely.services.find_due import MOST
from oncely.services.reconcile import Resolution
from oncely.services.sweep_report import failed, line, report, shortened

STEP_FUNCTIONS_LIMIT = 256 * 1024


def test_it_counts_outcomes_and_lists_each_job_with_its_reason() -> None:
    done = Resolution(
        key=JobKey("a:1"),
        outcome="finished",
        old=Status.UNKNOWN,
        new=Status.FINISHED,
        reason="charged",
    )

    told = report([line(done), failed("a:2", UnavailableError("no answer")), line(done)])

    assert told["counts"] == {"finished": 2, "error": 1}
    assert told["jobs"][:2] == [
        {
            "key": "a:1",
            "outcome": "finished",
            "old": "unknown",
            "new": "finished",
            "reason": "charged",
        },
        {"key": "a:2", "outcome": "error", "reason": "UnavailableError: no answer"},
    ]


def test_no_address_stands_in_what_an_execution_keeps() -> None:
    said = "not verified: ada@example.com"
    done = Resolution(key=JobKey("a:1"), outcome="needs_review", reason=said)

    told = report([line(done), failed("a:2", UnavailableError(said))])

    assert "ada@" not in json.dumps(told)
    assert told["jobs"][0]["reason"] == "not verified: a***@example.com"


def test_the_largest_report_fits_however_its_reasons_are_written() -> None:
    key = JobKey("k" * MAX_KEY)
    worst = line(
        Resolution(
            key=key,
            outcome="needs_review",
            old=Status.NEEDS_REVIEW,
            new=Status.NEEDS_REVIEW,
            reason="😀" * 5000,
            alert=True,
        )
    )

    told = report([worst] * MOST)

    assert len(json.dumps(told)) < STEP_FUNCTIONS_LIMIT
    assert len(told["jobs"][0]["reason"]) > 20


def test_reason_is_kept_whole_up_to_the_bound_and_mostly_beyond_it() -> None:
    longest = "x" * (400 - len('""'))

    assert shortened(longest) == longest
    assert len(shortened(f"{longest}x")) == len(f"{longest}x") * 3 // 4
