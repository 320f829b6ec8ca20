"""The daily audit runs in production, and may only read."""

import json

import pytest

from oncely_cdk.stages import OncelySettings
from tests.infra.assembly import Assembly
from tests.infra.policies import permissions

AUDIT = "PaymentAudit/Audit"


@pytest.fixture(name="audited")
def _audited(prod: Assembly) -> Assembly:
    return prod


def test_audit_runs_by_default_in_production_only() -> None:
    defaults = {name: OncelySettings(name=name) for name in ("prod", "dev", "local")}
    assert [name for name, one in defaults.items() if one.daily_payment_audit] == ["prod"]


def test_audit_runs_daily_with_all_that_it_needs(audited: Assembly) -> None:
    variables = audited.functions[AUDIT].variables
    assert {"JOBS_TABLE", "ARCHIVE_BUCKET", "ALERT_TOPIC_ARN", "STRIPE_SECRET"} <= set(variables)


def test_audit_repeats_each_day_of_its_window(audited: Assembly) -> None:
    schedules = audited.properties("AWS::Scheduler::Schedule").items()
    (daily,) = (one for name, one in schedules if name.startswith("PaymentAudit/"))
    minutes = ",".join(str(2 * day) for day in range(14))
    assert daily["ScheduleExpression"] == f"cron({minutes} 3 * * ? *)"
    assert json.loads(daily["Target"]["Input"]) == {
        "scheduled_at": "<aws.scheduler.scheduled-time>"
    }


def test_audit_reads_its_own_reports(audited: Assembly) -> None:
    """A difference that an earlier report has does not alert again."""
    granted = {
        one.action
        for one in permissions(audited)
        if one.role.startswith(AUDIT) and any("audits/" in str(part) for part in vars(one).values())
    }
    assert granted == {"s3:GetObject", "s3:PutObject"}


def test_audit_writes_reports_and_alerts_and_nothing_else(audited: Assembly) -> None:
    written = {
        action
        for who, action in ((one.role, one.action) for one in permissions(audited))
        if who.startswith(AUDIT)
        and not action.partition(":")[2].startswith(("Get", "BatchGet", "Query", "List", "Decrypt"))
    }
    assert written == {
        "s3:PutObject",
        "sns:Publish",
        "kms:GenerateDataKey",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "xray:PutTelemetryRecords",
        "xray:PutTraceSegments",
    }
