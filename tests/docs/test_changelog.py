"""CHANGELOG.md and docs/adopt.md name the version of pyproject.toml."""

import re
import tomllib
from datetime import date
from typing import Final

from tests.docs.pages import REPOSITORY, page

PROJECT: Final = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))


def test_newest_entry_has_version_and_date() -> None:
    newest = re.search(r"^## (\S+) - (\S+)$", page("CHANGELOG.md").text, re.MULTILINE)

    assert newest
    assert newest[1] == PROJECT["project"]["version"]
    assert date.fromisoformat(newest[2]) > date(2026, 1, 1)


def test_adopt_names_oldest_cdk_version() -> None:
    (cdk,) = (
        one
        for one in PROJECT["project"]["optional-dependencies"]["cdk"]
        if one.startswith("aws-cdk-lib")
    )
    oldest = re.search(r">=([\d.]+)", cdk)

    assert oldest
    assert f"| aws-cdk-lib | {oldest[1]} or newer" in page("docs/adopt.md").text
