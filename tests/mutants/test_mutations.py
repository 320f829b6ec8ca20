"""Every mutation still applies, and its tests exist."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from oncely_cdk.paths import REPOSITORY
from tests.mutants.mutation import MUTATIONS, Mutation, StaleMutationError
from tests.mutants.named_mutants import mutated


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_mutation_applies_exactly_once_and_leaves_valid_code(mutation: Mutation) -> None:
    broken, whole = statements(mutation.apply(REPOSITORY)), original(mutation.file)

    # Statements of equal text are equal, and comparing all others takes long.
    changed = [ast.dump(node) for text, node in broken.items() if text not in whole]
    assert changed != [ast.dump(node) for text, node in whole.items() if text not in broken]
    assert all(has_tests(path) for path in mutation.tests)


def statements(source: str) -> dict[str, ast.stmt]:
    """The statements of a module by their text."""
    lines = source.splitlines()
    return {
        "\n".join(lines[one.lineno - 1 : one.end_lineno]): one for one in ast.parse(source).body
    }


@cache
def original(file: str) -> dict[str, ast.stmt]:
    return statements((REPOSITORY / file).read_text(encoding="utf-8"))


@cache
def has_tests(path: str) -> bool:
    return "def test_" in (REPOSITORY / path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest) -> list[str]:
    files = {one for mutation in MUTATIONS if mutation.select for one in mutation.tests}
    found = [item.nodeid for item in request.session.items]
    if files <= {test.partition("::")[0] for test in found}:
        return found  # the whole suite runs
    options = ("--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *sorted(files)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def selector(expression: str) -> Callable[[str], bool]:
    chosen = Expression.compile(expression)
    return lambda test: chosen.evaluate(lambda part, /, **_: part in test)


def test_every_word_of_selection_matches_existing_test(collected: list[str]) -> None:
    # pytest runs what an expression still matches: a test that was renamed is left out silently.
    for mutation in MUTATIONS:
        if not mutation.select:
            continue
        text = mutation.select
        tests = [one for one in collected if one.startswith(mutation.tests)]
        for word in (text, *re.findall(r"\b(?!and\b|or\b)[\w-]+", text)):
            assert any(map(selector(word), tests)), f"{mutation.name}: {word!r} selects no test"


def test_mutation_breaks_guard_without_breaking_names(tmp_path: Path) -> None:
    # Every test fails on a NameError, which would say nothing about the guard.
    for mutation in MUTATIONS:
        (tmp_path / f"{mutation.name}.py").write_text(mutation.apply(REPOSITORY))
    ruff = (sys.executable, "-m", "ruff", "check", "-q", "--isolated", "--select", "F821")
    done = subprocess.run([*ruff, tmp_path], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_mutation_names_are_unique() -> None:
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS)


GUARD = Mutation("no guard", "guard.py", "if owner == mine:", "if True:", ("test_guard.py",))


@pytest.fixture
def guarded(tmp_path: Path) -> Path:
    (tmp_path / "guard.py").write_text("if owner == mine:\n    act()\n")
    (tmp_path / "test_guard.py").touch()
    return tmp_path


def test_mutation_is_applied_in_copy_and_undone(guarded: Path) -> None:
    file = guarded / GUARD.file
    with mutated(GUARD, guarded):
        assert file.read_text() == "if True:\n    act()\n"
    assert file.read_text() == "if owner == mine:\n    act()\n"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"old": "if owner is mine:"}, "occurs 0 times in guard.py"),
        ({"file": "moved.py"}, "no such file: moved.py"),
        ({"tests": ("test_moved.py",)}, "no such file: test_moved.py"),
    ],
)
def test_stale_mutation_raises_instead_of_surviving(
    guarded: Path, change: dict[str, Any], fault: str
) -> None:
    with pytest.raises(StaleMutationError, match=fault):
        replace(GUARD, **change).apply(guarded)
