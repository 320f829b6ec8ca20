"""`from oncely import …` is the whole public API, and every name of it is there."""

import ast
from pathlib import Path

import oncely


def test_every_public_name_is_importable() -> None:
    assert [name for name in oncely.__all__ if getattr(oncely, name, None) is None] == []


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(oncely.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    declared = {
        alias.name: str(node.module)
        for node in imports
        for alias in node.names
        if str(node.module).startswith("oncely.")
    }

    assert declared.keys() == set(oncely.__all__)
    assert {name: getattr(oncely, name).__module__ for name in ("App", "Contract", "Provider")} == {
        name: declared[name] for name in ("App", "Contract", "Provider")
    }


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
