"""The daily audit: a function that compares a day's payments with jobs, and its schedule."""

from typing import Final

from aws_cdk import Size, TimeZone
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from oncely.operate.daily_audit import STAGGER_MINUTES, WINDOW_DAYS
from oncely.operate.job_index import BY_REFERENCE
from oncely.operate.own_tables import JOBS
from oncely_cdk import job_items
from oncely_cdk.job_function import OncelyFunction, add_schedule
from oncely_cdk.shared_resources import SharedResources

# The most that Lambda allows, for about 200,000 payments a day.
TIMEOUT_SECONDS: Final = 900
# Both sides are compared in a file.
STORAGE_MB: Final = 2048
# Searches of the night's last payments have caught up, and the history is complete.
HOUR_UTC: Final = "3"


class PaymentAudit(Construct):
    """Reads jobs, history and providers. Writes reports and alerts only."""

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        required, tables = shared.required.taking_money(), shared.tables
        self.audit = OncelyFunction(
            self,
            "Audit",
            entry="audit_payments",
            description="compares the payments of a day with the jobs",
            layers=shared.layers,
            timeout_seconds=TIMEOUT_SECONDS,
            memory_mb=shared.stage.worker_memory_mb,
            storage=Size.mebibytes(STORAGE_MB),
            providers=required.providers,
            environment={
                **shared.job_env_vars(required),
                **tables.table_env_vars(JOBS),
                **shared.provider_secrets.env_vars(required.secrets, read_only=True),
                **shared.stage.provider_env_vars(required.configured_providers),
                **shared.alerts.env_vars(),
                "ARCHIVE_BUCKET": shared.archive.name,
            },
        )
        rows = [*job_items.job_rows(required.job_types), job_items.IDENTITY]
        shared.grant_jobs(self.audit, "GetItem", "BatchGetItem", leading_keys=rows)
        self.audit.grant("dynamodb:Query", resources=tables.index_arns(JOBS, BY_REFERENCE))
        keys = shared.provider_secrets.arns(required.secrets, read_only=True)
        self.audit.grant("secretsmanager:GetSecretValue", resources=keys)
        shared.archive.grant_read_history(self.audit)
        shared.archive.grant_audits(self.audit)
        shared.alerts.grant_publish(self.audit)
        # One invocation for each day, so that the time limit is one for a day, not for the window.
        minutes = (str(day * STAGGER_MINUTES) for day in range(WINDOW_DAYS))
        add_schedule(
            self,
            "Daily",
            function=self.audit.function,
            description=f"Oncely: audit the payments of each of the last {WINDOW_DAYS} days",
            schedule=scheduler.ScheduleExpression.cron(
                hour=HOUR_UTC, minute=",".join(minutes), time_zone=TimeZone.ETC_UTC
            ),
            event={"scheduled_at": scheduler.ContextAttribute.scheduled_time},
        )
