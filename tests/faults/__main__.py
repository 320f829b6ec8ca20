"""`make faults`: every schedule for every scenario, planted bugs, or a comparison."""

import sys
from collections.abc import Sequence
from itertools import takewhile

from oncely.testing.__main__ import main
from tests.faults import comparison as beside
from tests.faults import planted_bugs


def run(arguments: Sequence[str]) -> int:
    replayed = arguments[-1] if "--replay" in arguments else ""
    if "--beside" in arguments or beside.COLUMN_SEPARATOR in replayed:
        return beside.main(replayed)
    if "--planted" in arguments:
        return planted_bugs.run_planted(_text_after("--planted", arguments))
    return main(["tests.faults.scenarios", *arguments])


def _text_after(option: str, arguments: Sequence[str]) -> str:
    """The words that follow an option, up to the next one."""
    following = arguments[arguments.index(option) + 1 :]
    return " ".join(takewhile(lambda word: not word.startswith("--"), following))


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
