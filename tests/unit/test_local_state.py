"""How tools find the local stack, and how it detects changes."""

import json
import os
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.testing.local import LocalFixtures
from oncely_local import deploy as deploy_module
from oncely_local.deploy import source_digest
from oncely_local.project import LocalProject
from oncely_local.redeploy import RunningStack, advertise, package_engine

HERE = RunningStack(
    pid=os.getpid(),
    endpoint="http://127.0.0.1:1",
    providers="http://127.0.0.1:2",
    outputs={"JobsTableName": "jobs"},
    code="c",
    shape="s",
)
# Larger than any process id.
NOBODY = 2**22 + 1


def test_stack_is_found_while_running(tmp_path: Path) -> None:
    file = tmp_path / "build" / "local.json"
    with advertise(HERE, file):
        assert RunningStack.find(file) == HERE
    assert RunningStack.find(file) is None


def test_stack_is_not_found_when_its_process_died(tmp_path: Path) -> None:
    file = tmp_path / "local.json"
    file.write_text(json.dumps({**json.loads(write_state(HERE, tmp_path)), "pid": NOBODY}))
    assert RunningStack.find(file) is None


def write_state(running: RunningStack, folder: Path) -> str:
    running.write(folder / "other.json")
    return (folder / "other.json").read_text()


@pytest.mark.parametrize("content", ["", "[]", '{"pid": 1}', "not JSON"])
def test_stack_is_not_found_when_file_is_malformed(tmp_path: Path, content: str) -> None:
    file = tmp_path / "local.json"
    file.write_text(content)
    assert RunningStack.find(file) is None


def test_digest_covers_code_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = LocalProject(tmp_path, SHIPPED_JOBS, LocalFixtures())
    monkeypatch.setattr(deploy_module, "local_project", lambda: project)
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("a")
    before = source_digest([one])

    two.write_text("a")
    assert source_digest([two]) != before
    assert source_digest([one, one]) == before
    one.write_text("b")
    assert source_digest([one]) != before


def test_stack_sources_exclude_local_runner() -> None:
    names = {str(path) for path in deploy_module.synthesis_inputs()}
    assert not any("/oncely_local/" in name or "__pycache__" in name for name in names)
    assert any(name.endswith("functions/oncely/handlers/process_queue.py") for name in names)
    assert any(name.endswith("infra/oncely_cdk/stack.py") for name in names)


def test_stack_is_derived_from_every_named_source() -> None:
    names = [str(path) for path in deploy_module.stack_sources()]
    for part in deploy_module._DERIVED_FROM:  # noqa: SLF001  # a stale name would go unnoticed
        assert any(f"functions/oncely/{part}" in name for name in names), part


def test_local_engine_has_package_without_testing() -> None:
    with zipfile.ZipFile(BytesIO(package_engine())) as code:
        folders = {"/".join(name.split("/")[:2]) for name in code.namelist()}
        assert folders == {"python/oncely"}
        assert not any(name.startswith("python/oncely/testing/") for name in code.namelist())
