"""Snapshots of the stack. `UPDATE_SNAPSHOTS=1` rewrites them for review."""

import os
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("snapshots")


def assert_matches_snapshot(name: str, text: str) -> None:
    kept = FOLDER / name
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        FOLDER.mkdir(exist_ok=True)
        kept.write_text(text, encoding="utf-8")
    assert kept.exists(), f"UPDATE_SNAPSHOTS=1 writes {kept}"
    assert text == kept.read_text(encoding="utf-8"), (
        f"{kept.name} differs; if that is meant, UPDATE_SNAPSHOTS=1 rewrites it for review"
    )
