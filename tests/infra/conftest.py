"""The production stack, synthesized once for all tests of its template."""

import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from oncely_cdk import layers, packaging
from oncely_cdk.job_pins import read_pins
from tests.infra.assembly import PROD, Assembly


@pytest.fixture(scope="session", autouse=True)
def stub_layers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Empty archives in place of built layers: templates do not show their contents."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "BUILD", tmp_path_factory.mktemp("layers"))
        for target in layers.TARGETS.values():
            for layer in layers.layers_for(target).values():
                zipfile.ZipFile(layer.archive, "w").close()
                if target.is_local:
                    link_packages(layer)
        yield


def link_packages(layer: layers.Layer) -> None:
    """Give a local layer the packages of its pins, from this environment."""
    layer.unpacked.mkdir(exist_ok=True)
    for name in read_pins(layer.requirements):
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of another platform
        for root in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            link = layer.unpacked / root
            if not link.exists():
                link.symlink_to(str(package.locate_file(root)))


@pytest.fixture
def no_lambda_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("PATH", "PYENV_ROOT"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.delenv("PYTHON313", raising=False)
    packaging.lambda_python.cache_clear()
    yield
    packaging.lambda_python.cache_clear()


@pytest.fixture
def lambda_python(no_lambda_python: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHON313", sys.executable)
    for module in (layers, packaging):
        monkeypatch.setattr(module, "CACHE_TAG", sys.implementation.cache_tag)
    return Path(sys.executable)


@pytest.fixture(scope="session")
def prod(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return Assembly.from_folder(tmp_path_factory.mktemp("prod"), PROD)


@pytest.fixture(scope="session")
def optional(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return Assembly.from_folder(
        tmp_path_factory.mktemp("optional"),
        PROD.model_copy(
            update={
                "dashboard": True,
                "rejects_retention_days": 30,
                "table_class": "standard_infrequent_access",
                "read_capacity_units": 50,
                "write_capacity_units": 100,
            }
        ),
    )
