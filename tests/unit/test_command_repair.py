"""`oncely repair` and `oncely redrive`: named actor, reason, and only the job as shown."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from oncely.cli import console
from oncely.core.errors import UnavailableError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status, WaitKind
from tests.support import repairs
from tests.support.cli import FakeStackConnection, FakeSts, run_cli
from tests.support.fakes import FakeMessageSender
from tests.support.in_memory_stack import InMemoryStack
from tests.support.provider_fault import ProviderFault

KEY = "payment.charge:order_18452"
REASON = ("--reason", "the customer showed me the bank's page")


@pytest.fixture
def review() -> FakeStackConnection:
    """A job in review whose order was cancelled and can be charged now."""
    world = InMemoryStack()
    world.run_to_review()
    world.add_order()
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    return FakeStackConnection(world)


@pytest.fixture
def charged() -> FakeStackConnection:
    """A job in review that Stripe has charged."""
    return FakeStackConnection(repairs.world_with_review_job())


def test_repair_records_aws_identity_and_reason(charged: FakeStackConnection) -> None:
    words = ("repair", KEY, "mark-finished", *REASON, "--provider-ref", "ch_1", "--yes")

    result = run_cli(*words, connection=charged)

    assert result.exit_code == 0, result.output
    assert "The job is now done." in result.stdout
    entry = charged.world.job(KEY).evidence[-1]
    assert entry.actor == "operator:ada@example.com"
    assert "the customer showed me" in entry.reason
    assert charged.world.order()["status"] == "paid"


def test_contradicted_repair_shows_both_sides(charged: FakeStackConnection) -> None:
    words = ("repair", KEY, "mark-finished", *REASON, "--provider-ref", "pi_invented", "--yes")

    said = run_cli(*words, connection=charged)
    dry = run_cli(*words, "--dry-run", connection=charged)

    assert said.exit_code == 1
    assert "Not repaired: you say that it is done, as pi_invented; Stripe lookup:" in said.stderr
    assert "charged 12.50 EUR as ch_1. Next: " in said.stderr
    assert dry.stderr == said.stderr
    assert charged.world.job(KEY).status is Status.NEEDS_REVIEW


def test_second_operator_is_another_aws_identity(charged: FakeStackConnection) -> None:
    charged.world.second_operator_above = "eur:1000"
    words = ("repair", KEY, "mark-finished", *REASON, "--provider-ref", "pi_1", "--yes")
    first = run_cli(*words, connection=charged)
    again = run_cli(*words, "--as", "grace", connection=charged)
    charged.clients["sts"] = FakeSts("arn:aws:sts::1:assumed-role/Operator/bob@example.com")
    confirmed = run_cli(*words, connection=charged)

    assert first.exit_code == 0, first.output
    assert "recorded as a request: ada@example.com requested mark-finished" in first.stdout
    assert "The job is now needs review." in first.stdout
    assert again.exit_code == 1
    assert "you requested it yourself" in again.stderr
    assert confirmed.exit_code == 0, confirmed.output
    assert "ada@example.com requested mark-finished with reference pi_1" in confirmed.stdout
    assert "The job is now done." in confirmed.stdout


@pytest.mark.parametrize("name", ["grace", "boss (signed in as boss)".ljust(200, "_")])
def test_given_name_does_not_hide_aws_identity(review: FakeStackConnection, name: str) -> None:
    run_cli("repair", KEY, "mark-failed", *REASON, "--yes", "--as", name, connection=review)
    actor = review.world.job(KEY).evidence[-1].actor
    assert actor.startswith(f"operator:{name[:20]}")
    assert actor.endswith(" (signed in as ada@example.com)")


def test_dry_run_shows_result_and_changes_nothing(review: FakeStackConnection) -> None:
    before = review.world.job(KEY)

    result = run_cli("repair", KEY, "mark-failed", *REASON, "--dry-run", connection=review)

    assert result.exit_code == 0
    assert "Dry run: nothing was changed. The job would be failed." in result.stdout
    assert review.world.job(KEY) == before
    assert review.world.order()["status"] == "payment_pending"


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_repair_needs_confirmation_on_terminal(
    review: FakeStackConnection, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    monkeypatch.setattr(console, "_is_terminal", lambda: True)
    result = run_cli("repair", KEY, "mark-failed", *REASON, connection=review, stdin_text=typed)
    assert result.exit_code == code
    assert review.world.job(KEY).status is (Status.NEEDS_REVIEW if code else Status.FAILED)


def test_disallowed_repair_lists_allowed_ones(review: FakeStackConnection) -> None:
    result = run_cli("repair", KEY, "resubmit", *REASON, "--yes", connection=review)
    assert "Allowed now: lookup, reopen, mark-finished, mark-failed." in result.stderr


def test_job_changed_since_shown_is_not_repaired(
    review: FakeStackConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change_job_during_prompt() -> bool:
        job = review.world.job(KEY)
        review.world.store.jobs[JobKey(KEY)] = replace(job, version=job.version + 1)
        return True

    monkeypatch.setattr(console, "_is_terminal", change_job_during_prompt)

    result = run_cli("repair", KEY, "mark-failed", *REASON, connection=review, stdin_text="y\n")

    assert result.exit_code == 1
    assert "the job has changed and is now needs_review. Check it with `oncel" in result.stderr
    assert review.world.job(KEY).status is Status.NEEDS_REVIEW


@pytest.fixture
def unknown(unknown_charge: InMemoryStack) -> FakeStackConnection:
    assert unknown_charge.job(KEY).status is Status.UNKNOWN
    return FakeStackConnection(unknown_charge)


def test_lookup_prints_provider_outcome_beside_job(unknown: FakeStackConnection) -> None:
    result = run_cli("repair", KEY, "lookup", *REASON, "--yes", connection=unknown)

    assert result.exit_code == 0, result.output
    assert "Stripe lookup: " in result.stdout
    assert "The job is now done. Charged once: 12.50 EUR" in result.stdout
    assert len(unknown.world.payments.charges) == 1


def test_failed_lookup_has_its_own_exit_code(unknown: FakeStackConnection) -> None:
    unknown.world.payments.fail_next("lookup", ProviderFault.TIMEOUT_BEFORE)

    result = run_cli("repair", KEY, "lookup", *REASON, "--yes", connection=unknown)

    assert result.exit_code == 3, result.output
    assert "The provider lookup failed" in result.stderr
    assert unknown.world.job(KEY).status is Status.UNKNOWN


def test_json_output_shows_repaired_job(review: FakeStackConnection) -> None:
    result = run_cli("repair", KEY, "mark-failed", *REASON, "--yes", "--json", connection=review)
    result = json.loads(result.stdout)
    assert (result["job"]["status"], result["dry_run"]) == ("failed", False)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ((KEY, "mark-failed", *REASON), 2, "Pass --yes or --dry-run"),  # stdin is not a terminal
        ((KEY, "explode", *REASON), 2, ""),
        ((KEY, "mark-failed"), 2, ""),
        (("payment.charge:order_1", "mark-failed", *REASON, "--yes"), 1, ""),
        ((KEY, "mark-failed", "--reason", " ", "--yes"), 1, ""),
        ((KEY, "mark-finished", *REASON, "--yes"), 1, ""),  # it needs the provider's reference
        ((KEY, "resubmit", *REASON, "--yes"), 1, "resubmit is not allowed: only a failed job can"),
    ],
)
def test_incomplete_repair_is_rejected(
    review: FakeStackConnection, words: tuple[str, ...], code: int, sentence: str
) -> None:
    before = review.world.job(KEY)
    result = run_cli("repair", *words, connection=review)
    assert (result.exit_code, review.world.job(KEY)) == (code, before), result.output
    assert sentence in result.stderr


@pytest.fixture
def stranded() -> FakeStackConnection:
    """Three dead-lettered jobs, and one that is ready."""
    stack = FakeStackConnection()
    for order in ("1", "2", "3", "4"):
        run_cli("send", "payment.charge", f"order_id={order}", connection=stack)
    world = stack.world
    for order in ("1", "2", "3"):
        key = JobKey(f"payment.charge:order_{order}")
        world.store.jobs[key] = replace(world.job(key), waits_for=WaitKind.DEAD_LETTER)
    world.outbox.sent.clear()
    return stack


def test_redrive_sends_all_dead_letters(stranded: FakeStackConnection) -> None:
    result = run_cli("redrive", "--yes", connection=stranded)

    assert result.exit_code == 0, result.output
    assert result.stdout.count("sent ") == 3
    assert "Sent a new message for 3 jobs." in result.stderr
    assert len(stranded.world.outbox.sent) == 3
    job = stranded.world.job("payment.charge:order_1")
    assert job.evidence[-1].reason == "redriven from the dead letter queue"


class _ThrottledOnceSender(FakeMessageSender):
    busy = True

    def send(self, bodies: Sequence[str], *, groups: Sequence[str | None] = ()) -> list[bool]:
        if self.busy:
            self.busy = False
            raise UnavailableError("DynamoDB was too busy")
        return super().send(bodies)


def test_busy_queue_does_not_stop_other_redrives(stranded: FakeStackConnection) -> None:
    stranded.world.outbox = _ThrottledOnceSender()

    result = run_cli("redrive", "--yes", connection=stranded)

    assert result.exit_code == 1
    assert "not sent" in result.stdout
    assert "too busy" in result.stdout
    assert len(stranded.world.outbox.sent) == 2


def test_dry_redrive_sends_nothing(stranded: FakeStackConnection) -> None:
    result = run_cli("redrive", "--dry-run", connection=stranded)
    assert result.stdout.count("would send") == 3
    assert "Nothing was sent. Without --dry-run, 3 jobs would get a new message." in result.stderr
    assert stranded.world.outbox.sent == []


def test_one_job_is_redriven_by_its_key(stranded: FakeStackConnection) -> None:
    result = run_cli("redrive", "payment.charge:order_4", "--yes", "--json", connection=stranded)
    assert json.loads(result.stdout)["sent"] is True
    assert len(stranded.world.outbox.sent) == 1


def test_job_that_is_not_ready_is_not_redriven(review: FakeStackConnection) -> None:
    result = run_cli("redrive", KEY, "--yes", connection=review)
    assert result.exit_code == 1
    assert "only a ready job can be resent" in result.stdout


def test_empty_redrive_succeeds() -> None:
    result = run_cli("redrive", connection=FakeStackConnection())
    assert result.exit_code == 0
    assert "No jobs are stranded." in result.stderr
