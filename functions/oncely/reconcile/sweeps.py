"""Sweeps: executions of the reconciler's state machine, and a lease for each shard."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from oncely.aws.item_update import update_item
from oncely.core.aws_errors import translated
from oncely.core.effect_outcomes import Json

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_stepfunctions import SFNClient

# Every job type has a dot, so no job key can begin like this.
LEASE_KEY_PREFIX: Final = "sweep:"
_EXPIRY_MARGIN: Final = timedelta(days=1)


@dataclass(frozen=True)
class Sweeps:
    """Starts the state machine."""

    client: "SFNClient"
    machine_arn: str

    def start(self, sweep: Mapping[str, Json]) -> None:
        machine, text = self.machine_arn, json.dumps(dict(sweep))
        with translated("the reconciler", name=machine, check="that this role may start it"):
            self.client.start_execution(stateMachineArn=machine, input=text)


@dataclass(frozen=True)
class SweepLeases:
    """One item for each shard in the job table. No index shows them."""

    client: "DynamoDBClient"
    table: str

    def acquire(self, shard: int, *, holder: str, now: datetime, until: datetime) -> bool:
        return self._update(
            shard,
            "SET #holder = :holder, #until = :until, #expires_at = :expires_at",
            "attribute_not_exists(#job_key) OR #until <= :now OR #holder = :holder",
            holder=holder,
            until=until,
            now=now,
            expires_at=until + _EXPIRY_MARGIN,
        )

    def release(self, shard: int, *, holder: str) -> None:
        self._update(shard, "SET #until = :ended", "#holder = :holder", holder=holder, ended="")

    def _update(
        self,
        shard: int,
        update: str,
        condition: str,
        **values: Any,  # noqa: ANN401  # of a field
    ) -> bool:
        with translated(
            f"the sweep lease of shard {shard}", name=self.table, check="the job table"
        ):
            updated, _ = update_item(
                self.client,
                self.table,
                {"job_key": f"{LEASE_KEY_PREFIX}{shard}"},
                update=update,
                condition=condition,
                values=values,
            )
        return updated
