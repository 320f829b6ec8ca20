"""`make mutants`: break the code in a copy of the tree, and expect a test to fail."""

import argparse
import sys
from collections.abc import Sequence

from tests.mutants.named_mutants import run_named
from tests.mutants.random_mutants import MutantSelection, UsageError, run_random, seed_of_head


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.random is None and not given.at:
        if given.within or given.seed is not None or given.tests:
            parser.error("--seed, --in and --tests go with --random N or --at FILE:LINE")
        return run_named(" ".join(given.name))
    if given.name:
        parser.error("a name chooses named mutations: leave it out, or leave out --random and --at")
    choice = MutantSelection(
        count=given.random or 0,
        seed=seed_of_head() if given.seed is None else given.seed,
        files=tuple(given.within),
        at=given.at,
        tests=tuple(given.tests),
    )
    try:
        return run_random(choice)
    except UsageError as error:
        parser.error(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make mutants ARGS=…",
        description="Break the code in a copy of the tree, and see a test fail. Tries the named "
        "mutations unless --random or --at is given.",
    )
    parser.add_argument(
        "name", nargs="*", help="text in the names of the mutations to try (default: all)"
    )
    parser.add_argument(
        "--random", type=int, metavar="N", help="mutate N random places of the product"
    )
    parser.add_argument(
        "--seed", type=int, help="seed of the random choice (default: from the commit id of HEAD)"
    )
    parser.add_argument(
        "--in",
        dest="within",
        nargs="+",
        default=[],
        metavar="PATH",
        help="folders or files to mutate (default: functions)",
    )
    parser.add_argument(
        "--at", default="", metavar="FILE:LINE", help="try every mutant of one line instead"
    )
    parser.add_argument(
        "--tests",
        nargs="+",
        default=[],
        metavar="PATH",
        help="tests to run (default: those that reach the mutant)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
