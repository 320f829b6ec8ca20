"""What import-linter cannot see: vendor names in the engine, and names that mean two things."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from oncely_cdk.paths import PACKAGE, REPOSITORY

VENDORS: Final = re.compile(r"stripe|hubspot|braintree|\bSES\b|sesv2", re.IGNORECASE)
ROOTS: Final = ("functions", "infra", "tests")
# The parts that may name them: plug-ins, the jobs that use them, and what puts both together.
NOT_ENGINE: Final = ("providers", "jobs")


def test_engine_names_no_vendor() -> None:
    hits = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*"))
        if path.suffix in {".py", ".js", ".html", ".css", ".txt"}
        and path.relative_to(PACKAGE).parts[0] not in NOT_ENGINE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if VENDORS.search(line)
    ]

    assert hits == []


def test_reading_function_imports_no_repair_code() -> None:
    code = "import sys, oncely.handlers.read_jobs; print('oncely.operate.repairer' in sys.modules)"
    roots = {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=roots, capture_output=True, text=True, check=False
    )
    assert done.stdout == "False\n", done.stderr


def test_no_file_is_over_400_lines() -> None:
    sizes = {
        str(path.relative_to(REPOSITORY)): len(path.read_text(encoding="utf-8").splitlines())
        for root in ROOTS
        for path in (REPOSITORY / root).rglob("*.py")
    }

    assert {name: lines for name, lines in sizes.items() if lines > 400} == {}


def test_no_public_class_name_exists_twice() -> None:
    places = defaultdict(list)
    for root in ROOTS:
        for path in sorted((REPOSITORY / root).rglob("*.py")):
            for name in _public_types(path):
                places[name].append(str(path.relative_to(REPOSITORY)))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def _public_types(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name):
                pass
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                pass
            case _:
                continue
        # A constant is all capitals, a type variable a single letter.
        if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name) and not name.endswith("_co"):
            yield name
