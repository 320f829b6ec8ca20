"""The payment job beside what people use today, under the same schedules, by kind of wrong."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import Pool
from typing import Final

from oncely.domain.lifecycle import Status
from oncely.testing.__main__ import tell
from oncely.testing.explorer import Begin, Bound, Explorer, shrunk
from oncely.testing.ground import Ground
from oncely.testing.scenario import Scenario
from oncely.testing.script import Script, read, written
from oncely.testing.world import World
from tests.faults.kinds import Wrong, wrongs
from tests.faults.powertools_job import WAYS
from tests.faults.powertools_world import PowertoolsWorld, explored_time
from tests.faults.scenarios import SCENARIOS
from tests.faults.truths import KEY

BY: Final = " by "  # between a scenario and a column, in a script
ONCELY: Final = "Oncely"
NAMES: Final = (ONCELY, *(way.name for way in WAYS))
# What a payment provider may be like; a look-up's lag concerns only who looks.
PROVIDERS: Final = {
    "keys": "a provider that honours keys",
    "no-keys": "a provider without keys",
    "short-window": "keys that last 30 minutes",
    "declined": "a declined card",
    "edited": "an order that changes meanwhile",
    "outage": "an outage of an hour that begins with the charge",
}
BOUND: Final = Bound(changes=2, schedules=1000)


@dataclass
class Column:
    """What one way of writing the job came to."""

    name: str
    schedules: int = 0
    broken: int = 0
    by_faults_alone: int = 0  # of these, without anybody held up
    wrongs: Counter[str] = field(default_factory=Counter)
    providers: Counter[str] = field(default_factory=Counter)  # broken, with each of them
    shortest: dict[str, str] = field(default_factory=dict)  # a script of each kind

    def add(self, other: "Column") -> None:
        """What it came to with another provider, or in another process."""
        self.schedules += other.schedules
        self.broken += other.broken
        self.by_faults_alone += other.by_faults_alone
        self.wrongs += other.wrongs
        self.providers += other.providers
        self.shortest = {**other.shortest, **self.shortest}


class OncelyWorld(World):
    """The shipped services; what a customer would notice is named before the rest."""

    def expire(self) -> None:
        """Judge what the deliveries came to, before the rows go."""
        self.problems += self._wrongs()
        super().expire()

    def broken(self) -> list[str]:
        return [*self._wrongs(), *super().broken()]

    def _wrongs(self) -> list[Wrong]:
        job = self.job(KEY)
        told = job is not None and job.status is Status.NEEDS_REVIEW
        return list(wrongs(self, (), told=told, lost=job is None))


class Count(Explorer):
    """Plays every schedule to its end and counts, instead of looking for a few and shrinking."""

    def __init__(self, scenario: Scenario, bound: Bound, begin: Begin, name: str) -> None:
        super().__init__(scenario, bound, begin=begin)
        self.merges = False
        self.column = Column(name)

    def judge(self, world: Ground, script: Script, problems: list[str]) -> None:
        self.column.schedules += 1
        if not problems:
            return
        self.column.broken += 1
        self.column.providers[self.scenario.name] += 1
        self.column.by_faults_alone += all(change.is_fault for change in script)
        for problem in set(problems):
            self.column.wrongs[problem] += 1
            # The simple schedules come first.
            self.column.shortest.setdefault(problem, written(self.scenario.name, script))


def compare(bound: Bound = BOUND, providers: Iterable[str] = PROVIDERS) -> list[Column]:
    """Every way under the same bound, with each provider; in two processes."""
    columns = {name: Column(name) for name in NAMES}
    parts = [(provider, name) for provider in providers for name in NAMES]
    with Pool(2) as pool:
        for part in pool.imap_unordered(partial(count, bound), parts):
            columns[part.name].add(part)
    return list(columns.values())


def table(columns: Sequence[Column]) -> str:
    """Side by side, as Markdown."""
    kinds = [*Wrong, *sorted({kind for one in columns for kind in one.wrongs} - set(Wrong))]
    rows = [
        ("", *(one.name for one in columns)),
        ("---", *("---:" for _ in columns)),
        ("schedules", *(f"{one.schedules:,}" for one in columns)),
        ("of these break the promise", *(f"{one.broken:,}" for one in columns)),
        ("by crashes and lost answers alone", *(f"{one.by_faults_alone:,}" for one in columns)),
        *((kind, *(f"{one.wrongs[kind]:,}" for one in columns)) for kind in kinds),
        *(
            (f"broken with {words}", *(f"{one.providers[_full(name)]:,}" for one in columns))
            for name, words in PROVIDERS.items()
        ),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def begin(name: str) -> Begin:
    """Whose workers a column explores."""
    for way in WAYS:
        if way.name == name:
            return partial(PowertoolsWorld, way=way)
    return OncelyWorld


def main(replayed: str = "") -> int:
    """The table, and a schedule of each kind; 1 if one breaks Oncely's promise."""
    if replayed:
        return replay(replayed)
    columns = compare()
    sys.stdout.write(f"{table(columns)}\n")
    for column in columns:
        for wrong, script in column.shortest.items():
            sys.stdout.write(f"\n{column.name}: {wrong}\n  REPLAY='{script}'\n")
    return 1 if columns[0].broken else 0


def replay(text: str) -> int:
    """Play a schedule of any column again: `payment.charge/keys by Powertools, order_id: …`."""
    name, script = read(text)
    scenario, _, column = name.partition(BY)
    with explored_time():
        named = replace(_scenario(scenario), name=name)
        return tell(named, script, begin=begin(column))


def count(bound: Bound, part: tuple[str, str]) -> Column:
    """One provider with one way of writing the job."""
    provider, name = part
    scenario = _scenario(_full(provider))
    with explored_time():
        counted = Count(scenario, bound, begin(name), name)
        counted.explore()
        column = counted.column
        column.shortest = {
            wrong: _shortened(scenario, script, name) for wrong, script in column.shortest.items()
        }
    return column


def _shortened(scenario: Scenario, script: str, name: str) -> str:
    short = shrunk(scenario, read(script)[1], begin=begin(name))
    return written(f"{scenario.name}{BY}{name}", short)


def _full(provider: str) -> str:
    return f"payment.charge/{provider}"


def _scenario(name: str) -> Scenario:
    return next(one for one in SCENARIOS if one.name == name)
