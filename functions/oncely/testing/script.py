"""A schedule as a short text: only what differs from the quiet run, in the order it happened.

`payment.charge/keys: w1:store.claim!lost w2:clock#3>sweep r1:end!die` reads: the first worker's
claim arrived but its reply was lost; the second worker was held up before it looked at the clock
for the third time, while a sweep ran; the first sweep died just before it was done.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_WORD: Final = re.compile(r"(?P<actor>\w+):(?P<point>[\w.]+?)(#(?P<nth>\d+))?(?P<what>[!>]\w+)")

DIE: Final = "!die"
SLOW: Final = ">slow"  # takes all the time it has, while nothing else happens
SLEEP: Final = ">sleep"  # held up until all is quiet; then it wakes


@dataclass(frozen=True, order=True)
class CallSite:
    """A call to a port: whose, which, and for the how-manieth time."""

    process: str
    call: str
    occurrence: int

    def __str__(self) -> str:
        return f"{self.process}:{self.call}" + (
            f"#{self.occurrence}" if self.occurrence > 1 else ""
        )


@dataclass(frozen=True, order=True)
class Injection:
    """What happens at one place instead of nothing."""

    call_site: CallSite
    action: str  # "!lost" is a fault; ">sweep" lets another run first

    @property
    def is_fault(self) -> bool:
        """Whether something goes wrong; else somebody is only held up."""
        return self.action.startswith("!")

    def __str__(self) -> str:
        return f"{self.call_site}{self.action}"


Script = tuple[Injection, ...]


def format_script(scenario: str, script: Iterable[Injection]) -> str:
    """The text that `make faults REPLAY='…'` takes."""
    return " ".join([f"{scenario}:", *map(str, script)])


def parse_script(text: str) -> tuple[str, Script]:
    """The scenario's name and its script, or ValueError."""
    name, separator, rest = text.strip().partition(": ")
    if not separator:
        return name.rstrip(":"), ()
    return name, parse_injections(rest)


def parse_injections(text: str) -> Script:
    """A script without the name of its scenario, or ValueError."""
    return tuple(_parse_injection(word) for word in text.split())


def _parse_injection(word: str) -> Injection:
    found = _WORD.fullmatch(word)
    if found is None:
        raise ValueError(f"{word!r} is not written like w1:store.claim!lost or w2:clock#3>sweep")
    call_site = CallSite(found["actor"], found["point"], int(found["nth"] or 1))
    return Injection(call_site, found["what"])
