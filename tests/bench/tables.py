"""Tables of the pages that the benchmarks write."""

from collections.abc import Iterable


def table(head: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(
        f"| {' | '.join(line)} |".replace("  ", " ")
        for line in (head, ("---",) * len(head), *lines)
    )
