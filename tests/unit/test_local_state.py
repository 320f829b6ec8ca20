"""How tools find the local stack, and how it detects changes."""

import json
import os
import zipfile
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.testing.local import LocalFixtures
from oncely_local import deploy as deploy_module
from oncely_local import redeploy as redeploy_module
from oncely_local.deploy import source_digest
from oncely_local.project import LocalProject
from oncely_local.redeploy import RunningStack, advertised, package_engine

# The parts of a stack by which other processes find it.
STACK: Any = SimpleNamespace(
    engine=SimpleNamespace(url="http://127.0.0.1:1"),
    sandbox=SimpleNamespace(url="http://127.0.0.1:2"),
    outputs={"JobsTableName": "jobs"},
    account=SimpleNamespace(stack_name="Oncely-local"),
)
# Larger than any process id.
NOBODY = 2**22 + 1


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalProject:
    found = LocalProject(tmp_path, SHIPPED_JOBS, LocalFixtures())
    for module in (deploy_module, redeploy_module):
        monkeypatch.setattr(module, "local_project", lambda: found)
    return found


def test_stack_is_found_while_running(project: LocalProject) -> None:
    with advertised(STACK):
        found = RunningStack.find()
        assert found
        assert (found.pid, found.endpoint, found.providers) == (
            os.getpid(),
            STACK.engine.url,
            STACK.sandbox.url,
        )
        assert (found.stack, found.outputs) == (STACK.account.stack_name, STACK.outputs)
    assert not project.state_file.exists()
    assert RunningStack.find() is None


def test_second_stack_leaves_the_first_one_findable(project: LocalProject) -> None:
    with advertised(STACK):
        before = project.state_file.read_text()
        with advertised(STACK):
            assert project.state_file.read_text() == before
        assert project.state_file.read_text() == before


def test_stack_is_not_found_when_its_process_died(project: LocalProject) -> None:
    with advertised(STACK):
        written = json.loads(project.state_file.read_text())
        project.state_file.write_text(json.dumps({**written, "pid": NOBODY}))
        assert RunningStack.find() is None


@pytest.mark.parametrize("content", ["", "[]", '{"pid": 1}', "not JSON"])
def test_stack_is_not_found_when_file_is_malformed(project: LocalProject, content: str) -> None:
    project.state_file.parent.mkdir()
    project.state_file.write_text(content)
    assert RunningStack.find() is None


def test_digest_covers_code_and_settings(project: LocalProject) -> None:
    tmp_path = project.folder
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
