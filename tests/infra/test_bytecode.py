"""Bytecode: compiled by Lambda's own Python, the same wherever it is compiled."""

import importlib.util
from pathlib import Path

import pytest

from oncely_cdk import packaging
from oncely_cdk.packaging import BytecodeError, compile_for_lambda

SOURCE = """
def fail():
    raise KeyError({"a", "b", "c"} & {"d", "e"})
"""
UNCHECKED = (1).to_bytes(4, "little")


def compile_folder(folder: Path) -> bytes:
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "module.py").write_text(SOURCE, encoding="utf-8")
    assert compile_for_lambda(folder, runtime_path="/var/task")
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

    assert not compile_for_lambda(tmp_path, runtime_path="/var/task")
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
