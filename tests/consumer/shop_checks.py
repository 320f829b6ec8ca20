"""A shop with its own job and provider: what it is refused, how it upgrades, and the three ways."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from hatchling import build

from tests.consumer.deployments import check_deployments
from tests.consumer.oldest_versions import check_oldest_versions
from tests.consumer.refusals import check_refusals
from tests.consumer.shell import REPOSITORY, expect, install_wheel, step, synthesize

SHOP: Final = Path(__file__).with_name("shop")
PYPROJECT: Final = """\
[project]
name = "shop"
version = "0"

[tool.oncely]
jobs = ["shop_jobs.voucher_issue:VoucherIssue"]
"""
# The first commit whose wheel a test used from a repository of its own.
FIRST_WHEEL: Final = "14c0a6596097"
# How a job sets the attribute of a row that the first wheel does not know.
SETS_NEW_ATTRIBUTE: Final = ", provider=PROVIDER.name"


def check_shop(folder: Path, python: Path, wheel: Path) -> None:
    """Check the shop in the environment that has this wheel, and leave it there."""
    project = folder / "voucher_shop"
    extras = ("cdk", "command")
    with step("synthesize a shop with the first wheel"):
        _write_shop(project)
        install_wheel(folder, python, _build_first_wheel(folder), extras)
        first = _synthesize_first(project, python)
        install_wheel(folder, python, wheel, extras)
    with step("synthesize it with this wheel, in each of the three ways"):
        ways = synthesize(project, python, "three_ways.py", "ways.out")
    with step("refuse the mistakes of a team"):
        check_refusals(project, python)
    check_oldest_versions(folder, project, wheel, uv=python.with_name("uv"), ways=ways)
    check_deployments(project, python.with_name("oncely"), first=first, ways=ways)


def _build_first_wheel(folder: Path) -> Path:
    """Build the wheel of an old commit, from the history of this repository."""
    sources = folder / "first"
    sources.mkdir()
    packed = subprocess.run(
        ["git", "archive", FIRST_WHEEL],  # noqa: S607  # wherever it is installed
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if packed.returncode:
        sys.exit(f"this clone lacks the commit {FIRST_WHEEL}: run `git fetch --unshallow`")
    subprocess.run(["tar", "-x"], cwd=sources, input=packed.stdout, check=True)  # noqa: S607  # as above
    os.chdir(sources)
    return sources / build.build_wheel(str(sources))


def _write_shop(project: Path) -> None:
    """Write the project of a team that has one job."""
    for path in sorted(SHOP.rglob("*.py")):
        copy = project / path.relative_to(SHOP)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (project / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")


def _synthesize_first(project: Path, python: Path) -> Path:
    """Synthesize with the first wheel, whose jobs cannot set the new attribute."""
    job = project / "shop_jobs" / "voucher_issue.py"
    source = job.read_text(encoding="utf-8")
    expect(source, SETS_NEW_ATTRIBUTE)
    job.write_text(source.replace(SETS_NEW_ATTRIBUTE, ""), encoding="utf-8")
    assembly = synthesize(project, python, "own_stack.py", "first.out")
    job.write_text(source, encoding="utf-8")
    return assembly
