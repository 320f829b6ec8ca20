"""The files of the page as they are served: named one by one, with a strict content policy."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self

from oncely.admin_page.http_api import ApiResponse

FOLDER: Final = Path(__file__).with_name("static")
INDEX: Final = "index.html"
# A browser asks each time whether its copy is still the one.
_REVALIDATE: Final = "no-cache"
# The address changes with the content, so a browser that has it never asks again.
_IMMUTABLE: Final = "public, max-age=31536000, immutable"

_CONTENT_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFiles:
    """What is in the folder, and nothing else: a name is looked up, never opened."""

    index: ApiResponse
    config: ApiResponse
    version: str
    files: Mapping[str, ApiResponse]

    @classmethod
    def load(cls, *, sign_in: str, client_id: str, stack: str, folder: Path = FOLDER) -> Self:
        """Read every file once; together they are one version, which is a folder to a browser."""
        texts = {
            path.name: path.read_text(encoding="utf-8")
            for path in sorted(folder.glob("*"))
            if path.suffix in _CONTENT_TYPES
        }
        version = _digest(json.dumps(texts))
        index = texts.pop(INDEX)
        for name in texts:
            index = index.replace(f'"{name}"', f'"/page/{version}/{name}"')
        config = json.dumps({"sign_in": sign_in, "client_id": client_id, "stack": stack})
        policy = content_security_policy(sign_in)
        return cls(
            index=_file_response(INDEX, index, policy, _REVALIDATE),
            config=_file_response("config.json", config, policy, _REVALIDATE),
            version=version,
            files={
                name: _file_response(name, text, policy, _IMMUTABLE) for name, text in texts.items()
            },
        )

    def file(self, *, version: str, file: str) -> ApiResponse:
        """One file of this version by its name; a page of another version loads itself anew."""
        found = self.files.get(file) if version == self.version else None
        return found or ApiResponse.error(HTTPStatus.NOT_FOUND, "there is no such file")


def content_security_policy(sign_in: str) -> str:
    """Scripts and styles of our own only; nobody frames the page; tokens go to the sign-in only."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            f"connect-src 'self' {sign_in}",
            "base-uri 'none'",
            # Scripts take every form; none is ever sent by the browser itself.
            "form-action 'none'",
            "frame-ancestors 'none'",
            # Text can never become markup or script by way of the page's own code.
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _file_response(name: str, text: str, policy: str, caching: str) -> ApiResponse:
    return ApiResponse(
        body=text,
        headers={
            "content-type": _CONTENT_TYPES[Path(name).suffix],
            "content-security-policy": policy,
            "cache-control": caching,
            "etag": f'"{_digest(text)}"',
        },
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
