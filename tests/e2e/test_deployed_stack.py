"""The deployed stack, fed with plain boto3: functions in processes of their own do the work."""

import pytest

from tests.e2e import scenarios
from tests.e2e.deployment import Deployment, eventually

pytestmark = pytest.mark.timeout(600)


def test_message_to_output_queue_pays_order(deployment: Deployment) -> None:
    job = deployment.once(scenarios.pays)

    order = deployment.get("OrdersTableName", order_id="18452")
    assert order is not None
    assert order["status"] == "paid"
    assert order["charge_id"] in job["result"]
    assert scenarios.charges(deployment, "18452") == 1


def test_ended_job_sends_receipt_before_it_can_expire(deployment: Deployment) -> None:
    deployment.once(scenarios.pays)

    job = eventually(
        lambda: (
            row
            if (row := deployment.job("payment.charge:order_18452")) and "expires_at" in row
            else None
        ),
        "its receipt is sent",
    )
    assert deployment.job("receipt.send:order_18452") is not None
    assert "due_at" not in job
    assert int(job["expires_at"]) > 0


def test_duplicate_message_charges_nothing(deployment: Deployment) -> None:
    before = deployment.once(scenarios.is_sent_twice)

    after = deployment.job("payment.charge:order_18452")
    assert after is not None
    assert (after["result"], after["fence"]) == (before["result"], before["fence"])
    assert scenarios.charges(deployment, "18452") == 1


def test_invalid_message_is_archived(deployment: Deployment) -> None:
    assert len(deployment.once(scenarios.is_not_valid)) == 4


def test_worker_alerts_when_job_needs_review(deployment: Deployment) -> None:
    alerts = deployment.once(scenarios.needs_a_person)

    assert any("payment.charge:order_nobody" in subject for subject in alerts)


def test_reconciler_escalates_job_when_order_is_missing(deployment: Deployment) -> None:
    job = deployment.once(scenarios.is_left_without_its_order)

    assert job["status"] == "needs_review"


def test_resubmitted_job_after_decline_pays_once(deployment: Deployment) -> None:
    deployment.once(scenarios.is_tried_again_after_a_decline)

    order = deployment.get("OrdersTableName", order_id="declined")
    assert order is not None
    assert order["status"] == "paid"
    assert scenarios.charges(deployment, "declined") == 1


def test_dead_letter_becomes_ready_then_needs_review(
    deployment: Deployment,
) -> None:
    deployment.once(scenarios.is_a_dead_letter)
    deployment.once(scenarios.was_a_dead_letter_before)

    assert scenarios.charges(deployment, "dead") == 0


def test_requested_charge_is_made_when_no_message_was_sent(
    deployment: Deployment,
) -> None:
    deployment.once(scenarios.was_asked_for_and_never_sent)

    assert scenarios.charges(deployment, "forgotten") == 1


def test_reconciler_publishes_job_missed_by_stream(deployment: Deployment) -> None:
    done = deployment.once(scenarios.is_missed_by_the_stream)

    assert done["counts"] == {"published": 1}
    assert deployment.job("receipt.send:order_missed") is not None


def test_contacts_are_imported_and_pushed(deployment: Deployment) -> None:
    ids = deployment.once(scenarios.imports_contacts)
    deployment.once(scenarios.pushes_a_contact)

    record = deployment.get("RecordsTableName", record_id=f"hubspot#{ids[0]}")
    assert record is not None
    assert (record["crm_id"], record["pushed_version"]) == (ids[0], "1")


def test_push_with_lost_reply_is_found_at_crm(deployment: Deployment) -> None:
    deployment.once(scenarios.loses_the_answer_to_a_push)
    contact_id = deployment.once(scenarios.imports_contacts)[1]

    (contact,) = (one for one in deployment.sandbox.ledger.contacts if one.contact_id == contact_id)
    assert contact.writes == 1


def test_changed_record_is_pushed_in_newest_version(deployment: Deployment) -> None:
    job = deployment.once(scenarios.pushes_what_moved_on)

    assert job["job_key"].endswith(":2")


def test_job_is_retried_when_worker_dies(deployment: Deployment) -> None:
    job = deployment.once(scenarios.is_left_by_its_worker)

    assert job["owner"] != "another"


@pytest.mark.last
def test_schedule_starts_sweep_that_resolves_unknown_job(
    deployment: Deployment,
) -> None:
    job = deployment.once(scenarios.is_found_by_the_schedule)

    eventually(lambda: deployment.has_scheduled_sweep() or None, "the schedule has started a sweep")
    assert '"reconciler"' in job["evidence"]
    assert scenarios.charges(deployment, "unknown") == 1
