"""What functions ship, how large it is, and that nothing else changes its hash."""

import shutil
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from constructs import Construct

from infra import FUNCTIONS, shipped
from infra.code import function_code
from infra.stages import Stage
from tests.infra.assembly import Assembly

ENTRIES = sorted(path.parent.name for path in FUNCTIONS.glob("*/handler.py"))


def source_path(compiled: Path) -> Path:
    return compiled.parents[1] / f"{compiled.name.split('.')[0]}.py"


def test_every_entry_point_is_deployed(prod: Assembly) -> None:
    assert sorted({function.entry for function in prod.functions.values()}) == ENTRIES


def test_asset_holds_only_shared_package_and_own_folder(prod: Assembly) -> None:
    for function in prod.functions.values():
        assert {path.name for path in function.folder.iterdir()} == {"oncely", function.entry}


def test_testing_package_is_not_shipped(prod: Assembly) -> None:
    for function in prod.functions.values():
        assert not (function.folder / "oncely" / "testing").exists()


def test_hidden_files_and_stray_bytecode_are_not_shipped(prod: Assembly) -> None:
    for function in prod.functions.values():
        assert not any(path.name.startswith(".") for path in function.folder.rglob("*"))
        for compiled in function.folder.rglob("*.pyc"):
            assert compiled.name.endswith(".cpython-313.pyc")
            assert source_path(compiled).is_file()


def test_only_functions_that_need_provider_sdk_have_its_layer(
    prod: Assembly,
) -> None:
    extra = {name: set(function.layers) - {"runtime"} for name, function in prod.functions.items()}

    assert {name: found for name, found in extra.items() if found} == {
        "PaymentsWorker/Worker": {"payments"},
        "SyncWorker/Worker": {"sync"},
        "Reconciler/Resolve": {"payments", "sync"},
        "Support/Repair": {"payments", "sync"},
    }


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of functions/ to change."""
    copy = tmp_path / "functions"
    shutil.copytree(FUNCTIONS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(shipped, "FUNCTIONS", copy)
    monkeypatch.setattr("infra.code.FUNCTIONS", copy)
    return copy


@pytest.fixture(params=["lambda_python", "no_lambda_python"])
def with_and_without_bytecode(request: pytest.FixtureRequest) -> None:
    """Run a test on machines of both kinds."""
    request.getfixturevalue(request.param)


def code_hashes(stack: Stack, *, stage: str = "prod") -> dict[str, str]:
    """The hash of what each entry point ships, as Lambda knows it."""
    settings = Stage.from_context({"stage": stage}, ())
    found = {}
    for entry in ENTRIES:
        code = function_code(entry, stage=settings).bind(Construct(stack, entry))
        assert code.s3_location is not None
        found[entry] = code.s3_location.object_key.removesuffix(".zip")
    return found


def assets(stage: str) -> list[Path]:
    """What the entry points ship."""
    app = App()
    keys = code_hashes(Stack(app, "Code"), stage=stage).values()
    return [Path(app.synth().directory) / f"asset.{key}" for key in keys]


def hashes() -> dict[str, str]:
    """The hash of what each entry point ships for production."""
    return code_hashes(Stack(App(), "Code"))


@pytest.mark.usefixtures("lambda_python")
def test_every_source_ships_with_its_bytecode() -> None:
    for asset in assets("prod"):
        compiled = {source_path(path) for path in asset.rglob("*.pyc")}
        assert compiled == set(asset.rglob("*.py"))


@pytest.mark.usefixtures("no_lambda_python")
def test_only_sources_ship_without_lambda_python() -> None:
    for asset in assets("prod"):
        assert not list(asset.rglob("*.pyc"))


@pytest.mark.usefixtures("lambda_python")
def test_local_assets_are_not_compiled() -> None:
    for asset in assets("local"):
        assert not list(asset.rglob("*.pyc"))


@pytest.mark.usefixtures("lambda_python")
def test_hash_is_independent_of_build_folder(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hashes()
    monkeypatch.setattr(shipped, "FUNCTIONS", tree.rename(tmp_path / "elsewhere"))

    assert hashes() == before


@pytest.mark.usefixtures("with_and_without_bytecode")
def test_function_hash_changes_with_own_folder_only(tree: Path) -> None:
    before = hashes()
    (tree / "find_due" / "handler.py").write_text("changed = True\n", encoding="utf-8")

    after = hashes()

    assert {entry for entry in ENTRIES if after[entry] != before[entry]} == {"find_due"}


@pytest.mark.usefixtures("with_and_without_bytecode")
def test_caches_and_new_neighbors_change_no_hash(tree: Path) -> None:
    before = hashes()
    (tree / "oncely" / "__pycache__").mkdir()
    (tree / "oncely" / "__pycache__" / "contract.pyc").write_bytes(b"bytecode")
    (tree / "new_neighbour").mkdir()
    (tree / "new_neighbour" / "handler.py").write_text("new = True\n", encoding="utf-8")

    assert hashes() == before


@pytest.mark.usefixtures("with_and_without_bytecode")
def test_shared_package_change_changes_every_hash(tree: Path) -> None:
    before = hashes()
    (tree / "oncely" / "contract.py").write_text("changed = True\n", encoding="utf-8")

    after = hashes()

    assert all(after[entry] != before[entry] for entry in ENTRIES)
