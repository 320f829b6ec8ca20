"""The whole template: linted, without cdk-nag findings, and kept as a snapshot."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Acknowledgment, Validations
from cfnlint.api import lint  # type: ignore[import-untyped]  # it ships no types
from cfnlint.config import ManualArgs  # type: ignore[import-untyped]  # it ships no types

from app import build_app
from tests.infra.assembly import PROD, Assembly
from tests.infra.snapshots import assert_matches_snapshot

# The CDK adds dependencies that references already imply, which is harmless.
NOT_OURS = ["W3005"]


def test_cfn_lint_finds_nothing(prod: Assembly) -> None:
    found = lint(
        (prod.folder / f"{prod.stack}.template.json").read_text(encoding="utf-8"),
        config=ManualArgs(regions=["eu-west-1"], ignore_checks=NOT_OURS),
    )

    assert [str(fault) for fault in found] == []


def test_cdk_nag_findings_are_all_acknowledged_with_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acknowledged: list[Acknowledgment] = []
    monkeypatch.setattr(Validations, "acknowledge", lambda _, *rules: acknowledged.extend(rules))

    with pytest.raises(RuntimeError, match="ValidationFailed"):
        build_app(PROD, folder=tmp_path).synth()

    report = json.loads((tmp_path / "validation-report.json").read_text(encoding="utf-8"))
    found = [
        finding["ruleName"]
        for finding in report["pluginReports"][0]["violations"]
        for _ in finding["violatingConstructs"]
    ]
    assert sorted(found) == sorted(one.id for one in acknowledged)
    assert all(len(one.reason) > 40 for one in acknowledged)


def test_template_matches_snapshot(prod: Assembly) -> None:
    assert_matches_snapshot(
        "template.json", json.dumps(_mask_value(prod.template), indent=1, sort_keys=True) + "\n"
    )


def _mask_value(value: Any) -> Any:  # noqa: ANN401  # any template value
    """Mask the hashes of assets and versions, which change with every line of code."""
    match value:
        case dict():
            return {
                _mask_value(name): _mask_value(one)
                for name, one in value.items()
                if name != "Metadata"
            }
        case list():
            return [_mask_value(one) for one in value]
        case str():
            text = re.sub(r"\b[0-9a-f]{64}\b", "<hash>", value)
            return re.sub(r"(CurrentVersion[0-9A-F]{8})[0-9a-f]{32}\b", r"\1<hash>", text)
        case _:
            return value
