"""The daily audit is deployed only if the stage sets it, and may only read."""

import pytest

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
    schedule = audited.properties("AWS::Scheduler::Schedule")["PaymentAudit/Daily"]
    assert schedule["ScheduleExpression"] == "cron(0 3 * * ? *)"


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
