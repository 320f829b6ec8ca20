"""Layers are built once for each set of pins, and are reproducible."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from oncely_cdk import layers
from oncely_cdk.layers import JOB_PACKAGES, ON_LAMBDA, ON_THIS_MACHINE, Layer, Target, layers_for


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(layers, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(layers, "BUILD", tmp_path / "build")
    written = tmp_path / "layer-small.txt"
    written.write_text("# a comment\na==1\n", encoding="utf-8")
    return written


def test_hash_changes_with_pins_but_not_comments(pins: Path) -> None:
    layer = Layer("small", ON_LAMBDA)
    before = layer.hash

    pins.write_text("# another comment\n\na==1\n", encoding="utf-8")
    assert layer.hash == before

    pins.write_text("a==2\n", encoding="utf-8")
    assert layer.hash != before


def test_lambda_hash_depends_on_bytecode(
    pins: Path, lambda_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for_lambda, local = Layer("small", ON_LAMBDA), Layer("small", ON_THIS_MACHINE)
    with_it = for_lambda.hash, local.hash

    monkeypatch.setattr(layers, "lambda_python", lambda: None)

    assert for_lambda.hash != with_it[0]
    assert local.hash == with_it[1]


def test_lock_without_packages_needs_no_layer(pins: Path, tmp_path: Path) -> None:
    lock = tmp_path / "requirements-jobs.txt"
    lock.write_text("# written by oncely lock\n", encoding="utf-8")
    assert JOB_PACKAGES not in layers_for(ON_LAMBDA, jobs=lock)

    lock.write_text("a==1\n", encoding="utf-8")
    assert JOB_PACKAGES in layers_for(ON_LAMBDA, jobs=lock)


def test_targets_never_share_layer(pins: Path) -> None:
    assert Layer("small", ON_LAMBDA).hash != Layer("small", ON_THIS_MACHINE).hash


def test_built_layer_is_not_rebuilt(pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []
    monkeypatch.setattr(Layer, "_install", lambda _, folder: built.append(folder))
    layer = Layer("small", ON_LAMBDA)

    first, second = layer.build_if_missing(), layer.build_if_missing()

    assert first == second
    assert len(built) == 1


def test_same_files_make_same_archive(
    pins: Path, lambda_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(_: Layer, folder: Path) -> None:
        for name in ("b/module.py", "a/__init__.py", "bin/tool"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"NAMES = {{{name!r}, 'set'}}", encoding="utf-8")
        (folder / "a.dist-info").mkdir()
        (folder / "a.dist-info" / "RECORD").write_text("where it was installed", encoding="utf-8")

    monkeypatch.setattr(Layer, "_install", install)
    layer = Layer("small", ON_LAMBDA)
    first = hashlib.sha256(layer.build_if_missing().read_bytes()).hexdigest()
    layer.archive.unlink()

    assert hashlib.sha256(layer.build_if_missing().read_bytes()).hexdigest() == first
    with zipfile.ZipFile(layer.archive) as archive:
        tag = sys.implementation.cache_tag
        assert archive.namelist() == [
            *("python/a/__init__.py", f"python/a/__pycache__/__init__.{tag}.pyc"),
            *(f"python/b/__pycache__/module.{tag}.pyc", "python/b/module.py"),
        ]


def test_local_layer_points_to_its_packages(
    pins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(_: Layer, folder: Path) -> None:
        (folder / "small").mkdir(parents=True)
        (folder / "small" / "__init__.py").write_text("NAME = 'small'", encoding="utf-8")

    monkeypatch.setattr(Layer, "_install", install)
    layer = Layer("small", ON_THIS_MACHINE)
    with zipfile.ZipFile(layer.build_if_missing()) as archive:
        archive.extractall(tmp_path / "layer")
        (pointer,) = archive.namelist()

    folder = (tmp_path / "layer" / pointer).parent
    # As the engine's workers do it.
    script = f"import site; site.addsitedir({str(folder)!r}); import small; print(small.__file__)"
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )

    assert Path(found.stdout.strip()).is_relative_to(layer.unpacked)


def test_local_layer_hash_depends_on_build_folder(
    pins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = Layer("small", ON_THIS_MACHINE)
    before = layer.hash

    monkeypatch.setattr(layers, "BUILD", tmp_path / "elsewhere")

    assert layer.hash != before


def test_failed_build_says_why_and_leaves_nothing(pins: Path) -> None:
    pins.write_text("no-such-package-of-ours==1 --hash=sha256:" + "0" * 64, encoding="utf-8")
    layer = Layer("small", Target("nowhere", ("--no-index",)))

    with pytest.raises(layers.LayerError, match="Cannot build the layer 'small' for nowhere"):
        layer.build_if_missing()

    assert list(layers.BUILD.iterdir()) == []


def test_only_local_layer_includes_boto3() -> None:
    carried = {
        layer.requirements.name: "boto3==" in layer.requirements.read_text(encoding="utf-8")
        for target in (ON_LAMBDA, ON_THIS_MACHINE)
        for layer in layers_for(target).values()
    }

    assert [name for name, brings in carried.items() if brings] == ["layer-local.txt"]
