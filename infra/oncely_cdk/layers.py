"""Builds the Lambda layers from pinned wheels, without Docker, once for each input."""

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

from oncely.plugins.provider import AnyProvider
from oncely_cdk.packaging import (
    CACHE_TAG,
    LAMBDA_PYTHON_VERSION,
    LAYER_PATH,
    MISSING_PYTHON_WARNING,
    BytecodeError,
    compile_for_lambda,
    lambda_python,
)
from oncely_cdk.paths import REPOSITORY

BUILD: Final = REPOSITORY / ".build" / "layers"
REQUIREMENTS: Final = Path(__file__).with_name("requirements")

# Part of every layer's hash: raise it when the steps below change their result.
RECIPE: Final = "3"

ENGINE: Final = "engine"  # Oncely itself, for every function
RUNTIME: Final = "runtime"  # the packages that it needs
# The local engine does not provide boto3 as Lambda does, so this layer replaces `runtime` there.
LOCAL: Final = "local"
JOB_PACKAGES: Final = "jobs"  # what a team's own jobs need, for every function that imports them

_PLATFORM_ON_LAMBDA: Final = "manylinux2014_aarch64"
# The earliest time a zip file can hold. A fixed time makes archives reproducible.
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
# Written by pip, read by no import, and different on each machine.
_EXCLUDED_FILES: Final = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")

# The services that this stack uses, of the 400 that botocore describes.
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
    """The platform that layers run on, and pip's options to find wheels for it."""

    name: str
    pip: tuple[str, ...]
    is_local: bool = False


# On any build machine.
ON_LAMBDA: Final = Target(
    f"lambda-{LAMBDA_PYTHON_VERSION}-{_PLATFORM_ON_LAMBDA}",
    ("--platform", _PLATFORM_ON_LAMBDA, "--python-version", LAMBDA_PYTHON_VERSION),
)
# For the local engine, which runs functions on its own interpreter.
ON_THIS_MACHINE: Final = Target(
    f"local-{sys.implementation.cache_tag}-{sys.platform}-{platform.machine()}", (), is_local=True
)
TARGETS: Final = {"lambda": ON_LAMBDA, "local": ON_THIS_MACHINE}


@dataclass(frozen=True)
class Layer:
    """One layer: the pins of requirements/layer-<name>.txt, or of a team, for a target."""

    name: str
    target: Target
    own_requirements: Path | None = None  # of a team

    @property
    def requirements(self) -> Path:
        return self.own_requirements or REQUIREMENTS / f"layer-{self.name}.txt"

    @property
    def hash(self) -> str:
        """The hash of the inputs. The pins carry hashes, so equal inputs give equal layers."""
        # A local layer contains the path of its unpacked packages.
        location = (str(BUILD),) if self.target.is_local else ()
        bytecode = (CACHE_TAG,) if not self.target.is_local and lambda_python() else ()
        made = (*self.target.pip, *location, *bytecode)
        inputs = (RECIPE, self.target.name, *made, *_pins(self.requirements))
        return hashlib.sha256("\n".join(inputs).encode()).hexdigest()

    @property
    def archive(self) -> Path:
        return BUILD / f"{self.name}-{self.target.name}-{self.hash[:16]}.zip"

    @property
    def unpacked(self) -> Path:
        """The folder of its packages, if it was built for the local engine."""
        return self.archive.with_suffix("")

    def build_if_missing(self) -> Path:
        """Return the layer's zip file. Builds it unless these inputs were built before."""
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
                compile_for_lambda(folder, runtime_path=f"{LAYER_PATH}/python")
            archive = Path(scratch) / "layer.zip"
            _pack(folder, archive)
            # Concurrent builds produce the same file, and the replacement is atomic.
            archive.replace(self.archive)

    def _keep_unpacked(self, folder: Path) -> Path:
        """Keep the packages in a folder, and return a layer that only points there.

        The local engine unpacks every layer again for each of its many worker processes.
        """
        _strip_for_local(folder)
        shutil.rmtree(self.unpacked, ignore_errors=True)
        folder.replace(self.unpacked)
        pointer = folder / "lib" / "python" / "site-packages"
        pointer.mkdir(parents=True)
        # First on the path, as a layer's packages are: the engine has other versions of some.
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
                f"Cannot build the layer {self.name!r} for {self.target.name}. The first build "
                "needs the package index, and a wheel of each package for that platform:\n"
                f"{done.stderr.strip()}"
            )


def layers_for(target: Target, *, jobs: Path | None = None) -> dict[str, Layer]:
    """The layers of a target, by name; `jobs` are the pins of what a team's jobs need."""
    runtime = LOCAL if target.is_local else RUNTIME
    names = {path.stem.removeprefix("layer-") for path in REQUIREMENTS.glob("layer-*.txt")}
    providers = {name: Layer(name, target) for name in sorted(names - {RUNTIME, LOCAL})}
    # A lock without pins needs no layer, and Lambda accepts no empty one.
    is_empty = jobs is None or (jobs.is_file() and not _pins(jobs))
    own = {} if is_empty else {JOB_PACKAGES: Layer(JOB_PACKAGES, target, jobs)}
    return {RUNTIME: Layer(runtime, target), **providers, **own}


def used_layers(
    target: Target, providers: Iterable[AnyProvider], *, jobs: Path | None
) -> dict[str, Layer]:
    """The layers that the jobs of these providers use, by name."""
    used = {RUNTIME, JOB_PACKAGES, *(plugin.layer for plugin in providers)}
    return {name: layer for name, layer in layers_for(target, jobs=jobs).items() if name in used}


def build_layers(targets: Iterable[Target]) -> Iterator[Path]:
    """Build the missing layers of these targets, and delete layers that no target uses."""
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
    lines = requirements.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _strip_for_local(folder: Path) -> None:
    """Reduce import time: each of the engine's many worker processes imports everything again."""
    for service in (folder / "botocore" / "data").glob("*/"):
        if service.name not in _SERVICES:
            shutil.rmtree(service)
    with warnings.catch_warnings():
        # Since Python 3.12 the compiler warns about invalid escapes in third-party code.
        warnings.simplefilter("ignore", SyntaxWarning)
        # Bytecode instead of source files imports fastest.
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
    shutil.rmtree(folder / "bin", ignore_errors=True)  # scripts that contain this machine's paths
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
    """Build the layers of the named targets (default: all), and print each."""
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
