"""The daily audit is deployed only if the stage sets it, and may only read."""

import json

import pytest
from pydantic import ValidationError

from oncely_cdk.stages import OncelySettings
from tests.infra.assembly import PROD, Assembly
from tests.infra.policies import permissions

AUDIT = "PaymentAudit/Audit"


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    settings = PROD.model_copy(update={"daily_payment_audit": True})
    return Assembly.from_folder(tmp_path_factory.mktemp("audited"), settings)


def test_audit_is_off_by_default(prod: Assembly) -> None:
    assert AUDIT not in prod.functions


def test_audit_runs_daily_with_all_that_it_needs(audited: Assembly) -> None:
    variables = audited.functions[AUDIT].variables
    assert {"JOBS_TABLE", "ARCHIVE_BUCKET", "ALERT_TOPIC_ARN", "STRIPE_SECRET"} <= set(variables)


def test_audit_repeats_each_day_of_its_window(audited: Assembly) -> None:
    schedules = audited.properties("AWS::Scheduler::Schedule")
    invoked = {
        one["ScheduleExpression"]: json.loads(one["Target"]["Input"])
        for name, one in schedules.items()
        if name.startswith("PaymentAudit/")
    }
    assert invoked == {
        f"cron({2 * (day - 1)} 3 * * ? *)": {"days_ago": day} for day in range(1, 15)
    }


@pytest.mark.parametrize("days", [6, 31])
def test_window_has_limits(days: int) -> None:
    with pytest.raises(ValidationError, match="payment_audit_window_days"):
        OncelySettings.model_validate({"stage": "prod", "payment_audit_window_days": days})


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
