"""Alerts state the impact first, then the facts and the next command."""

import shlex
from collections.abc import Callable
from typing import Any

import pytest
import typer

from oncely.alerts import alert_texts
from oncely.alerts.alert_texts import known_facts, open_question
from oncely.alerts.budget import Alert
from oncely.cli.main import app
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from tests.unit.samples import KEY, NOW, make_entry, make_job

CONTRADICTED = make_entry(
    event=Event.CONTRADICT, from_status=Status.FAILED, to_status=Status.NEEDS_REVIEW
)
MANUALLY_RESOLVED = make_entry(
    event=Event.REOPEN, from_status=Status.NEEDS_REVIEW, to_status=Status.READY
)


def make_review(**changes: object) -> JobRow:
    return make_job(status=Status.NEEDS_REVIEW, **changes)


@pytest.mark.parametrize(
    ("job", "question"),
    [
        (make_review(fence=0), "why no worker claims it"),
        (make_review(provider_ref=None), "whether the effect happened"),
        (make_review(provider_ref="pi_1"), "the outcome of pi_1"),
        (make_review(provider_ref="pi_1", result={"charge_id": "ch_1"}), "should stand"),
        (
            make_review(result={"charge_id": "ch_1"}, evidence=(CONTRADICTED,)),
            "later evidence is correct",
        ),
        (
            make_review(result={"charge_id": "ch_1"}, evidence=(CONTRADICTED, MANUALLY_RESOLVED)),
            "should stand",
        ),
    ],
)
def test_open_question_follows_from_stored_fields(job: JobRow, question: str) -> None:
    assert question in open_question(job)


def test_known_facts_include_only_stored_fields() -> None:
    facts = known_facts(make_review(provider_ref="pi_1", result={"charge_id": "ch_1"}))
    none = known_facts(make_review(provider_ref=None, customer_id=None, result=None))

    assert any("ch_1" in fact for fact in facts)
    assert any("pi_1" in fact for fact in facts)
    claimed = "claimed 1 times; 1 of these runs may have called the provider"
    assert none == (claimed, "provider reference: none saved")


@pytest.mark.parametrize(
    "alert",
    [
        alert_texts.review_alert(make_review(last_error="two found"), stack="Oncely-prod"),
        alert_texts.conflict_alert(KEY, "other amount", stack="Oncely-prod"),
        alert_texts.forged_row_alert(KEY, "unknown", stack="Oncely-prod"),
        alert_texts.orphaned_outcome_alert(KEY, "charged as ch_1", stack="Oncely-prod"),
        alert_texts.dead_letter_alert([(KEY, "it is started")], stack="Oncely-prod"),
    ],
    ids=lambda alert: alert.subject,
)
def test_each_alert_lists_known_unknown_and_next(alert: Alert) -> None:
    begins = [line.partition(":")[0] for line in alert.text.splitlines()]
    assert {"Known", "Unknown", "Next"} <= set(begins)
    assert str(KEY) in alert.text


def test_subject_names_job_or_counts_dead_letters() -> None:
    letter = (KEY, "it is started")

    conflict = alert_texts.conflict_alert(KEY, "x", stack="")
    assert conflict.subject == f"Oncely: conflicting message for {KEY}"
    orphaned = alert_texts.orphaned_outcome_alert(KEY, "x", stack="")
    assert orphaned.subject == f"Oncely: {KEY} has no row"
    assert alert_texts.dead_letter_alert([letter], stack="").subject == "Oncely: 1 dead letter"
    assert alert_texts.dead_letter_alert([letter] * 2, stack="").subject == "Oncely: 2 dead letters"


def test_command_names_stack_when_known() -> None:
    shown = alert_texts.show_command(KEY, "Oncely-prod")
    assert shown == f"oncely show '{KEY}' --stack Oncely-prod"
    assert alert_texts.show_command(KEY, "") == f"oncely show '{KEY}'"


@pytest.mark.parametrize("stack", ["Oncely-prod", ""])
@pytest.mark.parametrize("command", [alert_texts.show_command, alert_texts.lookup_command])
def test_alert_commands_are_valid(command: Callable[[JobKey, str], str], stack: str) -> None:
    name, verb, *arguments = shlex.split(command(KEY, stack))
    parsers: Any = typer.main.get_command(app)

    taken = parsers.commands[verb].make_context(verb, arguments)

    assert name == "oncely"
    assert taken.params["key"] == KEY
    assert stack in {"", taken.params["stack"]}


def test_summary_names_command_that_lists_the_jobs() -> None:
    review = make_job(status=Status.NEEDS_REVIEW, updated_at=NOW)
    alert = alert_texts.summary_alert([review], stack="Oncely-prod")
    *_, line = alert.text.splitlines()
    _, verb, *arguments = shlex.split(line.removeprefix("Next: "))
    parsers: Any = typer.main.get_command(app)

    taken = parsers.commands[verb].make_context(verb, arguments).params

    assert alert.subject == "Oncely: 1 job needs review"
    assert taken["stack"] == "Oncely-prod"
    assert taken["since"] == NOW


@pytest.mark.parametrize(
    "alert",
    [
        alert_texts.review_alert(make_review(last_error="not verified: ada@example.com"), stack=""),
        alert_texts.review_alert(make_review(result={"to": "ada@example.com"}), stack=""),
        alert_texts.summary_alert([make_review(last_error="not ada@example.com")], stack=""),
        alert_texts.conflict_alert(KEY, "ada@example.com is another", stack=""),
        alert_texts.orphaned_outcome_alert(KEY, "sent to ada@example.com", stack=""),
        alert_texts.dead_letter_alert([(KEY, "sent to ada@example.com")], stack=""),
    ],
)
def test_alert_masks_email_addresses(alert: Alert) -> None:
    assert "a***@example.com" in alert.text
    assert "ada@" not in alert.text
