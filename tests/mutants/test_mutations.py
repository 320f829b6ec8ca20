"""The list of mutations does not rot: each still applies, and names tests that exist."""

import ast

import pytest

from infra import REPOSITORY
from tests.mutants.mutations import MUTATIONS, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_a_mutation_applies_exactly_once_and_leaves_code(mutation: Mutation) -> None:
    sound = (REPOSITORY / mutation.file).read_text()

    assert sound.count(mutation.old) == 1, f"mend tests/mutants/mutations.py: {mutation.name}"
    broken = sound.replace(mutation.old, mutation.new)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(sound))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_a_mutation_names_tests_that_exist(mutation: Mutation) -> None:
    paths = [one for one in mutation.caught_by if one.startswith("tests/")]

    assert paths
    assert all((REPOSITORY / path).is_file() for path in paths)


def test_no_two_mutations_have_the_same_name() -> None:
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS)
