"""Alarms say what they mean; the dashboard shows what the functions emit."""

import json
import re
from typing import Any

from oncely import signals
from oncely.jobs import CONTRACTS
from oncely.settings import pascal_case
from oncely_cdk.paths import REPOSITORY
from tests.infra.assembly import Assembly

DESCRIPTION = re.compile(
    r"\w\. Begin with: (?P<command>oncely \w+.*) --stack Oncely-prod "
    r"Runbook: docs/operations\.md#(?P<section>[a-z-]+)$"
)
RUNBOOK = REPOSITORY / "docs" / "operations.md"


def alarms(assembly: Assembly) -> dict[str, dict[str, Any]]:
    return {
        path.removeprefix("Alarms/"): alarm["Properties"]
        for path, alarm in assembly.of_type("AWS::CloudWatch::Alarm").items()
    }


def test_alarms_match_expected_set(prod: Assembly) -> None:
    assert set(alarms(prod)) == {
        *("OldestUnresolved", "NeedsReview", "Rejects", "DeadLetters", "Deduplications"),
        *("ProviderUnreachable", "NotAttempted", "ProviderRefusesUs"),
        *("FailedSweeps", "EndlessSweeps", "Broken", "ReplyFailed", "NotPublished"),
        *("NotLookedAt", "NotTold", "TableBlocked", "SweepDone"),
        *(f"OldestMessage{pascal_case(kind.resources.queue)}" for kind in CONTRACTS),
        *("OldestMessageDeadLetters", "OldestMessageRejects", "MissedByTheStream"),
        *("HistoryGap", "HistoryBehind"),
    }


def test_only_silence_of_reconciler_breaches_on_missing_data(prod: Assembly) -> None:
    breaching = {
        name for name, alarm in alarms(prod).items() if alarm["TreatMissingData"] == "breaching"
    }

    assert breaching == {"SweepDone"}
    alarm = alarms(prod)["SweepDone"]
    assert (alarm["MetricName"], alarm["Period"], alarm["EvaluationPeriods"]) == (
        "SweepDone",
        300,
        2,
    )


def test_every_alarm_names_command_and_runbook_section(
    prod: Assembly,
) -> None:
    for alarm in alarms(prod).values():
        assert len(alarm["AlarmActions"]) == len(alarm["OKActions"]) == 1
        assert DESCRIPTION.search(alarm["AlarmDescription"])


def test_every_linked_runbook_section_holds_first_command(
    prod: Assembly,
) -> None:
    _, *parts = re.split(r"^#+ ", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-"): text
        for heading, _, text in (part.partition("\n") for part in parts)
    }

    for alarm in alarms(prod).values():
        found = DESCRIPTION.search(alarm["AlarmDescription"])
        assert found is not None
        assert found["command"] in sections[found["section"]], alarm["AlarmDescription"]


def test_alarms_and_dashboard_use_only_emitted_metrics(prod: Assembly, optional: Assembly) -> None:
    (board,) = optional.of_type("AWS::CloudWatch::Dashboard").values()
    body = (
        json.dumps(board["Properties"]["DashboardBody"]).replace('\\\\\\"', '"').replace('\\"', '"')
    )
    emitted = {
        value for name, value in vars(signals).items() if name.isupper() and isinstance(value, str)
    }
    on_board = set(re.findall(r'"Oncely","(\w+)"', body))
    in_alarms = {
        metric["MetricName"]
        for alarm in alarms(prod).values()
        for metric in [
            alarm,
            *(one.get("MetricStat", {}).get("Metric", {}) for one in alarm.get("Metrics", [])),
        ]
        if metric.get("Namespace") == signals.NAMESPACE
    }

    assert on_board >= {signals.FINISHED, signals.DEDUPLICATED, signals.OLDEST_UNRESOLVED_AGE}
    assert in_alarms >= {signals.NEEDS_REVIEW, signals.PROVIDER_UNREACHABLE}
    assert (on_board | in_alarms) - emitted == set()


def test_dashboard_shows_outcomes_duplicates_latency_and_depth(
    optional: Assembly,
) -> None:
    (board,) = optional.of_type("AWS::CloudWatch::Dashboard").values()
    body = json.dumps(board["Properties"]["DashboardBody"])

    for title in ("Outcomes", "Repetitions", "How long a batch", "Messages waiting"):
        assert title in body


def test_alarms_use_metrics_of_their_own_stack(prod: Assembly) -> None:
    emitted_as = {
        function.variables["POWERTOOLS_SERVICE_NAME"] for function in prod.functions.values()
    }
    listened_to = {
        dimension["Value"]
        for alarm in alarms(prod).values()
        for metric in (
            alarm,
            *(one.get("MetricStat", {}).get("Metric", {}) for one in alarm.get("Metrics", ())),
        )
        for dimension in metric.get("Dimensions", ())
        if dimension["Name"] == "service"
    }

    assert emitted_as == listened_to == {"Oncely-prod"}
