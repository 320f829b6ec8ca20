"""Sweeps as executions of the reconciler's state machine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncely.core.aws_errors import translated
from oncely.core.effect_outcomes import Json

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient


@dataclass(frozen=True)
class Sweeps:
    """Starts the state machine."""

    client: "SFNClient"
    machine_arn: str

    def start(self, sweep: Mapping[str, Json]) -> None:
        machine, text = self.machine_arn, json.dumps(dict(sweep))
        with translated("the reconciler", name=machine, check="that this role may start it"):
            self.client.start_execution(stateMachineArn=machine, input=text)
