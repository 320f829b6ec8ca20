"""What an application that sends jobs gets when it installs the package."""

import json
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from importlib import metadata, resources
from pathlib import Path

import pytest
from hatchling import build
from packaging.requirements import Requirement

from oncely_cdk.paths import REPOSITORY

NOT_FOR_PRODUCERS = {"aws_lambda_powertools", "hubspot", "rich", "stripe", "typer"}


def test_package_ships_type_marker() -> None:
    assert resources.files("oncely").joinpath("py.typed").is_file()


def test_producer_imports_nothing_of_command_or_worker() -> None:
    look = f"import sys, oncely.producer; print(*({NOT_FOR_PRODUCERS} & set(sys.modules)), sep='')"
    result = run_python(look)
    assert (result.returncode, result.stdout) == (0, "\n")


def test_command_names_missing_package_and_extra() -> None:
    code = "import sys; sys.modules['typer'] = None; import oncely.cli.__main__ as it; it.main()"
    result = run_python(code)

    assert result.returncode == 1
    assert result.stderr.startswith("Package typer is not installed")
    assert '".[command]"' in result.stderr


def test_testing_imports_only_what_its_extra_declares() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["testing"]]
    look = (
        "import json, sys; before = {*sys.modules}; import oncely.testing; "
        "print(json.dumps([*{*sys.modules} - before]))"
    )

    imported = {name.partition(".")[0] for name in json.loads(run_python(look).stdout)}

    third_party = imported & metadata.packages_distributions().keys() - {"oncely"}
    used = {_normalize_name(one) for name in third_party for one in _distributions(name)}
    assert used <= list_installed(declared)
    assert "greenlet" in used


def test_testing_says_what_it_lacks_when_extra_is_missing() -> None:
    result = run_python("import sys; sys.modules['greenlet'] = None; import oncely.testing")
    assert result.returncode == 1
    assert 'pip install "oncely[testing]"' in result.stderr.splitlines()[-1]


def test_testing_is_importable_from_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    wheel = tmp_path / build.build_wheel(str(tmp_path))

    result = run_python("import oncely.testing; print(oncely.testing.__file__)", path=wheel)

    assert result.stdout.startswith(str(wheel)), result.stderr
    with zipfile.ZipFile(wheel) as files:
        (name,) = [one for one in files.namelist() if one.endswith(".dist-info/METADATA")]
        described = Parser().parsestr(files.read(name).decode())
    assert "testing" in described.get_all("Provides-Extra", [])
    assert "greenlet>=3; extra == 'testing'" in described.get_all("Requires-Dist", [])


def list_installed(requirements: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = [Requirement(one) for one in requirements]
    while waiting:
        requirement = waiting.pop()
        name = _normalize_name(requirement.name)
        if name in found or not (requirement.marker is None or requirement.marker.evaluate()):
            continue
        found.add(name)
        waiting += [Requirement(one) for one in metadata.requires(name) or ()]
    return found


def _distributions(module: str) -> list[str]:
    return metadata.packages_distributions()[module]


def _normalize_name(name: str) -> str:
    return name.lower().replace("_", "-")


def run_python(
    code: str, *, path: Path = REPOSITORY / "functions"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
