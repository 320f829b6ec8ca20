"""The list of mutations does not rot: each still applies, and names tests that exist."""

import ast
from pathlib import Path

import pytest

from oncely_cdk.paths import REPOSITORY
from tests.mutants.mutation import Mutation
from tests.mutants.mutations import MUTATIONS
from tests.mutants.named_mutants import mutated


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_mutation_applies_exactly_once_and_leaves_valid_code(mutation: Mutation) -> None:
    sound = (REPOSITORY / mutation.file).read_text()

    assert sound.count(mutation.old) == 1, f"fix tests/mutants/: {mutation.name}"
    broken = sound.replace(mutation.old, mutation.new)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(sound))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_mutation_names_existing_tests(mutation: Mutation) -> None:
    paths = [one for one in mutation.killed_by if one.startswith("tests/")]

    assert paths
    assert all((REPOSITORY / path).is_file() for path in paths)


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
