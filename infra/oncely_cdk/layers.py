"""Builds the layers of third-party code from pinned wheels, without Docker, once per input."""

import compileall
import hashlib
import os
import platform
import py_compile
import shutil
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from oncely_cdk.bytecode import (
    CACHE_TAG,
    LAMBDA_PYTHON_VERSION,
    MISSING_PYTHON_WARNING,
    BytecodeError,
    compile_for_lambda,
    lambda_python,
)
from oncely_cdk.paths import REPOSITORY

BUILD: Final = REPOSITORY / ".build" / "layers"
REQUIREMENTS: Final = REPOSITORY / "requirements"

# Raise it when the steps below change what comes out: it is part of every layer's hash.
RECIPE: Final = "3"

RUNTIME: Final = "runtime"  # what every function needs
# On one machine there is no Lambda that brings boto3, so this one does, in the place of `runtime`.
LOCAL: Final = "local"

_PLATFORM_ON_LAMBDA: Final = "manylinux2014_aarch64"
_RUNTIME_PATH: Final = "/opt/python"  # where Lambda unpacks layers
# Zip files know no time before this; a fixed one makes the same files the same archive.
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
# What pip leaves that no import reads, and that tells where and how it was installed.
_EXCLUDED_FILES: Final = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")

# Of the 400 services that botocore describes, those that this stack is made of.
_SERVICES: Final = frozenset(
    {
        *("cloudformation", "cloudwatch", "cognito-idp", "dynamodb", "events", "lambda", "logs"),
        *("s3", "secretsmanager", "sesv2", "sns", "sqs", "ssm", "stepfunctions", "sts"),
    }
)


class LayerError(Exception):
    """A layer could not be built."""


@dataclass(frozen=True)
class Target:
    """What the layers run on: an interpreter, and how pip finds wheels for it."""

    name: str
    pip: tuple[str, ...]
    is_local: bool = False

    @classmethod
    def lambda_(cls) -> "Target":
        """Lambda, whatever machine builds it."""
        return cls(
            f"lambda-{LAMBDA_PYTHON_VERSION}-{_PLATFORM_ON_LAMBDA}",
            ("--platform", _PLATFORM_ON_LAMBDA, "--python-version", LAMBDA_PYTHON_VERSION),
        )

    @classmethod
    def this_machine(cls) -> "Target":
        """The local engine, which runs functions on the interpreter that it was installed with."""
        tag = f"{sys.implementation.cache_tag}-{sys.platform}-{platform.machine()}"
        return cls(f"local-{tag}", (), is_local=True)


