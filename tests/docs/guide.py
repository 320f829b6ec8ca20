"""docs/add-a-job.md, and a reader who follows it."""

import textwrap
from pathlib import Path
from typing import Any, Final

from oncely.contracts.job import AnyJob
from tests.docs.pages import page

GUIDE: Final = page("docs/add-a-job.md")
JOB: Final = "functions/oncely/jobs/voucher_issue.py"
JOB_LIST: Final = "functions/oncely/jobs/shipped.py"
TEST: Final = "tests/unit/test_voucher_issue.py"
_FILES: Final = frozenset({JOB, JOB_LIST, TEST})
# The first line of what a reader adds to the job.
_ADDED: Final = "# in VoucherIssue\n"
# The page leaves out the imports of its later blocks.
_IMPORTS: Final = """
from datetime import UTC, datetime, timedelta
from typing import Protocol
from oncely import *
"""


def follow_guide(clone: Path) -> None:
    """Write the guide's two files and its line into a copy of the source."""
    for name in (JOB, TEST):
        written = clone / name
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(GUIDE.file(name))
    job_list = clone / JOB_LIST
    import_line, _, entry = GUIDE.file(JOB_LIST).partition("\n\n")
    name = entry.splitlines()[1]
    before, opening, after = job_list.read_text().partition("] = (\n")
    imported = before.replace("\nSHIPPED_JOBS", f"\n{import_line}\n\nSHIPPED_JOBS", 1)
    job_list.write_text(f"{imported}{opening}{name}\n{after}")


def grow_job() -> list[type[AnyJob]]:
    """Execute the page's Python from top to bottom. Returns the job after each addition to it."""
    names: dict[str, Any] = {"__name__": "guide"}
    exec(_IMPORTS + GUIDE.file(JOB), names)  # noqa: S102  # our own page
    grown = [names["VoucherIssue"]]
    for block in GUIDE.blocks():
        if block.language != "python" or block.title in _FILES:
            continue
        added = block.text.removeprefix(_ADDED)
        is_member = added != block.text
        members = textwrap.indent(added, "    ")
        exec(f"class VoucherIssue(VoucherIssue):\n{members}" if is_member else added, names)  # noqa: S102
        if is_member:
            grown.append(names["VoucherIssue"])
    return grown
