"""The wheel: its contents, and that each extra works with its own packages alone."""

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest
from hatchling import build
from packaging.requirements import Requirement

from oncely.contracts.job import providers_of
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely_cdk.layers import REQUIREMENTS
from oncely_cdk.paths import REPOSITORY

PROJECT: Final = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
BASE: Final = ""
EXTRAS: Final[dict[str, list[str]]] = {
    BASE: [],
    **PROJECT["project"]["optional-dependencies"],
}
PROVIDERS: Final = {plugin.name: plugin for plugin in providers_of(SHIPPED_JOBS)}

# Every public name, and every module. Models, sandboxes and fakes of providers need `testing`.
_MODULES: Final = """
import importlib, pkgutil, {package}
for found in pkgutil.walk_packages({package}.__path__, "{package}."):
    if not found.name.startswith({for_tests}):
        importlib.import_module(found.name)
"""


def import_modules(package: str) -> str:
    for_tests = tuple(f"{package}.{name}" for name in ("fake", "model", "sandbox"))
    return _MODULES.format(package=package, for_tests=for_tests)


def load_names(package: str, *, without: str = "") -> str:
    names = f"[name for name in {package}.__all__ if name != {without!r}]"
    return f"import {package}; [getattr({package}, name) for name in {names}]\n"


USES: Final = {
    BASE: load_names("oncely", without="worker") + "import oncely.jobs.shipped",
    "cdk": load_names("oncely_cdk") + import_modules("oncely_cdk"),
    "command": import_modules("oncely.cli"),
    "testing": load_names("oncely.testing") + import_modules("oncely.testing"),
    "worker": load_names("oncely") + import_modules("oncely.handlers"),
    **{
        name: import_modules(f"oncely.providers.{name}")
        + "".join(f"import {module}\n" for module in plugin.preload)
        for name, plugin in PROVIDERS.items()
    },
}
# Refuses each package that the extra does not declare, however deep its import is.
BLOCKER: Final = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(REPOSITORY)
        return folder / build.build_wheel(str(folder))


@pytest.fixture(scope="session")
def installed(wheel: Path) -> Path:
    folder = wheel.parent / "site-packages"
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def test_wheel_holds_both_packages_with_types_pins_and_page(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {
        *("oncely", "oncely_cdk", "oncely_local")
    }
    assert names >= {"oncely/py.typed", "oncely_cdk/py.typed"}
    assert names >= {f"oncely_cdk/requirements/{pins.name}" for pins in REQUIREMENTS.iterdir()}
    assert names >= {"oncely/admin_page/static/index.html", "oncely/cli/templates/job.txt"}
    assert names >= {"oncely/schemas/payment.charge.v1.json", "oncely/schemas/messages.d.ts"}
    assert names >= {"oncely/cli/templates/project/app.py.txt", "oncely_local/requirements.txt"}
    assert wheel.stat().st_size < 975_000


def test_wheel_declares_every_extra(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        (name,) = [one for one in files.namelist() if one.endswith(".dist-info/METADATA")]
        described = Parser().parsestr(files.read(name).decode())

    assert set(described.get_all("Provides-Extra", [])) == set(EXTRAS) - {BASE}
    assert "greenlet>=3; extra == 'testing'" in described.get_all("Requires-Dist", [])
    assert set(EXTRAS) == set(USES)


@pytest.mark.parametrize("extra", EXTRAS)
def test_extra_imports_only_the_packages_it_declares(installed: Path, extra: str) -> None:
    done = run_python(USES[extra], extra, installed)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", [name for name in EXTRAS if EXTRAS[name]])
def test_extra_is_needed(installed: Path, extra: str) -> None:
    # Also shows that the packages of no extra are refused.
    done = run_python(USES[extra], BASE, installed)

    assert done.returncode == 1
    missing = done.stderr.splitlines()[-1]
    assert missing.startswith("ModuleNotFoundError")
    if extra in {"cdk", "testing", "worker"}:
        assert f'pip install "oncely[{extra}]"' in missing


def test_command_names_missing_package_and_extra(installed: Path) -> None:
    done = run_python("import oncely.cli.__main__ as it; it.main()", BASE, installed)

    assert done.returncode == 1
    assert done.stderr.startswith("Package typer is not installed")
    assert '".[command]"' in done.stderr


@pytest.mark.parametrize("name", PROVIDERS)
def test_extra_of_a_provider_is_its_layer(name: str) -> None:
    layer = PROVIDERS[name].layer

    assert EXTRAS[name] == (PROJECT["dependency-groups"][f"layer-{layer}"] if layer else [])


def test_producer_imports_nothing_of_command_or_worker(installed: Path) -> None:
    done = run_python("import sys, oncely.producer; print('rich' in sys.modules)", BASE, installed)

    assert done.stdout == "False\n", done.stderr


packages_distributions = cache(metadata.packages_distributions)


def run_python(code: str, extra: str, installed: Path) -> "subprocess.CompletedProcess[str]":
    """Run code with the wheel and only the packages of the extra."""
    allowed = closure([*PROJECT["project"]["dependencies"], *EXTRAS[extra]])
    blocked = {
        module
        for module, names in packages_distributions().items()
        if not {_normalize_name(name) for name in names} & (allowed | {"oncely"})
    }
    check = f"import oncely; assert oncely.__file__.startswith({str(installed)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", BLOCKER.format(blocked=sorted(blocked)) + check + code],
        cwd=installed.parent,
        env={"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def closure(requirements: Iterable[str]) -> set[str]:
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


def _normalize_name(name: str) -> str:
    return name.lower().replace("_", "-")
