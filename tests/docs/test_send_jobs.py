"""The test that docs/send-jobs.md shows to a team runs on moto."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import page

SHOWN = "tests/test_shop.py"


@pytest.mark.parametrize(
    ("found", "broken", "result"),
    [
        ("", "", "1 passed"),
        ('"order_id": order_id}', '"order": order_id}', "1 failed"),
        ('f"payment.charge:order_{order_id}"', "order_id", "1 failed"),
    ],
    ids=["as shown", "wrong message", "wrong key"],
)
def test_shown_test_checks_service_on_moto(
    tmp_path: Path, found: str, broken: str, result: str
) -> None:
    text = page("docs/send-jobs.md").file(SHOWN)
    assert found in text
    written = tmp_path / Path(SHOWN).name
    written.write_text(text.replace(found, broken, 1) if found else text)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", written],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result in done.stdout, done.stdout + done.stderr
