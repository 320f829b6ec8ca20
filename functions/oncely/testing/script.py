"""A schedule as a short text: only its injections, in the order they happened.

`payment.charge/keys: w1:jobs.update_item!lost w2:clock#3>sweep r1:end!die` means: the first update
of a job row by the first worker, its claim, succeeded but its response was lost. The second worker
was delayed before it read the clock for the third time, while a sweep ran. The first sweep died
just before it ended.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_WORD: Final = re.compile(r"(?P<actor>\w+):(?P<point>[\w.]+?)(#(?P<nth>\d+))?(?P<what>[!>]\w+)")

DIE: Final = "!die"
SLOW: Final = ">slow"  # takes all its time, while nothing else happens
SLEEP: Final = ">sleep"  # delayed until no other work is left


@dataclass(frozen=True, order=True)
class CallSite:
    """A call to a port: the process, the call, and its occurrence number."""

    process: str
    call: str
    occurrence: int

    def __str__(self) -> str:
        return f"{self.process}:{self.call}" + (
            f"#{self.occurrence}" if self.occurrence > 1 else ""
        )


@dataclass(frozen=True, order=True)
class Injection:
    """A fault or a delay at one call site."""

    call_site: CallSite
    action: str  # "!lost" is a fault; ">sweep" is a delay while a sweep runs

    @property
    def is_fault(self) -> bool:
        """Whether it is a fault, not a delay."""
        return self.action.startswith("!")

    def __str__(self) -> str:
        return f"{self.call_site}{self.action}"


Script = tuple[Injection, ...]


def format_script(scenario: str, script: Iterable[Injection]) -> str:
    """Format a script for `make faults REPLAY='…'`."""
    return " ".join([f"{scenario}:", *map(str, script)])


def parse_script(text: str) -> tuple[str, Script]:
    """Parse the scenario's name and its script, or raise ValueError."""
    name, separator, rest = text.strip().partition(": ")
    if not separator:
        return name.rstrip(":"), ()
    return name, parse_injections(rest)


def parse_injections(text: str) -> Script:
    """Parse a script without the name of its scenario, or raise ValueError."""
    return tuple(_parse_injection(word) for word in text.split())


def _parse_injection(word: str) -> Injection:
    match = _WORD.fullmatch(word)
    if match is None:
        raise ValueError(f"{word!r} must have the form w1:sns.publish!lost or w2:clock#3>sweep")
    call_site = CallSite(match["actor"], match["point"], int(match["nth"] or 1))
    return Injection(call_site, match["what"])
