"""The page's files: only what is in the folder, under a policy that lets nothing else in."""

import json
import re
from pathlib import Path

import pytest

from read_jobs.page_files import FOLDER, INDEX, PageFiles

SIGN_IN = "https://oncely-dev-1.auth.eu-central-1.amazoncognito.com"


@pytest.fixture
def page() -> PageFiles:
    return PageFiles.of(sign_in=SIGN_IN, client_id="client-1", stack="Oncely-dev")


def test_the_page_knows_where_to_sign_in(page: PageFiles) -> None:
    assert json.loads(page.config.body) == {
        "sign_in": SIGN_IN,
        "client_id": "client-1",
        "stack": "Oncely-dev",
    }


def test_every_file_of_the_folder_is_served_as_it_is_and_kept_for_good(page: PageFiles) -> None:
    for path in FOLDER.iterdir():
        if path.name == INDEX:
            continue
        reply = page.file(version=page.version, file=path.name)

        assert reply.status == 200
        assert reply.body == path.read_text(encoding="utf-8")
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"


def test_the_page_itself_is_asked_for_each_time_and_names_the_files_of_its_version(
    page: PageFiles,
) -> None:
    named = re.findall(r'(?:src|href)="([^"#]+)"', page.index.body)

    assert {page.index.headers["cache-control"], page.config.headers["cache-control"]} == {
        "no-cache"
    }
    assert set(named) == {f"/page/{page.version}/{name}" for name in page.files}


def test_a_module_names_its_neighbours_and_so_loads_those_of_its_own_version(
    page: PageFiles,
) -> None:
    for name, reply in page.files.items():
        imported = re.findall(r'from "([^"]+)"', reply.body)

        assert all(one.startswith("./") and one[2:] in page.files for one in imported), name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../handler.py", "handler.py", "/etc/passwd", "ADMIN.JS", INDEX]
)
def test_nothing_else_is(page: PageFiles, name: str) -> None:
    assert page.file(version=page.version, file=name).status == 404


def test_a_file_of_another_version_is_not_there_and_that_is_not_kept(page: PageFiles) -> None:
    reply = page.file(version="0" * 32, file="admin.js")

    assert (reply.status, reply.headers["cache-control"]) == (404, "no-store")


def test_the_policy_lets_in_our_own_files_and_the_sign_in_only(page: PageFiles) -> None:
    policy = page.index.headers["content-security-policy"]

    assert dict(part.split(" ", 1) for part in policy.split("; ")) == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": f"'self' {SIGN_IN}",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_the_page_has_nothing_that_its_policy_forbids(page: PageFiles) -> None:
    text = page.index.body

    assert re.findall(r"<script(?![^>]*src=)[^>]*>", text) == []
    assert re.findall(r"\son\w+=|\sstyle=|<style", text) == []
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//", text) == []


def test_a_changed_file_makes_another_version_of_all(tmp_path: Path) -> None:
    def read() -> PageFiles:
        return PageFiles.of(sign_in=SIGN_IN, client_id="c", stack="s", folder=tmp_path)

    (tmp_path / INDEX).write_text('<script src="a.js">', encoding="utf-8")
    (tmp_path / "a.js").write_text("1", encoding="utf-8")
    first = read()
    (tmp_path / "a.js").write_text("2", encoding="utf-8")
    second = read()

    assert second.version != first.version
    assert second.index.headers["etag"] != first.index.headers["etag"]
