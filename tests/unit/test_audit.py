"""`make audit`: a package that could not be checked never counts as safe."""

import re

import pytest

from audit import NOT_CHECKED, VULNERABLE, shipped_requirements, verdict
from oncely_cdk.paths import REPOSITORY

CLEAN = {"name": "acme", "version": "1.0", "vulns": []}
SKIPPED = {"name": "other", "skip_reason": "not found"}
VULN = {"name": "bad", "version": "2.0", "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}]}


@pytest.mark.parametrize(
    ("dependencies", "code", "text"),
    [
        ([CLEAN], 0, "1 package, no known vulnerability"),
        ([CLEAN, SKIPPED], NOT_CHECKED, "could not be reached for 1 of 2 packages"),
        ([SKIPPED, VULN], VULNERABLE, "bad 2.0: CVE-1, fixed in 2.1"),
    ],
)
def test_verdict_states_what_is_known(
    dependencies: list[dict[str, object]], code: int, text: str
) -> None:
    got, lines = verdict({"dependencies": dependencies})
    assert (got, text in "\n".join(lines)) == (code, True)


def test_shipped_requirements_hold_every_layer() -> None:
    pins = shipped_requirements()
    assert {"braintree", "pydantic", "stripe"} <= set(
        re.findall(r"^([\w-]+)==", pins, re.MULTILINE)
    )
    assert "boto3==" not in pins  # Lambda's runtime has it


def test_actions_are_pinned_by_commit() -> None:
    workflow = (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    assert "bash .ci/run" in workflow
    used = re.findall(r"uses: (\S+)", workflow)
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one)] == []
