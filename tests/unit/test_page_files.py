"""The page's files: only those of the folder, under a strict content security policy."""

import json
import re
from pathlib import Path

import pytest

from oncely.admin_page.page_files import FOLDER, INDEX, PageFiles

SIGN_IN = "https://oncely-dev-1.auth.eu-central-1.amazoncognito.com"


@pytest.fixture
def page() -> PageFiles:
    return PageFiles.load(sign_in=SIGN_IN, client_id="client-1", stack="Oncely-dev")


def test_config_names_sign_in_client_and_stack(page: PageFiles) -> None:
    stack = {"client_id": "client-1", "stack": "Oncely-dev"}
    assert json.loads(page.config.body) == {"sign_in": SIGN_IN, **stack}


def test_folder_files_are_served_unchanged_and_immutable(page: PageFiles) -> None:
    for path in FOLDER.iterdir():
        if path.name == INDEX:
            continue
        reply = page.file(version=page.version, file=path.name)

        assert (reply.status, reply.body) == (200, path.read_text(encoding="utf-8"))
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"


def test_index_is_revalidated_and_names_versioned_files(page: PageFiles) -> None:
    named = re.findall(r'(?:src|href)="([^"#]+)"', page.index.body)
    for reply in (page.index, page.config):
        assert reply.headers["cache-control"] == "no-cache"
    assert set(named) == {f"/page/{page.version}/{name}" for name in page.files}


def test_modules_import_siblings_by_relative_path(page: PageFiles) -> None:
    for name, reply in page.files.items():
        imported = re.findall(r'from "([^"]+)"', reply.body)
        assert all(one.startswith("./") and one[2:] in page.files for one in imported), name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../handler.py", "handler.py", "/etc/passwd", "ADMIN.JS", INDEX]
)
def test_unknown_file_name_is_not_found(page: PageFiles, name: str) -> None:
    assert page.file(version=page.version, file=name).status == 404


def test_file_of_other_version_is_not_found_or_cached(page: PageFiles) -> None:
    reply = page.file(version="0" * 32, file="admin.js")
    assert (reply.status, reply.headers["cache-control"]) == (404, "no-store")


def test_policy_allows_only_own_files_and_sign_in(page: PageFiles) -> None:
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


def test_index_complies_with_its_policy(page: PageFiles) -> None:
    text = page.index.body
    assert re.findall(r"<script(?![^>]*src=)[^>]*>", text) == []
    assert re.findall(r"\son\w+=|\sstyle=|<style", text) == []
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//", text) == []


def test_changed_file_changes_version_and_index_etag(tmp_path: Path) -> None:
    def read() -> PageFiles:
        return PageFiles.load(sign_in=SIGN_IN, client_id="c", stack="s", folder=tmp_path)

    (tmp_path / INDEX).write_text('<script src="a.js">', encoding="utf-8")
    (tmp_path / "a.js").write_text("1", encoding="utf-8")
    first = read()
    (tmp_path / "a.js").write_text("2", encoding="utf-8")
    second = read()

    assert second.version != first.version
    assert second.index.headers["etag"] != first.index.headers["etag"]
