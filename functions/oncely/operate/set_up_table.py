"""First setup and its check: the identity of the job table, before any function is updated."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncely.core.errors import OncelyError
from oncely.core.table_guard import TableIdentity

if TYPE_CHECKING:
    from oncely.core.table_guard import DynamoTableIdentity

# Names of a plan: the deployment of the rows, and the job table.
DEPLOYMENT: Final = "deployment"
JOB_TABLE: Final = "tables.jobs"


class IdentityChangedError(OncelyError):
    """The deployment would abandon data."""


class RemovedJobTypesError(OncelyError):
    """The deployment would remove or rename a job type."""


@dataclass(frozen=True, kw_only=True)
class DeploymentPlan:
    """The tables and the archive bucket that a deployment is about to use."""

    is_first: bool
    names: Mapping[str, str]
    previous: Mapping[str, str]  # of the deployment before
    expected: Mapping[str, str]  # from the stage's file, with the deployment of the rows

    @property
    def needs_identity(self) -> bool:
        """Whether the job table has rows already, according to the file or the last deployment."""
        table = self.names.get(JOB_TABLE)
        return bool(self.expected) or self.previous.get(JOB_TABLE, table) != table


@dataclass(frozen=True)
class TableInitializer:
    """Writes the identity item of an empty table. Any other table stays blocked."""

    table: "DynamoTableIdentity"
    new_identity: Callable[[], str]

    def open_for(self, plan: DeploymentPlan) -> str:
        """Return the deployment of the job table; empty if it has rows and no identity.

        A new table gets an identity only in a first deployment whose stage file has none. Raises
        IdentityChangedError if the plan abandons data.
        """
        for name, expected in sorted(plan.expected.items()):
            _refuse_change(name, expected, plan.names.get(name, expected))
        if plan.is_first and not plan.needs_identity:
            self.run()
        identity = self.table.identity()
        if identity is None:
            if not plan.needs_identity:
                return ""
            raise IdentityChangedError(
                f"the job table {plan.names.get(JOB_TABLE)} has no identity item, so it is not the "
                "table with this stage's rows. Name that one as existing_tables.jobs. For a new, "
                "empty stage, delete [identity] from its file and deploy it as a new stack"
            )
        expected = plan.expected.get(DEPLOYMENT, identity.deployment)
        _refuse_change(DEPLOYMENT, expected, identity.deployment)
        return identity.deployment

    def run(self) -> bool:
        """Write the identity of an empty table. Returns False if the table keeps what it has.

        Only `oncely restore-proofs` may declare a table that has rows and no identity.
        """
        if self.table.identity() is not None:
            return False  # the guard checks it
        if not self.table.is_empty():
            return False
        made = TableIdentity(
            deployment=self.new_identity(),
            table_id=self.table.facts().table_id,
            tag_key=self.new_identity() + self.new_identity(),
        )
        return self.table.write(made, replacing=None)


def _refuse_change(name: str, expected: str, actual: str) -> None:
    if actual != expected:
        raise IdentityChangedError(
            f"{name} is {actual}, but [identity] of the stage's file names {expected}. Correct the "
            "setting, or change [identity] if the data has moved"
        )


def refuse_removed_types(removed: Collection[str]) -> None:
    """Raise RemovedJobTypesError if the last deployment had job types that this one lacks.

    A class that is renamed changes every key of its jobs, so each of them could happen again.
    """
    if removed:
        names, one = ", ".join(sorted(removed)), min(removed)
        raise RemovedJobTypesError(
            f"{names} is no longer deployed. If its class was renamed, set job_type = {one!r} in "
            "it: under another name every job has another key, and could happen again. To remove "
            f"it, wait until `oncely list --type {one}` shows no open job, and name it in "
            "retired_job_types of the stage's file; a job that is still open then needs review"
        )
