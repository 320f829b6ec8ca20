"""`oncely lock`: a full lock of a team's packages that agrees with the layers of Oncely."""

import sys
from pathlib import Path
from typing import Final

import pytest

from oncely_cdk.job_pins import read_pins
from oncely_cdk.layers import REQUIREMENTS
from tests.support.cli import run_cli

# Writes its own arguments and constraints in place of a lock.
TOOL: Final = """#!/bin/sh
for word in "$@"; do echo "argument $word" >> arguments; done
while [ "$1" != "--constraint" ]; do shift; done
cp "$2" constraints.txt
while [ "$1" != "--output-file" ]; do shift; done
echo "a==1 --hash=sha256:0" > "$2"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/bin/python")
    (tmp_path / "requirements-jobs.in").write_text("requests>=2.30\n", encoding="utf-8")
    return tmp_path


def add_tool(folder: Path, name: str, script: str = TOOL) -> None:
    tool = folder / "bin" / name
    tool.write_text(script, encoding="utf-8")
    tool.chmod(0o755)


def arguments(folder: Path) -> list[str]:
    lines = (folder / "arguments").read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("argument ") for line in lines]


@pytest.mark.parametrize(
    ("tool", "omit"), [("uv", "--no-emit-package"), ("pip-compile", "--unsafe-package")]
)
def test_lock_has_hashes_and_no_address(folder: Path, tool: str, omit: str) -> None:
    add_tool(folder, tool)

    done = run_cli("lock")

    assert done.exit_code == 0, done.output
    given = arguments(folder)
    assert {"--generate-hashes", "--no-emit-index-url", "--no-emit-find-links"} <= set(given)
    # Temporary paths and the command line would differ on each machine.
    assert {"--no-header", "--no-annotate"} <= set(given)
    omitted = {given[place + 1] for place, word in enumerate(given) if word == omit}
    assert omitted == {*read_pins(REQUIREMENTS / "layer-runtime.txt"), *LAMBDA}
    assert (folder / "requirements-jobs.txt").read_text(encoding="utf-8") == (
        "# Written by `oncely lock` from requirements-jobs.in.\na==1 --hash=sha256:0\n"
    )


LAMBDA: Final = ("boto3", "botocore", "s3transfer")


def test_lock_keeps_to_the_versions_of_every_layer(folder: Path) -> None:
    add_tool(folder, "uv")

    run_cli("lock", "--upgrade")

    constrained = read_pins(folder / "constraints.txt")
    for file in REQUIREMENTS.glob("layer-*.txt"):
        for name, versions in read_pins(file).items():
            assert constrained[name] >= versions
    assert "--hash" not in (folder / "constraints.txt").read_text(encoding="utf-8")
    assert "--upgrade" in arguments(folder)


def test_uv_is_preferred(folder: Path) -> None:
    add_tool(folder, "uv")
    add_tool(folder, "pip-compile", "#!/bin/sh\nexit 1\n")

    assert run_cli("lock").exit_code == 0


def test_missing_tool_or_file_is_named(folder: Path) -> None:
    without_tool = run_cli("lock")
    assert without_tool.exit_code == 1
    assert "Neither uv nor pip-tools is installed. Run `pip install uv`" in without_tool.output

    without_file = run_cli("lock", "jobs.in")
    assert without_file.exit_code == 1
    assert "jobs.in does not exist. Write the packages that your jobs import" in without_file.output


def test_lock_does_not_overwrite_its_input(folder: Path) -> None:
    add_tool(folder, "uv")
    (folder / "jobs.txt").write_text("requests\n", encoding="utf-8")

    done = run_cli("lock", "jobs.txt")

    assert done.exit_code == 1
    assert "jobs.txt would be overwritten. Name it jobs.in." in done.output
    assert (folder / "jobs.txt").read_text(encoding="utf-8") == "requests\n"


def test_failed_resolution_is_shown(folder: Path) -> None:
    add_tool(folder, "uv", "#!/bin/sh\necho 'no solution' >&2\nexit 1\n")

    done = run_cli("lock")

    assert done.exit_code == 1
    assert "no solution" in done.output
    assert not (folder / "requirements-jobs.txt").exists()
