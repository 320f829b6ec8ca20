"""`make faults`: every schedule for every scenario, or a comparison with Powertools."""

import sys
from collections.abc import Sequence

from oncely.testing.__main__ import main
from tests.faults import comparison as beside


def run(arguments: Sequence[str]) -> int:
    replayed = arguments[-1] if "--replay" in arguments else ""
    if "--beside" in arguments or beside.COLUMN_SEPARATOR in replayed:
        return beside.main(replayed)
    return main(["tests.faults.scenarios", *arguments])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
