"""What import-linter cannot see: vendor names in the engine, and names that mean two things."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from oncely_cdk.paths import PACKAGE, REPOSITORY

STATUS: Final = re.compile(r"\bStatus\.[A-Z]")
ROOTS: Final = ("functions", "infra", "tests")
# The parts that may name vendors: their plug-ins, the jobs that use them, the pins of their SDKs,
# and the list of AWS services in the local layer, of which SES is one.
MAY_NAME_VENDORS: Final = (
    PACKAGE / "providers",
    PACKAGE / "jobs",
    REPOSITORY / "infra" / "oncely_cdk" / "layers.py",
    REPOSITORY / "infra" / "oncely_cdk" / "requirements",
)
# One folder each. A short name counts only as a word, or as a part of a variable or a service.
VENDORS: Final = re.compile(
    "|".join(
        path.parent.name if len(path.parent.name) > 3 else rf"\b{path.parent.name}(\b|_|v\d)"
        for path in sorted(PACKAGE.glob("providers/*/plugin.py"))
    ),
    re.IGNORECASE,
)


def test_engine_constructs_and_local_runner_name_no_vendor() -> None:
    hits = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for root in (PACKAGE, REPOSITORY / "infra")
        for path in sorted(root.rglob("*"))
        if path.suffix in {".py", ".js", ".html", ".css", ".txt"}
        and not any(path.is_relative_to(one) for one in MAY_NAME_VENDORS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if VENDORS.search(line)
    ]

    assert hits == []
    for line in ("import stripe", "HubSpotApi", "ses_sender_address", '"SES"', "sesv2"):
        assert VENDORS.search(line)


def test_engine_imports_no_job_and_no_provider() -> None:
    parts = (PACKAGE / "jobs", PACKAGE / "providers")
    hits = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not any(path.is_relative_to(one) for one in parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and re.search(r"\boncely(\.| import )(jobs|providers)\b", ast.unparse(node))
    ]

    assert hits == []


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("oncely.handlers.read_jobs", r"\.operate\.repairer\b"),
        ("oncely.jobs.shipped", r"\.(sandbox|fake|testing)\b"),
    ],
)
def test_functions_load_no_unwanted_code(module: str, unwanted: str) -> None:
    code = f"import sys, {module}; print([n for n in sys.modules if n.startswith('oncely')])"
    roots = {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=roots, capture_output=True, text=True, check=False
    )
    assert module in done.stdout, done.stderr
    assert not re.search(unwanted, done.stdout)


def test_statuses_are_compared_only_by_life_cycle_or_exhaustive_match() -> None:
    """So the type checker reports every place that must handle a new status.

    The checker of histories states the life cycle a second time, independently.
    """
    hits = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}"
        for root in (PACKAGE, REPOSITORY / "infra")
        for path in sorted(root.rglob("*.py"))
        if path != PACKAGE / "history" / "checker.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare | ast.Match) and _singles_out_status(node)
    ]

    assert hits == []


def test_no_public_class_name_exists_twice() -> None:
    places = defaultdict(list)
    for root in ROOTS:
        for path in sorted((REPOSITORY / root).rglob("*.py")):
            for name in _public_types(path):
                places[name].append(str(path.relative_to(REPOSITORY)))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def _singles_out_status(node: ast.Compare | ast.Match) -> bool:
    if isinstance(node, ast.Compare):
        return STATUS.search(ast.unparse(node)) is not None
    patterns = "|".join(ast.unparse(case.pattern) for case in node.cases)
    is_exhaustive = "assert_never" in ast.unparse(node.cases[-1])
    return STATUS.search(patterns) is not None and not is_exhaustive


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
