"""Lists the packages that ship to Lambda in an SBOM, and looks up their known vulnerabilities.

Run by `make audit`. Exit code 1: a package is vulnerable. 2: some packages could not be checked.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).parent.parent
SBOM: Final = REPOSITORY / ".build" / "sbom.json"
VULNERABLE: Final = 1
NOT_CHECKED: Final = 2


def shipped_requirements() -> str:
    """Return the pins of every Lambda layer. `layer-local` is for the local stack only."""
    layers = sorted((REPOSITORY / "infra" / "oncely_cdk" / "requirements").glob("layer-*.txt"))
    return "\n".join(one.read_text("utf-8") for one in layers if one.stem != "layer-local")


def verdict(report: Mapping[str, Any]) -> tuple[int, Sequence[str]]:
    """Return the exit code for a report of pip-audit, and what to print."""
    dependencies = report["dependencies"]
    # pip-audit skips packages that its database does not list, and still exits with 0.
    skipped = [one["name"] for one in dependencies if "skip_reason" in one]
    findings = [
        f"{one['name']} {one['version']}: {found['id']}, fixed in "
        f"{' or '.join(found['fix_versions']) or 'no version yet'}"
        for one in dependencies
        for found in one.get("vulns", ())
    ]
    if findings:
        return VULNERABLE, [*findings, "Raise the pins: make lock ARGS=--upgrade"]
    if skipped:
        return NOT_CHECKED, [_not_checked(f"{len(skipped)} of {len(dependencies)} packages")]
    noun = "package" if len(dependencies) == 1 else "packages"
    return 0, [f"{len(dependencies)} {noun}, no known vulnerability"]


def main() -> int:
    """Write the SBOM and print the verdict."""
    SBOM.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "requirements.txt"
        pins.write_text(shipped_requirements(), "utf-8")
        _run("cyclonedx-py", "requirements", str(pins), "--output-file", str(SBOM))
        print(f"SBOM: {SBOM.relative_to(REPOSITORY)}")
        arguments = ("--disable-pip", "--require-hashes", "-r", str(pins), "-f", "json")
        told = _run("pip-audit", *arguments, "--progress-spinner", "off", check=False)
    if not told.stdout.startswith("{"):
        print(_not_checked("the packages"), told.stderr.strip().rpartition("\n")[2], sep="\n")
        return NOT_CHECKED
    code, lines = verdict(json.loads(told.stdout))
    print(*lines, sep="\n")
    return code


def _not_checked(what: str) -> str:
    return (
        f"The vulnerability database could not be reached for {what}, so nothing is known about "
        "them. Run `make audit` again on a machine that can reach it."
    )


def _run(tool: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = (str(Path(sys.executable).parent / tool), *arguments)
    return subprocess.run(command, check=check, capture_output=True, text=True)  # noqa: S603  # our own tools


if __name__ == "__main__":
    sys.exit(main())
