"""A shop with its own job and provider: what it is refused, how it upgrades, and the three ways."""

from pathlib import Path
from typing import Final
from zipfile import ZipFile

from oncely.core.job_row import ENGINE_NUMBER
from tests.consumer.deployments import NEWER_ENGINE, check_deployments
from tests.consumer.oldest_versions import check_oldest_versions
from tests.consumer.refusals import check_refusals
from tests.consumer.shell import expect, install_wheel, step, synthesize

SHOP: Final = Path(__file__).with_name("shop")
PYPROJECT: Final = """\
[project]
name = "shop"
version = "0"

[tool.oncely]
jobs = ["shop_jobs.voucher_issue:VoucherIssue"]
"""


def check_shop(folder: Path, python: Path, wheel: Path) -> None:
    """Check the shop in the environment that has this wheel, and leave it there."""
    project = folder / "voucher_shop"
    extras = ("cdk", "command")
    with step("synthesize a shop with a newer engine"):
        _write_shop(project)
        install_wheel(folder, python, _build_newer_wheel(folder, wheel), extras)
        newer = synthesize(project, python, "own_stack.py", "newer.out")
        install_wheel(folder, python, wheel, extras)
    with step("synthesize it with this wheel, in each of the three ways"):
        ways = synthesize(project, python, "three_ways.py", "ways.out")
    with step("refuse the mistakes of a team"):
        check_refusals(project, python)
    check_oldest_versions(folder, project, wheel, uv=python.with_name("uv"), ways=ways)
    check_deployments(project, python.with_name("oncely"), newer=newer, ways=ways)


def _build_newer_wheel(folder: Path, wheel: Path) -> Path:
    """Copy this wheel with the next engine number, whose rows carry it in a new attribute."""
    newer = folder / "newer" / wheel.name
    newer.parent.mkdir()
    with ZipFile(wheel) as source, ZipFile(newer, "w") as copy:
        for name in source.namelist():
            text = source.read(name)
            if name == "oncely/core/job_row.py":
                number = f"ENGINE_NUMBER: Final = {ENGINE_NUMBER}\n"
                expect(text.decode(), number)
                text = text.replace(
                    number.encode(), f"ENGINE_NUMBER: Final = {NEWER_ENGINE}\n".encode()
                )
            copy.writestr(name, text)
    return newer


def _write_shop(project: Path) -> None:
    """Write the project of a team that has one job."""
    for path in sorted(SHOP.rglob("*.py")):
        copy = project / path.relative_to(SHOP)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (project / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
