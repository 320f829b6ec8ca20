"""A job's own settings: declared by its contract, the same in functions and in commands."""

from typing import Annotated, Any, Final

import pytest
from pydantic import Field

from oncely import Call, JobSettings, NotConfiguredError, Succeeded
from oncely.app import app_from_env
from oncely.cli.health_checks import DeployedStack, check_job_settings
from oncely.cli.stack_environment import stack_environment
from oncely.contracts.job import AnyJob
from oncely.contracts.settings import Settings
from tests.support.cli import FakeStackConnection
from tests.unit.report_job import ReportBuild
from tests.unit.samples import NOW

WORKER: Final = {
    "QUEUE_NAME": "reports",
    "QUEUE_URL": "https://sqs/reports",
    "REJECTS_QUEUE_URL": "https://sqs/rejects",
    "MAIL_QUEUE_URL": "https://sqs/mail",
    "ALERT_TOPIC_ARN": "arn:aws:sns:alerts",
    "RETENTION_DAYS": "400",
    "JOBS_TABLE": "jobs",
    "GATES_TABLE": "gates",
}
OUTPUTS: Final = {
    "JobsTableName": "jobs",
    "GatesTableName": "gates",
    "ArchiveBucketName": "archive",
    "EventBusName": "bus",
    "RowRetentionDays": "35",
    "ReportsQueueUrl": "https://sqs/reports",
}


class ReportSettings(JobSettings):
    report_template: Annotated[str, Field(pattern=r"^t_\d+$")]
    report_api_base: str = "https://reports.example.com"
    report_pages: int = 10


class ReportFromTemplate(ReportBuild):
    sends_to = ()
    settings = ReportSettings

    def execute(self, call: Call[None]) -> Succeeded:
        settings = self.tools.job_settings(ReportSettings)
        return Succeeded(f"{settings.report_template} with {settings.report_pages} pages")


JOBS: Final[tuple[type[AnyJob], ...]] = (ReportFromTemplate,)


def test_function_reads_declared_settings() -> None:
    environ = {**WORKER, "REPORT_TEMPLATE": "t_7", "REPORT_PAGES": "3", "OTHER": "not declared"}

    app = app_from_env(environ, JOBS)

    assert app.ports.job_settings(ReportSettings) == ReportSettings(
        report_template="t_7", report_pages=3
    )
    assert set(app.settings.job_settings) == {"REPORT_TEMPLATE", "REPORT_PAGES"}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, "REPORT_TEMPLATE: Field required"),
        ({"REPORT_TEMPLATE": "7"}, "REPORT_TEMPLATE: String should match pattern"),
        ({"REPORT_TEMPLATE": "t_7", "REPORT_PAGES": "many"}, "REPORT_PAGES: Input should be a"),
    ],
)
def test_worker_with_wrong_settings_does_not_start(given: dict[str, str], fault: str) -> None:
    app = app_from_env({**WORKER, **given}, JOBS)
    with pytest.raises(NotConfiguredError, match=fault):
        _ = app.batch_processor


def test_producer_needs_no_settings() -> None:
    assert Settings.from_env({"JOBS_TABLE": "jobs"}, JOBS).job_settings == {}


def test_command_has_settings_of_stack_and_own_address() -> None:
    outputs = {
        **OUTPUTS,
        "ReportTemplateSetting": "t_7",
        "ReportApiBaseSetting": "https://eu.example.com",
    }
    local = {"REPORT_API_BASE": "http://localhost:1", "REPORT_TEMPLATE": "t_0"}

    assert stack_environment(outputs, {}, JOBS)["REPORT_API_BASE"] == "https://eu.example.com"
    found = stack_environment(outputs, local, JOBS)

    assert found["REPORT_TEMPLATE"] == "t_7", "the stack decides"
    assert found["REPORT_API_BASE"] == "http://localhost:1"


@pytest.mark.parametrize(
    ("template", "status", "message"),
    [("t_7", "ok", "complete"), ("", "broken", "REPORT_TEMPLATE: Field required")],
)
def test_doctor_checks_settings(template: str, status: str, message: str) -> None:
    connection: Any = FakeStackConnection(outputs={**OUTPUTS, "ReportTemplateSetting": template})

    (finding,) = check_job_settings(DeployedStack(connection, NOW, JOBS))

    assert (finding.status, finding.message) == (status, message)
