"""Repairs on the deployed stack: an invented reference is refused, and two operators decide."""

from datetime import UTC, datetime, timedelta

import pytest

from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.row_items import serialize_job
from tests.e2e import scenarios
from tests.e2e.admin_api import OPERATOR, AdminApiClient, ApiReply, with_users
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.test_cli import run_cli
from tests.e2e.unresolved_jobs import create_unresolved_job, get_job

INVENTED = "pi_invented"
WHY = ("--reason", "seen at Stripe", "--yes")


@pytest.fixture
def admin_api(deployment: StackClient) -> AdminApiClient:
    return with_users(deployment)


def repair_by_page(admin_api: AdminApiClient, key: str, repair: str, **more: str) -> ApiReply:
    version = get_job(admin_api.stack, key).version
    asked = {"key": key, "repair": repair, "version": version, "reason": "seen at Stripe"}
    return admin_api.post("/api/repair", {**asked, **more}, token=admin_api.token(OPERATOR))


def test_forged_row_with_invented_reference_is_neither_charged_nor_called_paid(
    deployment: StackClient, admin_api: AdminApiClient
) -> None:
    key = JobKey("payment.charge:order_invented")
    scenarios.put_order(deployment, "invented")
    now = datetime.now(tz=UTC)
    forged = JobRow(
        job_key=key,
        job_type="payment.charge",
        status=Status.READY,
        message=scenarios.charge_message("invented"),  # type: ignore[arg-type]  # JSON
        created_at=now,
        updated_at=now,
        due_at=now + timedelta(minutes=15),
        provider_ref=INVENTED,
        deployment=scenarios.deployment_identity(deployment),
    )
    deployment.client("dynamodb").put_item(
        TableName=deployment.outputs["JobsTableName"], Item=serialize_job(forged)
    )
    deployment.send("PaymentsQueueUrl", scenarios.charge_message("invented"))
    deployment.wait_for_job(key, "needs_review")
    # The alert of a review is recorded as well.
    wait_for(lambda: get_job(deployment, key).due_at is None, f"an alert for {key}")
    before = get_job(deployment, key)

    said = run_cli(
        deployment, "repair", key, "mark-finished", "--provider-ref", INVENTED, *WHY, code=1
    )
    shown = repair_by_page(admin_api, key, "mark-finished", reference=INVENTED)

    assert f"you say that it is done, as {INVENTED}; Stripe lookup: unknown reference" in said
    assert shown.status == 409
    assert shown.json["contradiction"]["claim"] == f"that it is done, as {INVENTED}"
    assert (
        f"No such payment_intent: '{INVENTED}'" in shown.json["contradiction"]["lookup"]["detail"]
    )
    assert get_job(deployment, key) == before
    assert deployment.order("invented")["status"] == "payment_pending"
    assert scenarios.count_charges(deployment, "invented") == 0
    # Stripe has no payment of this job, so the job may fail.
    failed = repair_by_page(admin_api, key, "mark-failed")
    assert (failed.status, failed.json["job"]["status"]) == (200, "failed"), failed.text


def test_large_payment_is_marked_by_two_operators(
    deployment: StackClient, admin_api: AdminApiClient
) -> None:
    left = create_unresolved_job(deployment, "large", status=Status.NEEDS_REVIEW, amount=2_000_000)
    words = ("repair", left.key, "mark-finished", "--provider-ref", left.ref, *WHY)

    requested = run_cli(deployment, *words)
    again = run_cli(deployment, *words, "--as", "somebody", code=1)
    offered = admin_api.get("/api/job", token=admin_api.token(OPERATOR), key=left.key).json
    assert get_job(deployment, left.key).status is Status.NEEDS_REVIEW
    confirmed = repair_by_page(admin_api, left.key, "mark-finished", reference=left.ref)

    assert "recorded as a request: operator requested mark-finished" in requested
    assert "you requested it yourself" in again
    reasons = {one["repair"]: one["reason"] for one in offered["repairs"]}
    assert reasons["mark-finished"].startswith("operator requested mark-finished with reference")
    assert (confirmed.status, confirmed.json["job"]["status"]) == (200, "finished"), confirmed.text
    assert confirmed.json["needs_second_operator"] is False
    assert deployment.order("large")["status"] == "paid"


def test_large_payment_is_sent_by_two_operators(
    deployment: StackClient, admin_api: AdminApiClient
) -> None:
    scenarios.put_order(deployment, "large-send", amount=2_000_000)
    key = "payment.charge:order_large-send"
    words = ("send", "payment.charge", "order_id=large-send")

    said = [run_cli(deployment, *words, code=4) for _ in range(2)]
    own = run_cli(deployment, "repair", key, "reopen", *WHY, code=1)
    held = get_job(deployment, key)
    confirmed = repair_by_page(admin_api, key, "reopen")

    assert "for a second operator: recorded as a request: operator requested reopen" in said[0]
    assert all("you requested it yourself" in again for again in (said[1], own))
    assert (held.status, held.fence, held.version) == (Status.NEEDS_REVIEW, 0, 1)
    assert (confirmed.status, confirmed.json["needs_second_operator"]) == (200, False)
    deployment.wait_for_job(key, "finished")
    assert scenarios.count_charges(deployment, "large-send") == 1
