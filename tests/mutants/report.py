"""The report on random mutants: a line for each, the survivors' diffs, and the counts."""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.mutants.sites import Site


class MutantStatus(StrEnum):
    KILLED = "caught"
    TIMEOUT = "caught (timeout)"
    SURVIVED = "SURVIVED"
    JUSTIFIED = "justified"
    NOT_COVERED = "no test reaches it"
    ERROR = "TESTS DID NOT RUN"

    @property
    def is_failure(self) -> bool:
        return self in {MutantStatus.SURVIVED, MutantStatus.ERROR}


@dataclass(frozen=True)
class RandomMutantResult:
    """One mutant and its verdict; the note is a reason, or what was run."""

    site: Site
    source: str
    status: MutantStatus
    seconds: float
    note: str = ""

    def format_line(self) -> str:
        site = self.site
        change = f"{_truncate(site.old)} → {_truncate(site.new) or '(nothing)'}"
        place = f"{site.file}:{site.line}"
        text = f"{self.status:<19}{self.seconds:>6.1f} s  {place}  {site.operator}: {change}"
        return f"{text}  ({self.note})" if self.note else text

    def format_diff(self) -> str:
        return "".join(
            difflib.unified_diff(
                self.source.splitlines(keepends=True),
                self.site.apply(self.source).splitlines(keepends=True),
                self.site.file,
                f"{self.site.file} ({self.site.operator})",
                n=2,
            )
        )


def mutated_line(site: Site, source: str) -> tuple[str, str]:
    number = site.line - 1
    return source.splitlines()[number].strip(), site.apply(source).splitlines()[number].strip()


def format_summary(results: Sequence[RandomMutantResult], *, seconds: float) -> str:
    parts: list[str] = []
    for heading, verdict in (
        ("Survivors", MutantStatus.SURVIVED),
        ("Tests did not run", MutantStatus.ERROR),
    ):
        found = [result for result in results if result.status is verdict]
        if found:
            parts.append(f"\n{heading}:\n")
            parts += [f"{result.format_diff()}\n" for result in found]
    justified = [result for result in results if result.status is MutantStatus.JUSTIFIED]
    if justified:
        parts.append("\nJustified:\n")
        parts += [
            f"  {one.site.file}:{one.site.line}  {' → '.join(mutated_line(one.site, one.source))}\n"
            f"    {one.note}\n"
            for one in justified
        ]
    counts = Counter(result.status for result in results)
    listed = ", ".join(
        f"{counts[verdict]} {verdict.lower()}" for verdict in MutantStatus if counts[verdict]
    )
    parts.append(f"\n{len(results)} mutants in {seconds:.0f} s: {listed}")
    if counts[MutantStatus.SURVIVED]:
        parts.append(
            "\nWrite a test that fails with the survivor, or simplify the code; if no test can "
            "notice it, add it to tests/mutants/justified_survivors.toml with the reason."
        )
    return "".join(parts)


def _truncate(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}…"
