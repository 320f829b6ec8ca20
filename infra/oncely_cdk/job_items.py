"""The keys of our tables' items, for IAM conditions, and rights without such a condition."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from oncely.alerts.budget import ALERT_KEY_PREFIX
from oncely.core.inserter import WINDOW_KEY_PREFIX, UniqueWindow, window_values
from oncely.core.job_row import JobRow, new_job
from oncely.core.keys import JobKey
from oncely.core.profiles import EndpointGroup
from oncely.core.row_items import serialize_job
from oncely.core.table_guard import IDENTITY_KEY, LOOKUP_PREFIX
from oncely.gates.gate import gate_name
from oncely.gates.table import PAUSE_KEY_PREFIX
from oncely.plugins.provider import AnyProvider
from oncely.reconcile.sweeps import LEASE_KEY_PREFIX

IDENTITY: Final = IDENTITY_KEY
SWEEP_LEASES: Final = f"{LEASE_KEY_PREFIX}*"
# Every job type has a dot. The identity item and the sweep leases have none.
ANY_JOB: Final = "*.*:*"
ANY_ALERT_BUDGET: Final = f"{ALERT_KEY_PREFIX}*"
PAUSES: Final = [f"{PAUSE_KEY_PREFIX}*"]  # of the gate table


def gates(providers: Iterable[AnyProvider]) -> list[str]:
    """The gates of these providers."""
    return [gate_name(plugin.name, group) for plugin in providers for group in EndpointGroup]


def new_row_attributes() -> list[str]:
    """The attributes of a row that was enqueued. Only our functions write the others."""
    return sorted(serialize_job(_enqueued_job()))


def window_attributes() -> list[str]:
    """The attributes of a unique window. With others, it could be mistaken for a job."""
    job = _enqueued_job()
    window = UniqueWindow(name="any", now=job.created_at, until=job.created_at)
    return sorted(["job_key", *window_values(job, window)])


def _enqueued_job() -> JobRow:
    at = datetime.now(tz=UTC)
    return new_job(
        JobKey("any.job:1"),
        "any.job",
        {},
        now=at,
        due_at=at,
        actor="producer",
        reason="enqueued",
        owner="token",
        subject="order",
        run_at=at,
    )


def job_rows(job_types: Iterable[str]) -> list[str]:
    """The rows of these job types."""
    return [f"{job_type}:*" for job_type in job_types]


def lookup_attributes(job_types: Iterable[str]) -> list[str]:
    """The attributes of the identity item that say what is known of the lookups of these types."""
    return ["job_key", *(f"{LOOKUP_PREFIX}{job_type}" for job_type in job_types)]


def unique_windows(job_types: Iterable[str]) -> list[str]:
    """The unique windows of these job types."""
    return [f"{WINDOW_KEY_PREFIX}{job_type}:*" for job_type in job_types]


def alert_budgets(job_types: Iterable[str]) -> list[str]:
    """The items that count the alerts of these job types, whatever their cause."""
    return [f"{ALERT_KEY_PREFIX}*:{job_type}:*" for job_type in job_types]


# Roles and policies whose access to the job table is not limited to certain keys, and why, by the
# path of their construct. A test compares this with the template, and
# docs/privacy-and-security.md prints it.
WIDER_RIGHTS: Final[Mapping[str, str]] = {
    "AdminPage/Read": "shows jobs of every type, and searches them through the indexes; only reads",
    "AdminPage/Repair": "repairs and exports jobs of every type",
    "DeadLetters/Receive": "records dead letters of every job type, including types that "
    "it does not know",
    "FirstSetup/SetUp": "scans the job table once, because only an empty table gets an identity",
    "PaymentAudit/Audit": "finds jobs of every type by a reference of the provider; only reads",
    "Policies/Eraser": "erases personal data in jobs of every type, and deletes versions of "
    "archived objects; never attach it permanently",
    "Policies/Operator": "repairs jobs of every type from the command line",
    "Policies/Reader": "shows jobs of every type on the command line; only reads",
    "Reconciler/Find": "reads the index of due jobs, which has no job type in its key, and the age "
    "of due jobs",
    "Reconciler/Resolve": "resolves due jobs of every type, including types that a rollback made "
    "unknown",
    "Stream/Publish": "publishes ended jobs of every type",
}
