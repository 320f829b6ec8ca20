"""The description of a CloudWatch alarm: the stack renders it, `oncely doctor` parses it."""

from dataclasses import dataclass
from typing import Final

_NEXT_STEP: Final = "Next step"
_RUNBOOK: Final = "Runbook"


@dataclass(frozen=True, kw_only=True)
class AlarmDescription:
    """What an operator reads first: the impact, a command, and a section of the runbook."""

    impact: str
    next_step: str = ""
    runbook: str = ""

    def render(self) -> str:
        """One line for each field, as CloudWatch and its emails show it."""
        return f"{self.impact}\n{_NEXT_STEP}: {self.next_step}\n{_RUNBOOK}: {self.runbook}"

    @classmethod
    def parse(cls, text: str) -> "AlarmDescription":
        """Read a rendered description. Any other text becomes the impact alone."""
        impact, *lines = text.split("\n")
        fields = dict(line.partition(": ")[::2] for line in lines)
        if set(fields) != {_NEXT_STEP, _RUNBOOK}:
            return cls(impact=text)
        return cls(impact=impact, next_step=fields[_NEXT_STEP], runbook=fields[_RUNBOOK])
