"""The queues, tables, secrets and permissions that the contracts require."""

from collections.abc import Iterable
from dataclasses import dataclass

from oncely.contract import AnyContract


@dataclass(frozen=True)
class RequiredResources:
    """The requirements of several contracts; each name once, sorted."""

    contracts: tuple[type[AnyContract], ...]

    @classmethod
    def from_contracts(cls, contracts: Iterable[type[AnyContract]]) -> "RequiredResources":
        """The requirements of these contracts."""
        return cls(tuple(contracts))

    def for_queue(self, queue: str) -> "RequiredResources":
        """Only those of one queue's job types."""
        return RequiredResources(
            tuple(
                contract_type
                for contract_type in self.contracts
                if contract_type.resources.queue == queue
            )
        )

    def detecting_missing_jobs(self) -> "RequiredResources":
        """Only those of job types that detect jobs whose message was never sent."""
        return RequiredResources(
            tuple(
                contract_type
                for contract_type in self.contracts
                if contract_type.detects_missing_jobs()
            )
        )

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of these job types."""
        return _sorted_unique(contract_type.resources.queue for contract_type in self.contracts)

    @property
    def tables(self) -> tuple[str, ...]:
        """The business tables that they access."""
        return _sorted_unique(
            name for contract_type in self.contracts for name in contract_type.resources.tables
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that they use."""
        return _sorted_unique(
            name for contract_type in self.contracts for name in contract_type.resources.secrets
        )

    @property
    def sends_to(self) -> tuple[str, ...]:
        """The queues that their effects send to."""
        return _sorted_unique(
            name for contract_type in self.contracts for name in contract_type.resources.sends_to
        )

    @property
    def actions(self) -> tuple[str, ...]:
        """The AWS actions of their effects, such as ses:SendEmail."""
        return _sorted_unique(
            name for contract_type in self.contracts for name in contract_type.resources.iam_actions
        )

    @property
    def publishes_events(self) -> bool:
        """Whether any of them publishes ended jobs to the event bus."""
        return any(contract_type.publishes_events for contract_type in self.contracts)


def _sorted_unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
