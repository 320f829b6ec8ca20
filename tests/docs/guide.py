"""docs/add-a-job.md, and a reader who follows it."""

from pathlib import Path
from typing import Final

from tests.docs.pages import page

GUIDE: Final = page("docs/add-a-job.md")
CONTRACT: Final = "functions/oncely/jobs/deposit_return.py"
REGISTRY: Final = "functions/oncely/jobs/shipped.py"
TEST: Final = "tests/unit/test_deposit_return.py"


def follow_guide(clone: Path) -> None:
    """Write the guide's two files and its line into a copy of the source."""
    for name in (CONTRACT, TEST):
        written = clone / name
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(GUIDE.file(name))
    registry = clone / REGISTRY
    import_line, _, entry = GUIDE.file(REGISTRY).partition("\n\n")
    name = entry.splitlines()[1]
    before, opening, after = registry.read_text().partition("] = (\n")
    imported = before.replace("\nSHIPPED_JOBS", f"\n{import_line}\n\nSHIPPED_JOBS", 1)
    registry.write_text(f"{imported}{opening}{name}\n{after}")
