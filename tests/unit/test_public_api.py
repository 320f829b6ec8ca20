"""`from oncely import …` and `from oncely_cdk import …` are the whole public API."""

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import oncely
import oncely_cdk


@pytest.mark.parametrize("package", [oncely, oncely_cdk], ids=lambda package: package.__name__)
def test_every_public_name_is_importable_and_has_its_type(package: ModuleType) -> None:
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    declared = {
        alias.name: str(node.module)
        for node in imports
        for alias in node.names
        if str(node.module).startswith(f"{package.__name__}.")
    }

    assert declared.keys() == set(package.__all__)
    for name, module in declared.items():
        value = getattr(package, name)
        assert value is getattr(import_module(module), name), name


def test_shipped_jobs_use_only_public_api() -> None:
    """A team's own job can do whatever a shipped one does."""
    jobs = Path(oncely.__file__).parent / "jobs"
    private = {
        f"{path.name}: {node.module}"
        for path in jobs.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("oncely.")
        if not str(node.module).startswith(("oncely.jobs", "oncely.providers."))
    }

    assert private == set()
