"""Random mutants change what can matter, one place at a time, and nothing else."""

import ast
from textwrap import dedent

import pytest

from oncely_cdk.paths import REPOSITORY
from tests.mutants.sites import Site, find_sites


def sites(source: str) -> list[Site]:
    return find_sites("code.py", dedent(source))


def changes(source: str, operator: str) -> list[str]:
    text = dedent(source)
    return [site.apply(text) for site in find_sites("code.py", text) if site.operator == operator]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a == b", "a != b"),
        ("a != b", "a == b"),
        ("a < b", "a <= b"),
        ("a <= b", "a < b"),
        ("a > b", "a >= b"),
        ("a >= b", "a > b"),
        ("a is b", "a is not b"),
        ("a is not b", "a is b"),
        ("a in b", "a not in b"),
        ("a not in b", "a in b"),
    ],
)
def test_comparison_is_swapped(before: str, after: str) -> None:
    assert changes(f"x = {before}", "comparison") == [f"x = {after}"]


def test_chained_comparison_has_one_site_per_operator() -> None:
    assert changes("x = 0 <= a < b", "comparison") == ["x = 0 < a < b", "x = 0 <= a <= b"]


def test_boolean_operator_is_swapped_between_its_operands() -> None:
    assert changes("x = (a or b) and c", "boolean operator") == [
        "x = (a and b) and c",
        "x = (a or b) or c",
    ]


def test_not_is_dropped() -> None:
    assert changes("x = not (a or b)", "dropped not") == ["x = (a or b)"]


@pytest.mark.parametrize(
    "template",
    [
        "if {}:\n    act()\n",
        "x = a if {} else b",
        "x = [a for a in b if {}]",
        "match a:\n    case b if {}:\n        act()\n",
    ],
    ids=["if", "ternary", "comprehension", "guard"],
)
def test_condition_is_forced_both_ways(template: str) -> None:
    assert changes(template.format("ok(a)"), "condition") == [
        template.format("False"),
        template.format("True"),
    ]


def test_loop_is_never_forced_to_continue() -> None:
    assert changes("while more():\n    act()\n", "condition") == ["while False:\n    act()\n"]


def test_condition_that_assigns_name_is_kept() -> None:
    assert not changes("if found := look():\n    use(found)\n", "condition")


def test_constants_are_changed() -> None:
    assert changes("x = f(True, retry=False)", "boolean") == [
        "x = f(False, retry=False)",
        "x = f(True, retry=True)",
    ]
    assert changes("x = [0, 41, 0.5]", "number") == [
        "x = [1, 41, 0.5]",
        "x = [0, 42, 0.5]",
        "x = [0, 41, 1.5]",
    ]


def test_sum_becomes_difference_unless_it_joins_text() -> None:
    assert changes("x = now + lease", "arithmetic") == ["x = now - lease"]
    assert not changes("x = name + ' (late)'", "arithmetic")


def test_returned_value_is_negated_if_bool_and_none_otherwise() -> None:
    assert changes("def f() -> bool:\n    return a.ok\n", "returned value") == [
        "def f() -> bool:\n    return not (a.ok)\n"
    ]
    assert changes("def f() -> int:\n    return a.size\n", "returned value") == [
        "def f() -> int:\n    return None\n"
    ]


def test_statement_call_is_dropped_with_all_its_lines() -> None:
    assert changes("save(\n    job,\n)\ndone()\n", "dropped call") == [
        "pass\ndone()\n",
        "save(\n    job,\n)\npass\n",
    ]


def test_raise_is_dropped() -> None:
    assert changes("def f() -> None:\n    raise ValueError(1)\n", "dropped raise") == [
        "def f() -> None:\n    pass\n"
    ]


@pytest.mark.parametrize(
    "source",
    [
        '"""It is 1 == 1."""',
        '__all__ = ["a"][0:1]',
        "x: Literal[1]",
        "def f(x: Literal[1]) -> Literal[2]: ...",
        "if TYPE_CHECKING:\n    import x\n",
        'if __name__ == "__main__":\n    main()\n',
        "assert_never(x)",
        'logger.debug("x", extra=1)',
        'x = f"{a + 1}"',
        "x = zip(a, b, strict=True)",
        "@dataclass(frozen=True, kw_only=True)\nclass X: ...\n",
    ],
)
def test_irrelevant_code_has_no_site(source: str) -> None:
    assert not sites(source)


def test_limit_in_annotation_is_changed() -> None:
    assert changes("x: Annotated[int, Field(ge=1)]", "number") == ["x: Annotated[int, Field(ge=2)]"]


def test_offsets_count_characters_after_non_ascii_text() -> None:
    assert changes('x = f("größer →", a == b)', "comparison") == ['x = f("größer →", a != b)']


def test_site_is_reached_only_by_lines_of_its_statement() -> None:
    source = """\
    def f(a):
        if (
            a == 1
        ):
            act(
                a,
            )
    """
    by_operator = {site.operator: site for site in sites(source)}

    assert list(by_operator["comparison"].lines) == [2, 3, 4]
    assert by_operator["comparison"].line == 3
    assert list(by_operator["dropped call"].lines) == [5, 6, 7]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("LIMIT = 3", True),
        ("def f(limit=3): ...", True),
        ("@cache\ndef f():\n    return g(3)\n", True),
        ("def f():\n    return g(3)\n", False),
    ],
)
def test_site_runs_at_import_outside_functions(source: str, *, expected: bool) -> None:
    assert {site.at_import for site in sites(source)} == {expected}


def test_every_site_of_file_leaves_valid_code_that_differs() -> None:
    file = REPOSITORY / "functions/oncely/core/claims.py"
    source = file.read_text()
    found = find_sites(str(file), source)

    assert len(found) > 20
    assert found == find_sites(str(file), source)
    sound = ast.dump(ast.parse(source))
    assert all(ast.dump(ast.parse(site.apply(source))) != sound for site in found)
