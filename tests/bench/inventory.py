"""What the production stack consists of, read from the kept template (tests/infra/snapshots)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from oncely_cdk.paths import REPOSITORY

TEMPLATE: Final = REPOSITORY / "tests" / "infra" / "snapshots" / "template.json"
_MINUTES: Final = {"rate(1 minute)": 1}


@dataclass(frozen=True)
class Inventory:
    template: Mapping[str, Any]

    @classmethod
    def from_production(cls) -> "Inventory":
        """Read the template snapshot. A test compares it with the code."""
        return cls(json.loads(TEMPLATE.read_text(encoding="utf-8")))

    def of_type(self, type_: str) -> list[Mapping[str, Any]]:
        found = self.template.get("Resources", self.template)
        return [one["Properties"] for one in found.values() if one["Type"] == type_]

    @property
    def alarm_metrics(self) -> int:
        return sum(
            sum("MetricStat" in one for one in alarm.get("Metrics", ())) or 1
            for alarm in self.of_type("AWS::CloudWatch::Alarm")
        )

    @property
    def polled_queues(self) -> int:
        mappings = self.of_type("AWS::Lambda::EventSourceMapping")
        return sum(
            "FilterCriteria" not in one and "StartingPosition" not in one for one in mappings
        )

    @property
    def history(self) -> Mapping[str, Any] | None:
        """The mapping that gathers changes for the archive."""
        for one in self.of_type("AWS::Lambda::EventSourceMapping"):
            if "StartingPosition" in one and one.get("MaximumBatchingWindowInSeconds"):
                return one
        return None

    @cached_property
    def sweep_schedule(self) -> Mapping[str, Any]:
        """The only schedule that invokes all day long."""
        schedules = self.of_type("AWS::Scheduler::Schedule")
        [sweeps] = (one for one in schedules if one["ScheduleExpression"] in _MINUTES)
        return sweeps

    @property
    def sweeps_each_month(self) -> int:
        return 30 * 24 * 60 // _MINUTES[self.sweep_schedule["ScheduleExpression"]]

    @property
    def has_execution_per_sweep(self) -> bool:
        return "Machine" in json.dumps(self.sweep_schedule["Target"]["Arn"])

    @property
    def machine(self) -> Mapping[str, Any]:
        [machine] = self.of_type("AWS::StepFunctions::StateMachine")
        found: Mapping[str, Any] = json.loads(machine["DefinitionString"])
        return found

    @property
    def idle_transitions(self) -> int:
        return len(list(_iter_states(self.machine))) if self.has_execution_per_sweep else 0

    @property
    def transitions_of_an_iteration(self) -> int:
        processors = [
            state["ItemProcessor"]
            for state in self.machine["States"].values()
            if "ItemProcessor" in state
        ]
        return len(list(_iter_states(processors[0])))


def _iter_states(machine: Mapping[str, Any]) -> Iterator[str]:
    name = machine["StartAt"]
    while name:
        yield name
        state = machine["States"][name]
        name = state.get("Default") or state.get("Next")
