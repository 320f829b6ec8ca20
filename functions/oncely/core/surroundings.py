"""What the core asks of the parts around it: a gate may delay a job, and an alerter may alert.

Neither writes a job row or calls an effect, so neither can break what the core promises.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias

from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.profiles import EndpointGroup

# With more members than `JobType` has: the core hands it over, and does not look inside.
GatedContract: TypeAlias = Any


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Why a job may not pass its provider's gate now."""

    reason: str
    until: datetime  # when to ask again
    is_pause: bool = False  # it may last for days


class JobGate(Protocol):
    """The rate, the circuit breaker and the pauses of a job's provider, by its contract."""

    def enter(
        self,
        contract: GatedContract,
        group: EndpointGroup = EndpointGroup.EFFECTS,
        *,
        deadline: datetime | None = None,
    ) -> Hold | None:
        """Wait for a slot. Returns why there is none, if the job must wait elsewhere."""

    def give_back(self) -> None:
        """Return the slot of a run that sends nothing."""

    def hold(
        self, contract: GatedContract, group: EndpointGroup = EndpointGroup.EFFECTS
    ) -> Hold | None:
        """Why a request must not be sent now. Called right before each effect as well."""

    def held_time(self, contract: GatedContract, *, since: datetime, until: datetime) -> timedelta:
        """How long the jobs of this contract were held between two times."""


class Alerter(Protocol):
    """Alerts operators. Each method returns whether the alert was delivered, and never raises."""

    def deliver(self, review: JobRow) -> object:
        """Send the alert of a job whose row we reserved. Otherwise the row stays due."""

    def alert_conflict(self, key: JobKey, reason: str) -> bool:
        """Alert about a message that conflicts with its job."""

    def alert_orphaned_outcome(self, key: JobKey, outcome: str) -> bool:
        """Alert about an outcome whose row is gone."""

    def alert_ignored_run_at(self, job: JobRow, schedule_limit: timedelta) -> bool:
        """Alert about a run time that is not honored."""

    def alert_forged_row(self, key: JobKey, status: str) -> bool:
        """Alert about a row that none of our functions wrote."""
