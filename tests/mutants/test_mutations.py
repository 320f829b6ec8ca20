"""The list of mutations does not rot: each still applies, and names tests that exist."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from oncely_cdk.paths import REPOSITORY
from tests.mutants.mutation import Mutation
from tests.mutants.mutations import MUTATIONS
from tests.mutants.named_mutants import mutated


def paths(mutation: Mutation) -> tuple[str, ...]:
    return tuple(one for one in mutation.killed_by if one.startswith("tests/"))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_mutation_applies_exactly_once_and_leaves_valid_code(mutation: Mutation) -> None:
    sound = (REPOSITORY / mutation.file).read_text()

    assert sound.count(mutation.old) == 1, f"fix tests/mutants/: {mutation.name}"
    broken = sound.replace(mutation.old, mutation.new)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(sound))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_mutation_names_existing_tests(mutation: Mutation) -> None:
    named = paths(mutation)

    assert named
    assert all("def test_" in (REPOSITORY / path).read_text() for path in named)


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """The tests of every file from which a mutation selects some."""
    files = {one for mutation in MUTATIONS if "-k" in mutation.killed_by for one in paths(mutation)}
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
        if "-k" not in mutation.killed_by:
            continue
        text = mutation.killed_by[-1]
        tests = [one for one in collected if one.startswith(paths(mutation))]
        for word in (text, *re.findall(r"(?!and\b|or\b)[\w-]+", text)):
            assert any(map(selector(word), tests)), f"{mutation.name}: {word!r} selects no test"


def test_mutation_breaks_guard_without_breaking_names(tmp_path: Path) -> None:
    # Every test notices a NameError: that it fails would say nothing about the guard.
    for mutation in MUTATIONS:
        sound = (REPOSITORY / mutation.file).read_text()
        file = tmp_path / f"{mutation.name}.py"
        file.write_text(sound.replace(mutation.old, mutation.new))
    ruff = (sys.executable, "-m", "ruff", "check", "-q", "--isolated", "--select", "F821")
    done = subprocess.run([*ruff, tmp_path], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_mutation_names_are_unique() -> None:
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS)


def test_mutation_is_applied_in_copy_and_undone(tmp_path: Path) -> None:
    guard = Mutation("no guard", "guard.py", "if owner == mine:", "if True:", ("tests/x.py",))
    file = tmp_path / guard.file
    file.write_text("if owner == mine:\n    act()\n")

    with mutated(guard, tmp_path):
        assert file.read_text() == "if True:\n    act()\n"

    assert file.read_text() == "if owner == mine:\n    act()\n"


def test_stale_mutation_raises_instead_of_surviving(tmp_path: Path) -> None:
    stale = Mutation("no guard", "guard.py", "if owner == mine:", "if True:", ("tests/x.py",))
    (tmp_path / stale.file).write_text("act()\n")

    with pytest.raises(LookupError, match="stands 0 times"), mutated(stale, tmp_path):
        pytest.fail("nothing was broken")
