"""The static files of the page, with a strict content security policy."""

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
# The browser revalidates each time.
_REVALIDATE: Final = "no-cache"
# The URL changes with the content, so the browser never revalidates.
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
    """The files of the folder, in memory. A requested name is looked up, never opened."""

    index: ApiResponse
    config: ApiResponse
    version: str
    files: Mapping[str, ApiResponse]

    @classmethod
    def load(cls, *, sign_in: str, client_id: str, stack: str, folder: Path = FOLDER) -> Self:
        """Read every file once. Their common version is a path segment of their URLs."""
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
            files={n: _file_response(n, text, policy, _IMMUTABLE) for n, text in texts.items()},
        )

    def file(self, *, version: str, file: str) -> ApiResponse:
        """One file of this version. A page of another version has to reload."""
        found = self.files.get(file) if version == self.version else None
        return found or ApiResponse.error(HTTPStatus.NOT_FOUND, "file not found: reload the page")


def content_security_policy(sign_in: str) -> str:
    """Allow only our own scripts and styles, no framing, and requests to us and the sign-in."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            f"connect-src 'self' {sign_in}",
            "base-uri 'none'",
            # Scripts handle every form. The browser never submits one.
            "form-action 'none'",
            "frame-ancestors 'none'",
            # The page's own code cannot turn text into markup or script.
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
