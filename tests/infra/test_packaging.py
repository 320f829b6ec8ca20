"""What functions ship, how large it is, and that nothing else changes its hash."""

import shutil
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from constructs import Construct

from oncely_cdk import function_code as code_module
from oncely_cdk import packaging
from oncely_cdk.function_code import function_code
from oncely_cdk.paths import PACKAGE
from oncely_cdk.stages import Stage
from tests.infra.assembly import Assembly

ENTRIES = sorted(path.stem for path in PACKAGE.glob("handlers/*.py") if path.stem != "__init__")


def source_path(compiled: Path) -> Path:
    return compiled.parents[1] / f"{compiled.name.split('.')[0]}.py"


def test_every_entry_point_is_deployed(prod: Assembly) -> None:
    assert sorted({function.entry for function in prod.functions.values()}) == ENTRIES


def test_asset_holds_only_what_functions_run(prod: Assembly) -> None:
    for function in prod.functions.values():
        package = function.folder / "oncely"
        assert [path.name for path in function.folder.iterdir()] == ["oncely"]
        assert not [name for name in ("cli", "testing") if (package / name).exists()]
        assert not list(package.glob("providers/*/sandbox"))


def test_hidden_files_and_stray_bytecode_are_not_shipped(prod: Assembly) -> None:
    for function in prod.functions.values():
        assert not any(path.name.startswith(".") for path in function.folder.rglob("*"))
        for compiled in function.folder.rglob("*.pyc"):
            assert compiled.name.endswith(".cpython-313.pyc")
            assert source_path(compiled).is_file()


def test_only_functions_that_need_provider_sdk_have_its_layer(prod: Assembly) -> None:
    extra = {name: set(function.layers) - {"runtime"} for name, function in prod.functions.items()}

    assert {name: found for name, found in extra.items() if found} == {
        "PaymentsWorker/Worker": {"payments"},
        "SyncWorker/Worker": {"sync"},
        "Reconciler/Resolve": {"payments", "sync"},
        "Support/Repair": {"payments", "sync"},
    }


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package to change."""
    copy = tmp_path / "functions" / "oncely"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    use_package(copy, monkeypatch)
    return copy


def use_package(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (packaging, code_module):
        monkeypatch.setattr(module, "FUNCTIONS", package.parent)
        monkeypatch.setattr(module, "PACKAGE", package)


@pytest.fixture(params=["lambda_python", "no_lambda_python"])
def with_and_without_bytecode(request: pytest.FixtureRequest) -> None:
    """Run a test on machines of both kinds."""
    request.getfixturevalue(request.param)


def code_hash(app: App | None = None, *, stage: str = "prod") -> str:
    """The hash of what every function ships, as Lambda knows it."""
    stack = Stack(app or App(), "Code")
    code = function_code(stage=Stage.from_context({"stage": stage}, ()))
    location = code.bind(Construct(stack, "Function")).s3_location
    assert location is not None
    return location.object_key.removesuffix(".zip")


def asset(stage: str) -> Path:
    """What every function ships."""
    app = App()
    key = code_hash(app, stage=stage)
    return Path(app.synth().directory) / f"asset.{key}"


@pytest.mark.usefixtures("lambda_python")
def test_every_source_ships_with_its_bytecode() -> None:
    folder = asset("prod")
    compiled = {source_path(path) for path in folder.rglob("*.pyc")}
    assert compiled == set(folder.rglob("*.py"))


@pytest.mark.usefixtures("no_lambda_python")
def test_only_sources_ship_without_lambda_python() -> None:
    assert not list(asset("prod").rglob("*.pyc"))


@pytest.mark.usefixtures("lambda_python")
def test_local_asset_is_not_compiled() -> None:
    assert not list(asset("local").rglob("*.pyc"))


@pytest.mark.usefixtures("lambda_python")
def test_hash_is_independent_of_build_folder(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = code_hash()
    moved = package.parent.rename(tmp_path / "elsewhere")
    use_package(moved / "oncely", monkeypatch)

    assert code_hash() == before


@pytest.mark.usefixtures("with_and_without_bytecode")
def test_hash_changes_only_with_shipped_files(package: Path) -> None:
    before = code_hash()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "contract.pyc").write_bytes(b"bytecode")
    (package / "testing" / "explore.py").write_text("changed = True\n", encoding="utf-8")
    (package.parent / "neighbor.py").write_text("new = True\n", encoding="utf-8")
    assert code_hash() == before

    (package / "contract.py").write_text("changed = True\n", encoding="utf-8")
    assert code_hash() != before
