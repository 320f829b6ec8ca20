"""The overview: figures by hour, reviews by cause, gates, and how much a view reads."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncely.alerts.headlines import review_cause
from oncely.aws import signals
from oncely.core.errors import UnavailableError
from oncely.gates.gate import Gate, GateState, PauseAction
from oncely.operate.overview import (
    MAX_REVIEW_GROUPS,
    MAX_REVIEWS,
    CloudWatchHourlyMetrics,
    MetricsView,
    OverviewState,
    QueuedMessages,
    Series,
    SqsQueueDepths,
)
from oncely.plugins.provider import ProviderSettings
from tests.support.fakes import START, MemoryMetrics, MemoryQueueDepths
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.job_view_fixtures import many_reviews
from tests.unit.samples import make_job

HALF_PAST = START + timedelta(minutes=30)


def metrics(**values: dict[int, float]) -> tuple[MetricsView, MemoryMetrics]:
    """The figures at half past an hour. Values are given by how many hours ago they are."""
    by_hour = {
        Series(name): {START - timedelta(hours=back): value for back, value in found.items()}
        for name, found in values.items()
    }
    world, store = InMemoryStack(), MemoryMetrics(values=by_hour)
    world.clock.time = HALF_PAST
    return world.app(hourly_metrics=store).overview.metrics(), store


def state(world: InMemoryStack, **ports: Any) -> OverviewState:  # noqa: ANN401  # ports by name
    return world.app(**ports).overview.state()


def test_seven_days_by_hour_are_one_read() -> None:
    view, store = metrics(finished={0: 1, 23: 2, 24: 4, 167: 8})

    assert (len(view.hours), view.hours[-1], view.hours[0]) == (168, START, store.reads[0][0])
    assert store.reads == [(START - timedelta(hours=167), HALF_PAST)]
    finished = view.values[Series.FINISHED]
    assert (finished[-1], finished[-24], finished[-25], finished[0]) == (1, 2, 4, 8)
    assert view.values[Series.FAILED] == (0.0,) * 168


def test_windows_have_totals_throughput_and_dedupe_rate() -> None:
    view, _ = metrics(
        finished={0: 40, 30: 100},
        failed={5: 7},
        duplicates={1: 47},
        oldest_unresolved_seconds={2: 90.0, 100: 4000.0},
    )
    windows: Any = view.to_json()["windows"]
    day, week = windows["24h"], windows["168h"]

    assert (day["totals"]["finished"], week["totals"]["finished"]) == (40, 140)
    assert (day["totals"]["oldest_unresolved_seconds"], day["duplicate_share"]) == (90.0, 0.5)
    assert week["totals"]["oldest_unresolved_seconds"] == 4000.0, "the highest, no sum"
    assert day["ended_per_hour"] == pytest.approx(47 / 23.5), "the last hour is not over"


def test_without_messages_there_is_no_dedupe_rate() -> None:
    view, _ = metrics()
    windows: Any = view.to_json()["windows"]
    assert (windows["24h"]["duplicate_share"], windows["24h"]["ended_per_hour"]) == (None, 0)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("order 9999 does not exist", "Order … does not exist."),
        ("the order says 49.00 EUR, the message 50.00", "The order says … EUR, the message …"),
        ("stripe knows 'pi_x' twice: HTTP 500 from Stripe", "Stripe knows … twice."),
        ("ada@example.com is not verified", "a***@example.com is not verified."),
        (None, "No reason was recorded."),
    ],
)
def test_cause_leaves_out_ids_amounts_and_raw_errors(reason: str | None, cause: str) -> None:
    assert review_cause(make_job(last_error=reason)) == cause


def test_reviews_are_grouped_by_type_and_cause() -> None:
    world = many_reviews(30)
    for number, (key, job) in enumerate(world.store.jobs.items()):
        world.store.jobs[key] = replace(job, last_error=f"order {number} does not exist")

    found = state(world)

    assert [(one.job_type, one.count) for one in found.reviews] == [
        ("payment.charge", 27),
        ("sync.push", 3),
    ]
    assert found.reviews[0].newest.job.job_key == "payment.charge:order_29"
    assert not found.is_partial


def test_view_reads_a_bounded_number_of_reviews_and_shows_few() -> None:
    world = many_reviews(MAX_REVIEWS + 1)
    causes = "abcdefghijkl"
    for number, (key, job) in enumerate(world.store.jobs.items()):
        world.store.jobs[key] = replace(job, last_error=f"cause {causes[number % len(causes)]}")

    found = state(world)

    assert (found.reviews_read, len(found.reviews)) == (MAX_REVIEWS, MAX_REVIEW_GROUPS)
    assert found.is_partial


def gates_of(found: OverviewState, provider: str) -> dict[str, Any]:
    (one,) = [shown for shown in found.providers if shown["name"] == provider]
    gates: Any = one["gates"]
    return {"paused": one["paused"], **{gate["group"]: gate for gate in gates}}


def test_providers_have_circuit_pause_and_rate() -> None:
    world = InMemoryStack()
    opened = GateState(opened_at=START, probe_at=START + timedelta(minutes=1))
    world.gates.change_circuit("stripe:effects", opened)
    probed = replace(opened, probe_at=START)
    world.gates.change_circuit("hubspot:lookups", probed)
    world.app().pause_switch.change("ses", PauseAction.PAUSE, actor="ada", reason="wrong sender")
    limits = {"stripe": ProviderSettings(effects_per_second=7.5)}
    gate = Gate(table=world.gates, clock=world.clock, settings=limits)

    found = state(world, gate=gate)

    stripe, hubspot = gates_of(found, "Stripe"), gates_of(found, "HubSpot")
    assert (stripe["effects"]["circuit"], stripe["effects"]["per_second"]) == ("open", 7.5)
    assert stripe["lookups"]["circuit"] == "closed"
    assert hubspot["lookups"]["circuit"] == "half_open"
    paused = gates_of(found, "Amazon SES")["paused"]
    assert (paused["actor"], paused["reason"]) == ("ada", "wrong sender")
    assert [one["name"] for one in found.providers] == ["HubSpot", "Amazon SES", "Stripe"], (
        "a provider without settings has no gates to show"
    )


def test_state_has_queues_and_what_is_held() -> None:
    world = InMemoryStack()
    world.app().pause_switch.change("mail", PauseAction.PAUSE, actor="ada", reason="a loop")
    depth = QueuedMessages(queue="mail", waiting=3, in_flight=2, delayed=1)

    shown: Any = state(world, queue_depths=MemoryQueueDepths([depth])).to_json()

    assert shown["queues"] == [{"queue": "mail", "waiting": 3, "in_flight": 2, "delayed": 1}]
    assert [one["target"] for one in shown["paused"]] == ["queue:mail"]


@dataclass
class CloudWatch:
    """Answers GetMetricData as AWS does, with one value for each metric."""

    status: str = "Complete"
    calls: list[dict[str, Any]] = field(default_factory=list)

    def get_metric_data(self, **call: Any) -> dict[str, Any]:  # noqa: ANN401  # the SDK's own form
        self.calls.append(call)
        results = [
            {"Id": one["Id"], "Timestamps": [START], "Values": [2.0], "StatusCode": self.status}
            for one in call["MetricDataQueries"]
        ]
        return {"MetricDataResults": results}


def test_page_queries_one_metric_of_each_series_in_one_request() -> None:
    client: Any = CloudWatch()

    found = CloudWatchHourlyMetrics(client, "Oncely-dev").by_hour(since=START, until=HALF_PAST)

    (call,) = client.calls
    queries = call["MetricDataQueries"]
    assert len(queries) == len(Series) == 8, "docs/costs.md says so"
    assert {frozenset(one) for one in queries} == {frozenset({"Id", "MetricStat"})}
    assert {one["MetricStat"]["Period"] for one in queries} == {3600}
    assert {one["MetricStat"]["Metric"]["Namespace"] for one in queries} == {signals.NAMESPACE}
    dimensions = [one["MetricStat"]["Metric"]["Dimensions"] for one in queries]
    assert all(one == [{"Name": "service", "Value": "Oncely-dev"}] for one in dimensions)
    maxima = [one["Id"] for one in queries if one["MetricStat"]["Stat"] != "Sum"]
    assert maxima == [Series.OLDEST_AGE]
    assert found[Series.FINISHED] == {datetime(2026, 11, 16, 3, tzinfo=UTC): 2.0}


def test_incomplete_metrics_are_not_shown_as_complete() -> None:
    client: Any = CloudWatch(status="PartialData")
    with pytest.raises(UnavailableError, match="only some of the metrics"):
        CloudWatchHourlyMetrics(client, "Oncely-dev").by_hour(since=START, until=HALF_PAST)


class Sqs:
    def get_queue_attributes(self, **call: Any) -> dict[str, Any]:  # noqa: ANN401  # the SDK's own form
        numbers = {name: str(index) for index, name in enumerate(call["AttributeNames"], start=3)}
        return {"Attributes": numbers}


def test_depth_tells_waiting_from_in_flight_and_delayed() -> None:
    client: Any = Sqs()
    (depth,) = SqsQueueDepths(client, {"mail": "https://queue"}).depths()
    assert depth == QueuedMessages(queue="mail", waiting=3, in_flight=4, delayed=5)
