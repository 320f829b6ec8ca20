"""Names, strings and docs use the words of docs/concepts.md.

`python -m tests.docs.test_avoid` lists every place that does not.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from oncely.cli.render_docs import generated_files
from tests.docs.pages import REPOSITORY, checked_pages

_FORMS: Final = [
    form.strip()
    for line in (Path(__file__).parent / "avoid.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
    for form in line.split(",")
]
# A hyphen belongs to a word: `self-healing` is not `healing`.
_AVOIDED: Final = re.compile(
    rf"(?<![\w-])(?:{'|'.join(map(re.escape, _FORMS))})(?![\w-])", re.IGNORECASE
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_COMMENT: Final = re.compile(r"/\*.*?\*/|(?<![:\w])//.*?$|<!--.*?-->", re.DOTALL | re.MULTILINE)
_BENCH_PAGES: Final = frozenset({"benchmarks.md", "costs.md", "scale.md"})
# The guarantees of the README and their wording are older than the glossary, and stay.
_GUARANTEE: Final = re.compile(r"\d\. ")


@dataclass(frozen=True)
class Hit:
    """A word to avoid, and where it is."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(REPOSITORY)}:{self.line}: {self.text}"


def test_docs_avoid_replaced_words() -> None:
    assert [str(hit) for hit in doc_hits()] == []


def test_product_avoids_replaced_words() -> None:
    assert [str(hit) for hit in product_hits()] == []


@pytest.mark.parametrize("text", ["told_at", "TellCallback", "It was told.", "a\nperson"])
def test_replaced_words_are_found(text: str) -> None:
    assert list(_search(Path(), 1, text))


@pytest.mark.parametrize("text", ["storyboard", "selftold", "the same person", "tellurium"])
def test_other_words_are_not_found(text: str) -> None:
    assert not list(_search(Path(), 1, text))


def doc_hits() -> Iterator[Hit]:
    """Hits in the pages that are written by hand."""
    generated = {REPOSITORY / "docs" / name for name in generated_files()}
    for one in checked_pages():
        if one.path in generated or one.path.name in _BENCH_PAGES:
            continue
        text = one.text
        if one.path.name == "README.md":
            lines = text.splitlines()
            text = "\n".join("" if _GUARANTEE.match(line) else line for line in lines)
        yield from _search(one.path, 1, text)


def product_hits() -> Iterator[Hit]:
    """Hits in the code, and in the pages that are made from it."""
    for root in ("functions", "infra"):
        for path in sorted((REPOSITORY / root).rglob("*.py")):
            yield from _search(path, 1, " ".join(_WORD.findall(path.stem)))
            yield from _python_hits(path)
    functions = REPOSITORY / "functions" / "oncely"
    for path in (*functions.rglob("static/*.js"), *functions.rglob("static/*.html")):
        yield from _search(path, 1, _COMMENT.sub(_blank, path.read_text(encoding="utf-8")))
    for path in functions.rglob("templates/*.txt"):
        yield from _search(path, 1, path.read_text(encoding="utf-8"))
    for name in _BENCH_PAGES:
        path = REPOSITORY / "docs" / name
        yield from _search(path, 1, path.read_text(encoding="utf-8"))


def _blank(comment: re.Match[str]) -> str:
    return "\n" * comment[0].count("\n")  # keeps the numbers of the lines


def _python_hits(path: Path) -> Iterator[Hit]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    help_texts = "cli" in path.parts  # typer prints docstrings
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        for name in _public_names(node):
            yield from _search(path, getattr(node, "lineno", 1), name)
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if help_texts or id(node) not in docstrings:
            yield from _search(path, node.lineno, node.value)


def _public_names(node: ast.AST) -> Iterator[str]:
    names: list[str] = []
    match node:
        case ast.FunctionDef(name=name, args=args) if not name.startswith("_"):
            every = (*args.posonlyargs, *args.args, *args.kwonlyargs)
            names = [name, *(argument.arg for argument in every)]
        case ast.ClassDef(name=name, body=body) if not name.startswith("_"):
            names = [name, *_assigned(body)]
        case ast.Module(body=body):
            names = list(_assigned(body))
        case _:
            pass
    return (name for name in names if not name.startswith("_"))


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case _:
                pass


def _search(path: Path, line: int, text: str) -> Iterator[Hit]:
    if text.isidentifier():
        text = " ".join(_WORD.findall(text))
    flat = re.sub(r"\s", " ", text)
    for found in _AVOIDED.finditer(flat):
        nearby = flat[max(found.start() - 40, 0) : found.end() + 40]
        yield Hit(path, line + text.count("\n", 0, found.start()), f"{found[0]!r} in {nearby!r}")


if __name__ == "__main__":
    for hit in (*doc_hits(), *product_hits()):
        print(hit)  # noqa: T201
