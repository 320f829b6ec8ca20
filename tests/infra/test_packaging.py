"""What functions ship, its size and hash, and its bytecode."""

import importlib.util
import shutil
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from constructs import Construct

from oncely.aws.code_stamp import STAMP_FILE
from oncely_cdk import packaging
from oncely_cdk.function_code import engine_code
from oncely_cdk.packaging import BytecodeError, compile_for_lambda, digest_files
from oncely_cdk.paths import PACKAGE
from oncely_cdk.stages import OncelySettings
from tests.infra.assembly import Assembly

ENTRIES = sorted(
    path.stem
    for path in PACKAGE.glob("handlers/*.py")
    if "\ndef handler(" in path.read_text(encoding="utf-8")
)


def source_path(compiled: Path) -> Path:
    return compiled.parents[1] / f"{compiled.name.split('.')[0]}.py"


def test_every_entry_point_is_deployed(prod: Assembly) -> None:
    optional = {"receive_webhook"}  # stripe_webhook
    assert {function.entry for function in prod.functions.values()} == {*ENTRIES} - optional


def test_engine_is_a_layer_with_only_what_functions_run(prod: Assembly) -> None:
    package = prod.engine / "python" / "oncely"

    assert [path.name for path in package.parent.iterdir()] == ["oncely"]
    assert not [name for name in ("cli", "testing") if (package / name).exists()]
    for unused in ("providers/*/sandbox*", "providers/*/facts.py"):
        assert not list(package.glob(unused))
    assert all("engine" in function.layers for function in prod.functions.values())


def test_code_of_functions_has_no_engine(prod: Assembly) -> None:
    # Every job of this repository is part of the engine; Lambda needs a file.
    for function in prod.functions.values():
        assert [path.name for path in function.folder.iterdir()] == [STAMP_FILE]


def test_hidden_files_and_stray_bytecode_are_not_shipped(prod: Assembly) -> None:
    assert not any(path.name.startswith(".") for path in prod.engine.rglob("*"))
    for compiled in prod.engine.rglob("*.pyc"):
        assert compiled.name.endswith(".cpython-313.pyc")
        assert source_path(compiled).is_file()


def test_only_functions_that_need_provider_sdk_have_its_layer(prod: Assembly) -> None:
    extra = {
        name: set(function.layers) - {"engine", "runtime"}
        for name, function in prod.functions.items()
    }

    assert {name: found for name, found in extra.items() if found} == {
        "PaymentsWorker/Worker": {"payments"},
        "Reconciler/Resolve": {"payments"},
        "AdminPage/Repair": {"payments"},
        "PaymentAudit/Audit": {"payments"},
    }


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "functions" / "oncely"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    use_package(copy, monkeypatch)
    return copy


def use_package(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaging, "PACKAGE", package)


@pytest.fixture(params=["lambda_python", "no_lambda_python"])
def with_and_without_bytecode(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(request.param)


def code_hash(app: App | None = None, *, stage: str = "prod") -> str:
    stack = Stack(app or App(), "Code")
    code = engine_code(stage=OncelySettings(name=stage))
    location = code.bind(Construct(stack, "Function")).s3_location
    assert location is not None
    return location.object_key.removesuffix(".zip")


def asset(stage: str) -> Path:
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


@pytest.mark.usefixtures("no_lambda_python")
def test_local_asset_has_bytecode_of_this_interpreter() -> None:
    folder = asset("local")
    compiled = {Path(importlib.util.cache_from_source(path)) for path in folder.rglob("*.py")}
    assert compiled == set(folder.rglob("*.pyc"))
    sources = digest_files(packaging.engine_files(), for_lambda=False)
    assert (folder / STAMP_FILE).read_text() == sources, "as on any other Python"


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


SOURCE = """
def fail():
    raise KeyError({"a", "b", "c"} & {"d", "e"})
"""
UNCHECKED = (1).to_bytes(4, "little")


def compile_folder(folder: Path) -> bytes:
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "module.py").write_text(SOURCE, encoding="utf-8")
    compile_for_lambda(folder, runtime_path="/var/task")
    (found,) = folder.rglob("*.pyc")
    return found.read_bytes()


def test_bytecode_names_no_folder_of_this_machine(lambda_python: Path, tmp_path: Path) -> None:
    content = compile_folder(tmp_path / "here")

    assert str(tmp_path).encode() not in content
    assert b"/var/task/package/module.py" in content


def test_same_source_gives_same_bytecode(lambda_python: Path, tmp_path: Path) -> None:
    assert compile_folder(tmp_path / "here") == compile_folder(tmp_path / "there")


def test_bytecode_is_loaded_without_source_check(lambda_python: Path, tmp_path: Path) -> None:
    content = compile_folder(tmp_path)
    source = tmp_path / "package" / "module.py"

    assert content[4:8] == UNCHECKED
    assert Path(importlib.util.cache_from_source(str(source))).is_file()
    assert source.read_text(encoding="utf-8") == SOURCE


def test_invalid_source_raises_bytecode_error(lambda_python: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def", encoding="utf-8")

    with pytest.raises(BytecodeError, match=r"cannot compile .*\n.*broken.py"):
        compile_for_lambda(tmp_path, runtime_path="/var/task")


@pytest.mark.usefixtures("no_lambda_python")
def test_nothing_is_compiled_without_lambda_python(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(SOURCE, encoding="utf-8")

    compile_for_lambda(tmp_path, runtime_path="/var/task")
    assert list(tmp_path.iterdir()) == [tmp_path / "module.py"]


@pytest.mark.usefixtures("no_lambda_python")
def test_interpreter_is_found_in_pyenv_behind_broken_shim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = tmp_path / "shims" / "python3.13"
    right = tmp_path / "versions" / "3.13.7" / "bin" / "python"
    for path, script in ((shim, "exit 127"), (right, "echo cpython-313")):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))

    assert packaging.lambda_python() == right
