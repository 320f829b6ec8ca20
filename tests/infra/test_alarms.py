"""Alarms link the runbook; the dashboard shows the metrics that functions emit."""

import json
import re
from collections.abc import Iterator
from typing import Any

from oncely.aws import signals
from oncely.aws.alarm_description import AlarmDescription
from oncely.contracts.settings import pascal_case
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely_cdk.paths import REPOSITORY
from tests.infra.assembly import Assembly

RUNBOOK = REPOSITORY / "docs" / "operations.md"


def alarms(assembly: Assembly) -> dict[str, dict[str, Any]]:
    found = assembly.properties("AWS::CloudWatch::Alarm")
    return {path.removeprefix("Alarms/"): alarm for path, alarm in found.items()}


def alarm_metrics(assembly: Assembly) -> Iterator[dict[str, Any]]:
    for alarm in alarms(assembly).values():
        yield alarm
        yield from (one.get("MetricStat", {}).get("Metric", {}) for one in alarm.get("Metrics", ()))


def dashboard(assembly: Assembly) -> str:
    return json.dumps(assembly.only("AWS::CloudWatch::Dashboard")["DashboardBody"])


def test_alarms_match_expected_set(prod: Assembly) -> None:
    assert set(alarms(prod)) == {
        *("OldestUnresolved", "NeedsReview", "Rejects", "DeadLetters", "HighDuplicateRate"),
        *("NothingSent", "CredentialsRejected", "Paused"),
        *("CircuitOpenHubspot", "CircuitOpenSes", "CircuitOpenStripe"),
        *("ProcessingError", "AckFailed", "PublishFailed", "Throttled", "HighFailureRate"),
        *("FunctionErrors", "FunctionThrottles", "AdminPageErrors"),
        *("ResolveFailed", "AlertFailed", "TableBlocked", "SweepFinished"),
        *(f"OldestMessage{pascal_case(kind.queue)}" for kind in SHIPPED_JOBS),
        *("OldestMessageDeadLetters", "OldestMessageRejects", "StreamRecordsDropped"),
        *("HistoryGap", "HistoryBehind", "EventsNotProcessed"),
    }


def test_only_silence_of_reconciler_breaches_on_missing_data(prod: Assembly) -> None:
    found = {k: one for k, one in alarms(prod).items() if one["TreatMissingData"] == "breaching"}

    assert set(found) == {"SweepFinished"}
    alarm = found["SweepFinished"]
    assert alarm["MetricName"] == "SweepFinished"
    assert (alarm["Period"], alarm["EvaluationPeriods"]) == (300, 2)


def test_every_alarm_notifies_and_links_runbook_with_its_command(prod: Assembly) -> None:
    _, *parts = re.split(r"^#+ ", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-"): text
        for heading, _, text in (part.partition("\n") for part in parts)
    }

    for name, alarm in alarms(prod).items():
        assert len(alarm["AlarmActions"]) == len(alarm["OKActions"]) == 1
        description = AlarmDescription.parse(alarm["AlarmDescription"])
        assert description.impact.endswith("."), name
        command, _, stack = description.next_step.partition(" --stack ")
        page, _, section = description.runbook.partition("#")
        assert (stack, page) == ("Oncely-prod", "docs/operations.md"), name
        assert command in sections[section], name


def test_description_of_another_origin_is_all_impact() -> None:
    text = "Disk full.\nCall: Sam"
    assert AlarmDescription.parse(text) == AlarmDescription(impact=text)


def test_alarms_and_dashboard_use_only_emitted_metrics(prod: Assembly, optional: Assembly) -> None:
    body = dashboard(optional).replace('\\\\\\"', '"').replace('\\"', '"')
    emitted = {
        value for name, value in vars(signals).items() if name.isupper() and isinstance(value, str)
    }
    on_board = set(re.findall(r'"Oncely","(\w+)"', body))
    in_alarms = {
        metric["MetricName"]
        for metric in alarm_metrics(prod)
        if metric.get("Namespace") == signals.NAMESPACE
    }

    assert on_board >= {signals.FINISHED, signals.DEDUPLICATED, signals.OLDEST_UNRESOLVED_AGE}
    assert in_alarms >= {signals.NEEDS_REVIEW, signals.CIRCUIT_OPEN}
    assert (on_board | in_alarms) - emitted == set()


def test_dashboard_shows_outcomes_duplicates_latency_and_depth(optional: Assembly) -> None:
    body = dashboard(optional)

    for title in ("Outcomes", "Duplicates", "Batch duration", "Messages waiting"):
        assert title in body


def test_alarms_use_metrics_of_their_own_stack(prod: Assembly) -> None:
    emitted_as = {one.variables["POWERTOOLS_SERVICE_NAME"] for one in prod.functions.values()}
    listened_to = {
        dimension["Value"]
        for metric in alarm_metrics(prod)
        for dimension in metric.get("Dimensions", ())
        if dimension["Name"] == "service"
    }

    assert emitted_as == listened_to == {"Oncely-prod"}


def test_function_alarms_count_all_functions(prod: Assembly) -> None:
    for name, metric in {"FunctionErrors": "Errors", "FunctionThrottles": "Throttles"}.items():
        alarm = alarms(prod)[name]
        assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/Lambda", metric)
        assert "Dimensions" not in alarm


def test_failure_alarm_needs_share_and_number_within_15_minutes(prod: Assembly) -> None:
    parts = alarms(prod)["HighFailureRate"]["Metrics"]
    (expression,) = (one["Expression"] for one in parts if "Expression" in one)
    counted = [one["MetricStat"] for one in parts if "MetricStat" in one]

    failed = "FILL(failed, 0)"
    share = f"{failed} > 0.05 * ({failed} + FILL(finished, 0))"
    assert expression == f"IF({failed} >= 20 AND {share}, 1, 0)"
    assert {(one["Metric"]["MetricName"], one["Period"]) for one in counted} == {
        ("Failed", 900),
        ("Finished", 900),
    }


def test_alarms_read_few_enough_metrics_for_an_idle_month(prod: Assembly) -> None:
    # CloudWatch reads at most 10 metrics per alarm; each costs 0.10 dollars a month.
    numbers = [
        sum("MetricStat" in one for one in alarm.get("Metrics", ())) or 1
        for alarm in alarms(prod).values()
    ]
    assert max(numbers) <= 10
    assert sum(numbers) <= 35
