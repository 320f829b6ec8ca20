"""The deployed stack with messages from plain boto3. Its functions run in their own processes."""

import pytest

from tests.e2e import scenarios
from tests.e2e.deployed_stack import StackClient, wait_for

PAID = "payment.charge:order_18452"


def test_message_to_output_queue_pays_order(deployment: StackClient) -> None:
    job = deployment.once(scenarios.successful_payment)
    order = deployment.order("18452")
    assert order["status"] == "paid"
    assert order["charge_id"] in job["result"]
    assert scenarios.count_charges(deployment, "18452") == 1


def test_order_chooses_its_payment_provider(deployment: StackClient) -> None:
    job = deployment.once(scenarios.braintree_payment)
    order = deployment.order("bt")
    (charged,) = deployment.sandbox.braintree.ledger.transactions
    assert (order["status"], order["charge_id"]) == ("paid", charged.transaction_id)
    assert (charged.status, job["provider"]) == ("submitted_for_settlement", "braintree")
    assert scenarios.count_charges(deployment, "bt") == 0, "not at Stripe"


def test_ended_job_sends_receipt_before_it_can_expire(deployment: StackClient) -> None:
    deployment.once(scenarios.successful_payment)

    job = wait_for(
        lambda: "expires_at" in (row := deployment.job(PAID) or {}) and row, "its receipt is sent"
    )
    assert deployment.job("receipt.send:order_18452") is not None
    assert "due_at" not in job
    assert int(job["expires_at"]) > 0


def test_duplicate_message_charges_nothing(deployment: StackClient) -> None:
    before = deployment.once(scenarios.duplicate_message)
    after = deployment.job(PAID)
    assert after is not None
    assert (after["result"], after["fence"]) == (before["result"], before["fence"])
    assert scenarios.count_charges(deployment, "18452") == 1


def test_invalid_message_is_archived(deployment: StackClient) -> None:
    assert deployment.once(scenarios.invalid_messages) == 4


def test_worker_alerts_when_job_needs_review(deployment: StackClient) -> None:
    alerts = deployment.once(scenarios.job_needs_review)
    assert any("payment.charge:order_nobody" in subject for subject in alerts)


def test_early_messages_run_once_when_their_order_comes(deployment: StackClient) -> None:
    assert deployment.once(scenarios.early_messages)["status"] == "paid"
    assert scenarios.count_charges(deployment, "early") == 1
    assert not deployment.alerts_about("payment.charge:order_early")


def test_reconciler_escalates_job_when_order_is_missing(deployment: StackClient) -> None:
    assert deployment.once(scenarios.worker_crashed_without_order)["status"] == "needs_review"


def test_resubmitted_job_after_decline_pays_once(deployment: StackClient) -> None:
    deployment.once(scenarios.resubmission_after_decline)
    assert deployment.order("declined")["status"] == "paid"
    assert scenarios.count_charges(deployment, "declined") == 1


def test_dead_letter_becomes_ready_then_needs_review(deployment: StackClient) -> None:
    deployment.once(scenarios.dead_letter)
    deployment.once(scenarios.repeated_dead_letter)
    assert scenarios.count_charges(deployment, "dead") == 0


def test_requested_charge_is_made_when_no_message_was_sent(deployment: StackClient) -> None:
    deployment.once(scenarios.missing_job)
    assert scenarios.count_charges(deployment, "forgotten") == 1


def test_reconciler_publishes_job_missed_by_stream(deployment: StackClient) -> None:
    assert deployment.once(scenarios.stream_outage)["counts"] == {"published": 1}
    deployment.wait_for_job("receipt.send:order_missed", "finished")


def test_contacts_are_imported_and_pushed(deployment: StackClient) -> None:
    ids = deployment.once(scenarios.contact_import)
    deployment.once(scenarios.contact_push)
    record = deployment.get("RecordsTableName", record_id=f"hubspot#{ids[0]}")
    assert record is not None
    assert (record["crm_id"], record["pushed_version"]) == (ids[0], "2")


def test_push_with_lost_reply_is_found_at_crm(deployment: StackClient) -> None:
    deployment.once(scenarios.ambiguous_push)
    contact_id = deployment.once(scenarios.contact_import)[1]
    (contact,) = (
        one for one in deployment.sandbox.hubspot.ledger.contacts if one.contact_id == contact_id
    )
    assert contact.writes == 1


def test_changed_record_is_pushed_in_newest_version(deployment: StackClient) -> None:
    assert deployment.once(scenarios.superseded_push)["job_key"].endswith(":2")


def test_job_is_retried_when_worker_dies(deployment: StackClient) -> None:
    assert deployment.once(scenarios.worker_crashed)["owner"] != "another"


@pytest.mark.last
def test_schedule_starts_sweep_that_resolves_unknown_job(deployment: StackClient) -> None:
    job = deployment.once(scenarios.scheduled_sweep)
    wait_for(deployment.has_scheduled_sweep, "the schedule has started a sweep")
    assert '"reconciler"' in job["evidence"]
    assert scenarios.count_charges(deployment, "unknown") == 1
