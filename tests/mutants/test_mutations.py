"""The list of mutations does not rot: each still applies, and names tests that exist."""

import ast
from pathlib import Path

import pytest

from infra import REPOSITORY
from tests.mutants.mutation import Mutation
from tests.mutants.mutations import MUTATIONS
from tests.mutants.named import mutated


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_a_mutation_applies_exactly_once_and_leaves_code(mutation: Mutation) -> None:
    sound = (REPOSITORY / mutation.file).read_text()

    assert sound.count(mutation.old) == 1, f"fix tests/mutants/: {mutation.name}"
    broken = sound.replace(mutation.old, mutation.new)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(sound))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_a_mutation_names_tests_that_exist(mutation: Mutation) -> None:
    paths = [one for one in mutation.caught_by if one.startswith("tests/")]

    assert paths
    assert all((REPOSITORY / path).is_file() for path in paths)


def test_no_two_mutations_have_the_same_name() -> None:
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS)


def test_a_guard_is_broken_in_the_copy_only_and_mended_after(tmp_path: Path) -> None:
    guard = Mutation("no guard", "guard.py", "if owner == mine:", "if True:", ("tests/x.py",))
    file = tmp_path / guard.file
    file.write_text("if owner == mine:\n    act()\n")

    with mutated(guard, tmp_path):
        assert file.read_text() == "if True:\n    act()\n"

    assert file.read_text() == "if owner == mine:\n    act()\n"


def test_a_mutation_whose_text_is_gone_is_an_error_and_not_a_survivor(tmp_path: Path) -> None:
    stale = Mutation("no guard", "guard.py", "if owner == mine:", "if True:", ("tests/x.py",))
    (tmp_path / stale.file).write_text("act()\n")

    with pytest.raises(LookupError, match="stands 0 times"), mutated(stale, tmp_path):
        pytest.fail("nothing was broken")
