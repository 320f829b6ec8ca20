"""Provider events in the deployed stack, through both ways."""

import json
import statistics
import sys
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.providers.stripe.plugin import STRIPE
from oncely.providers.stripe.sandbox.api import event_for
from oncely.testing.sandbox.http_messages import new_id
from oncely_local.project import local_project
from oncely_local.stack import envelope_for
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.scenarios import charge_message, create_unknown_charge, put_order
from tests.e2e.stripe_webhook import post, sign, succeeded_event
from tests.e2e.unresolved_jobs import create_unresolved_job, get_job
from tests.support.stripe_events import envelope, stripe_event

SETTINGS: Any = local_project().settings.settings_of(STRIPE)
RULES = STRIPE.event_rules(SETTINGS)
EVENT_WAYS = ("bridge", "https")
LOST_ANSWERS = 4  # of each way
SECONDS_APART = 15  # closer failures open the provider's circuit, which holds lookups


def test_rule_patterns_match_stripe_s_events(deployment: StackClient) -> None:
    events = deployment.client("events")
    effects, later = RULES

    def matches(rule: object, body: str) -> bool:
        return bool(events.test_event_pattern(EventPattern=json.dumps(rule), Event=body)["Result"])

    (source,) = {rule.source for rule in RULES}
    for rule in RULES:
        for type_ in rule.detail_types:
            assert matches(rule.pattern, envelope(stripe_event(type_, "pi_1"), source=source))
            other = envelope(stripe_event(type_, "pi_1", account="acct_1"), source=source)
            assert not matches(rule.pattern, other)
            assert not matches(
                rule.pattern, envelope(stripe_event(type_, "pi_1"), source="aws.ses")
            )
    foreign = envelope(
        stripe_event(effects.detail_types[0], "pi_1", deployment=None), source=source
    )
    assert not matches(effects.pattern, foreign)
    assert not matches(later.pattern, envelope(stripe_event("customer.created", "cus_1")))


def test_event_finishes_payment_that_no_sweep_would_find(deployment: StackClient) -> None:
    for way in EVENT_WAYS:
        left = create_unresolved_job(deployment, f"event-{way}")
        deliver_event(deployment, left.ref, way)
        deployment.wait_for_job(left.key, "finished")


@pytest.mark.slow
def test_lost_answer_is_resolved_sooner_by_its_event_than_by_the_schedule(
    deployment: StackClient,
) -> None:
    """Measured in one run, from the lost answer to the end, as the row's evidence has both."""
    took: dict[str, list[float]] = {way: [] for way in ("schedule", *EVENT_WAYS)}
    # Spread over the minute in which the schedule fires once.
    swept = []
    for number in range(LOST_ANSWERS):
        swept.append(lose_answer(deployment, f"lost-schedule-{number}"))
        time.sleep(SECONDS_APART)
    took["schedule"] += [seconds_unknown(deployment, key) for key in swept]
    warm_up = json.dumps(stripe_event("customer.created", "cus_1"))
    assert post(deployment, warm_up, sign(warm_up)) == 200
    for way in EVENT_WAYS:
        for number in range(LOST_ANSWERS):
            key = lose_answer(deployment, f"lost-{way}-{number}")
            deliver_event(deployment, str(get_job(deployment, key).provider_ref), way)
            took[way].append(seconds_unknown(deployment, key))
            time.sleep(SECONDS_APART)

    for way, seconds in took.items():
        mean = statistics.mean(seconds)
        shown = ", ".join(f"{one:.1f}" for one in sorted(seconds))
        sys.stdout.write(f"{way}: {mean:.1f} s from the lost answer to finished ({shown})\n")
    slowest_event = max(max(took[way]) for way in EVENT_WAYS)
    assert slowest_event < statistics.mean(took["schedule"])


def deliver_event(deployment: StackClient, ref: str, way: str) -> None:
    body = succeeded_event(deployment, ref)
    if way == "https":
        assert post(deployment, body, sign(body)) == 200
        return
    sent = envelope_for(RULES, json.loads(body))
    assert sent is not None
    deployment.send("EventsQueueUrl", sent)


def lose_answer(deployment: StackClient, order_id: str) -> JobKey:
    key = JobKey(create_unknown_charge(deployment, order_id))
    assert get_job(deployment, key).status is Status.UNKNOWN, "a sweep took the worker's fault"
    return key


def seconds_unknown(deployment: StackClient, key: JobKey) -> float:
    deployment.wait_for_job(key, "finished")
    times = {one.to_status: one.at for one in get_job(deployment, key).evidence}
    return (times[Status.FINISHED] - times[Status.UNKNOWN]).total_seconds()


def test_endpoint_refuses_what_stripe_did_not_sign(deployment: StackClient) -> None:
    body = json.dumps(stripe_event("payment_intent.succeeded", "pi_1"))
    old = int(time.time()) - 301
    assert post(deployment, body, None) == 400
    assert post(deployment, body, sign(body, secret="whsec_wrong")) == 400  # not ours
    assert post(deployment, body, sign(body, at=old)) == 400
    assert post(deployment, "x" * 10_000_000, "t=1,v1=aa") == 413
    for _ in range(20):
        post(deployment, body, None)
    assert deployment.queue_depth("EventsQueueUrl") == 0


def test_replays_and_late_failures_leave_a_paid_order_paid(deployment: StackClient) -> None:
    put_order(deployment, "event-paid")
    deployment.send("PaymentsQueueUrl", charge_message("event-paid"))
    key = JobKey("payment.charge:order_event-paid")
    paid = deployment.wait_for_job(key, "finished")
    body = succeeded_event(deployment, paid["provider_ref"])
    late = body.replace("payment_intent.succeeded", "payment_intent.payment_failed")
    signed = sign(body)
    assert [post(deployment, body, signed) for _ in range(3)] == [200, 200, 200]
    assert post(deployment, late, sign(late)) == 200
    deployment.sandbox.stripe.dispute(paid["provider_ref"])
    (dispute,) = [
        one
        for one in deployment.sandbox.stripe.ledger.disputes
        if one.intent_id == paid["provider_ref"]
    ]
    opened = event_for(None, dispute, at=datetime.now(tz=UTC), new_id=new_id)
    sent = envelope_for(RULES, opened or {})
    assert sent is not None
    deployment.send("EventsQueueUrl", sent)
    # The dispute is the last event, so the others are handled as well.
    wait_for(
        lambda: any(dispute.dispute_id in one.reason for one in get_job(deployment, key).evidence),
        "the dispute is in the evidence",
    )
    assert get_job(deployment, key).status is Status.FINISHED
    assert deployment.order("event-paid")["status"] == "paid"
    assert "Deadline: respond to the provider by" in deployment.wait_for_alert(key)
