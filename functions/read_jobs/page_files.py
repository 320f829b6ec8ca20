"""The files of the page as they are served: named one by one, with a strict content policy."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self

from oncely.adapters.http_api import Reply

FOLDER: Final = Path(__file__).with_name("page")
CONFIG: Final = "config.json"

_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFiles:
    """What is in the folder, and nothing else: a name is looked up, never opened."""

    replies: Mapping[str, Reply]

    @classmethod
    def of(cls, *, sign_in: str, client_id: str, stack: str, folder: Path = FOLDER) -> Self:
        """Read every file once."""
        config = json.dumps({"sign_in": sign_in, "client_id": client_id, "stack": stack})
        files = {
            path.name: path.read_text(encoding="utf-8")
            for path in sorted(folder.glob("*"))
            if path.suffix in _TYPES
        }
        policy = content_policy(sign_in)
        return cls(
            {name: _reply(name, text, policy) for name, text in {**files, CONFIG: config}.items()}
        )

    def file(self, name: str) -> Reply:
        """One file by its name."""
        return self.replies.get(name) or Reply.error(HTTPStatus.NOT_FOUND, "there is no such page")


def content_policy(sign_in: str) -> str:
    """Scripts and styles of our own only; nobody frames the page; tokens go to the sign-in only."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            f"connect-src 'self' {sign_in}",
            "base-uri 'none'",
            f"form-action {sign_in}",
            "frame-ancestors 'none'",
            # Text can never become markup or script by way of the page's own code.
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _reply(name: str, text: str, policy: str) -> Reply:
    return Reply(
        body=text,
        headers={
            "content-type": _TYPES[Path(name).suffix],
            "content-security-policy": policy,
            # A browser asks each time whether its copy is still the one.
            "cache-control": "no-cache",
            "etag": f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"',
        },
    )
