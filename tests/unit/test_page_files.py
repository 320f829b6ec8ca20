"""The page's files: only what is in the folder, under a policy that lets nothing else in."""

import json
import re
from pathlib import Path

import pytest

from read_jobs.page_files import FOLDER, PageFiles

SIGN_IN = "https://oncely-dev-1.auth.eu-central-1.amazoncognito.com"


@pytest.fixture
def page() -> PageFiles:
    return PageFiles.of(sign_in=SIGN_IN, client_id="client-1", stack="Oncely-dev")


def test_the_page_knows_where_to_sign_in(page: PageFiles) -> None:
    assert json.loads(page.file("config.json").body) == {
        "sign_in": SIGN_IN,
        "client_id": "client-1",
        "stack": "Oncely-dev",
    }


def test_every_file_of_the_folder_is_served_as_it_is(page: PageFiles) -> None:
    for path in FOLDER.iterdir():
        reply = page.file(path.name)

        assert reply.status == 200
        assert reply.body == path.read_text(encoding="utf-8")
        assert reply.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../handler.py", "handler.py", "/etc/passwd", "INDEX.HTML"]
)
def test_nothing_else_is(page: PageFiles, name: str) -> None:
    assert page.file(name).status == 404


def test_the_policy_lets_in_our_own_files_and_the_sign_in_only(page: PageFiles) -> None:
    policy = page.file("index.html").headers["content-security-policy"]

    assert dict(part.split(" ", 1) for part in policy.split("; ")) == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": f"'self' {SIGN_IN}",
        "base-uri": "'none'",
        "form-action": SIGN_IN,
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_the_page_has_nothing_that_its_policy_forbids(page: PageFiles) -> None:
    text = page.file("index.html").body

    assert re.findall(r"<script(?![^>]*src=)[^>]*>", text) == []
    assert re.findall(r"\son\w+=|\sstyle=|<style", text) == []
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//", text) == []


def test_a_changed_file_has_another_tag(tmp_path: Path) -> None:
    def tag() -> str:
        files = PageFiles.of(sign_in=SIGN_IN, client_id="c", stack="s", folder=tmp_path)
        return files.file("a.js").headers["etag"]

    (tmp_path / "a.js").write_text("1", encoding="utf-8")
    first = tag()
    (tmp_path / "a.js").write_text("2", encoding="utf-8")

    assert tag() != first
