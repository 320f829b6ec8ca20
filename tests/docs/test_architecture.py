"""docs/architecture.md says what the code says."""

import ast
import re
import tomllib
from typing import Final

import oncely
import oncely.testing
from tests.docs import change_cost
from tests.docs.pages import REPOSITORY, page

PAGE: Final = page("docs/architecture.md")
ENGINE: Final = REPOSITORY / "functions" / "oncely"
_STEP: Final = re.compile(
    r"^\| [\w ]+ \| `(?P<file>[\w/]+\.py)` \| `(?P<name>\w+)` \|", re.MULTILINE
)


def test_table_of_changes_matches_code() -> None:
    written = PAGE.text.partition(change_cost.BEGIN)[2].partition(change_cost.END)[0]

    assert written.strip() == change_cost.table().strip(), "python -m tests.docs.change_cost"


def test_walk_names_what_its_files_define() -> None:
    steps = [(found["file"], found["name"]) for found in _STEP.finditer(PAGE.text)]

    assert len(steps) > 15
    assert [step for step in steps if step[1] not in _definitions(step[0])] == []


def test_drawing_has_layers_of_import_rules_in_order() -> None:
    rules = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in rules["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    _, drawing = (block.text for block in PAGE.blocks() if block.language == "mermaid")
    drawn = [name for box in re.findall(r'\["([^"]+)"\]', drawing) for name in box.split(" · ")]

    assert drawn == [name for layer in layers for name in re.findall(r"\w+", layer)]


def _definitions(file: str) -> set[str]:
    tree = ast.parse((ENGINE / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def test_public_names_are_those_of_the_page() -> None:
    _, _, section = PAGE.text.partition("## Public names")
    table = section.partition("\n## ")[0].partition("|---|---|")[2]
    named = re.findall(r"`(\w+)`", table)

    assert sorted(named) == sorted((*oncely.__all__, *oncely.testing.__all__))
