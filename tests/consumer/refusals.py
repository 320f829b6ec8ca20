"""What synthesis refuses: each mistake of a team, and the one sentence that it reads."""

import json
import re
import sys
from pathlib import Path
from typing import Final

from tests.consumer.shell import run

# Versions are those of the layers' pins.
SENTENCES: Final = {
    "package_not_shipped": (
        "the job voucher.issue imports shop_common, which is not shipped: functions have the "
        "packages of the jobs (shop_jobs), so move it into one of them"
    ),
    "package_in_no_layer": (
        "the job voucher.issue imports iniconfig, which is in no layer: add iniconfig to "
        "requirements-jobs.in, run `oncely lock`, and give `requirements='requirements-jobs.txt'`"
    ),
    "conflicting_pin": (
        "requirements-jobs.txt pins pydantic <version>, but the layer 'local' of the same "
        "functions has <version>: run `oncely lock`, which keeps to that version"
    ),
    "own_dead_letter_queue": (
        "queues has vouchers, which has its own dead-letter queue: remove that, because Oncely "
        "records each dead letter in the row of its job"
    ),
    "short_visibility": (
        "queues has vouchers with a visibility timeout of 90 s, but it must be at least 360 s for "
        "a worker that may run 60 s: otherwise a message reappears while its job still runs"
    ),
    "two_constructs": (
        "the stack Shop has two Oncely constructs, whose outputs, alarms and metrics would have "
        "the same names: put one of them into another stack"
    ),
    "missing_table": (
        "the job voucher.issue requires the table 'customers', which has no schema: give an "
        "existing one in `tables`, or name it as existing_tables.customers, or give its "
        "TableSchema in the contract's resources"
    ),
    "changed_identity": (
        "stages/local.toml: identity.tables.jobs would change from shop-jobs to a new, empty one, "
        'which abandons its data: set existing_tables.jobs = "shop-jobs", or change '
        "[identity] if the data has moved"
    ),
}


def check_refusals(project: Path, python: Path) -> None:
    """Make each mistake in the shop, and compare what synthesis says."""
    found: dict[str, str | None] = json.loads(run(project, python, "refused.py"))
    said = {name: re.sub(r"\d+\.\d+\.\d+", "<version>", str(one)) for name, one in found.items()}
    if said != SENTENCES:
        differing = [name for name in SENTENCES if said.get(name) != SENTENCES[name]]
        sys.exit("\n".join(f"{name} is refused with: {found.get(name)}" for name in differing))