@dataclass(frozen=True)
class Layer:
    """One layer: the pins of requirements/layer-<name>.txt for a target."""

    name: str
    target: Target

    @property
    def requirements(self) -> Path:
        """The pinned, hashed requirements."""
        return REQUIREMENTS / f"layer-{self.name}.txt"

    @property
    def hash(self) -> str:
        """Says what is inside: the pins carry hashes, so equal inputs give equal code."""
        # What is unpacked on this machine is found by where it lies.
        location = (str(BUILD),) if self.target.is_local else ()
        bytecode = (CACHE_TAG,) if not self.target.is_local and lambda_python() else ()
        made = (*self.target.pip, *location, *bytecode)
        inputs = (RECIPE, self.target.name, *made, *_pins(self.requirements))
        return hashlib.sha256("\n".join(inputs).encode()).hexdigest()

    @property
    def archive(self) -> Path:
        """Where the finished layer is kept."""
        return BUILD / f"{self.name}-{self.target.name}-{self.hash[:16]}.zip"

    @property
    def unpacked(self) -> Path:
        """Where its packages lie on this machine, if that is what it was built for."""
        return self.archive.with_suffix("")

    def build_if_missing(self) -> Path:
        """The layer as a zip file; made only if these very inputs were never built before."""
        if not self.archive.exists():
            self._build()
        return self.archive

    def _build(self) -> None:
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD, prefix=".building-") as scratch:
            folder = Path(scratch) / "python"
            self._install(folder)
            if self.target.is_local:
                folder = self._keep_unpacked(folder)
            else:
                compile_for_lambda(folder, runtime_path=_RUNTIME_PATH)
            archive = Path(scratch) / "layer.zip"
            _pack(folder, archive)
            # Two builds at once make the same file; whoever is last replaces it in one step.
            archive.replace(self.archive)

    def _keep_unpacked(self, folder: Path) -> Path:
        """Put the packages where they stay; the layer itself only says where that is.

        The local engine unpacks every layer anew for each of its many worker processes.
        """
        _strip_for_local(folder)
        shutil.rmtree(self.unpacked, ignore_errors=True)
        folder.replace(self.unpacked)
        pointer = folder / "lib" / "python" / "site-packages"
        pointer.mkdir(parents=True)
        # In front, as a layer's own packages are: the engine's come with other versions.
        line = f"import sys; sys.path.insert(0, {str(self.unpacked)!r})\n"
        (pointer / f"{self.name}.pth").write_text(line, encoding="utf-8")
        return folder

    def _install(self, folder: Path) -> None:
        done = subprocess.run(  # noqa: S603  # pip, with this repository's own pins
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--no-input", "--no-compile", "--no-deps", "--require-hashes"),
                *("--only-binary=:all:", *self.target.pip),
                *("--target", folder, "--requirement", self.requirements),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise LayerError(
                f"the layer {self.name!r} could not be built for {self.target.name}; it needs the "
                f"package index once (`make setup` does it):\n{done.stderr.strip()}"
            )


TARGETS: Final = {"lambda": Target.lambda_(), "local": Target.this_machine()}


def layers_for(target: Target) -> dict[str, Layer]:
    """The layers of a target, by the name that functions ask for."""
    runtime = RUNTIME if target == Target.lambda_() else LOCAL
    names = {path.stem.removeprefix("layer-") for path in REQUIREMENTS.glob("layer-*.txt")}
    providers = {name: Layer(name, target) for name in sorted(names - {RUNTIME, LOCAL})}
    return {RUNTIME: Layer(runtime, target), **providers}


def build_layers(targets: Iterable[Target]) -> Iterator[Path]:
    """Build what is missing for these targets, and delete layers that no target uses anymore."""
    for target in targets:
        yield from (layer.build_if_missing() for layer in layers_for(target).values())
    layers = [layer for target in TARGETS.values() for layer in layers_for(target).values()]
    wanted = {path for layer in layers for path in (layer.archive, layer.unpacked)}
    for old in set(BUILD.iterdir()) - wanted:
        if old.suffix == ".zip":
            old.unlink()
        elif not old.name.startswith("."):
            shutil.rmtree(old)


def _pins(requirements: Path) -> list[str]:
    """The lines that pip reads; a comment changes nothing."""
    lines = requirements.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _strip_for_local(folder: Path) -> None:
    """For one machine, where each of many worker processes imports everything anew."""
    for service in (folder / "botocore" / "data").glob("*/"):
        if service.name not in _SERVICES:
            shutil.rmtree(service)
    with warnings.catch_warnings():
        # From Python 3.12 on, the compiler tells what it thinks of other people's strings.
        warnings.simplefilter("ignore", SyntaxWarning)
        # Compiled code in the place of its source, as it is imported most quickly.
        compileall.compile_dir(
            folder,
            quiet=2,
            legacy=True,
            stripdir=str(folder),
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    for compiled in folder.rglob("*.pyc"):
        compiled.with_suffix(".py").unlink()


def _pack(folder: Path, archive: Path) -> None:
    shutil.rmtree(folder / "bin", ignore_errors=True)  # commands, with this machine's paths inside
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(_files(folder)):
            entry = zipfile.ZipInfo(str(Path("python") / path.relative_to(folder)), _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, path.read_bytes())


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent) / name for name in names if name not in _EXCLUDED_FILES)


def main(names: Sequence[str]) -> None:
    """Build the layers of the named targets, or of all, and print each when it is done."""
    if "local" not in names and lambda_python() is None:
        sys.stderr.write(f"{MISSING_PYTHON_WARNING}\n")
    try:
        for archive in build_layers(TARGETS[name] for name in names or TARGETS):
            size = archive.stat().st_size / 1e6
            print(f"{size:6.1f} MB  {archive.relative_to(REPOSITORY)}", flush=True)  # noqa: T201  # progress
    except (BytecodeError, LayerError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
