"""The code of each function: the engine, the jobs, and layers of third-party code."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from oncely.aws.code_stamp import ENGINE_STAMP_ENV_VAR, JOB_STAMP_ENV_VAR, digest_modules
from oncely.contracts.job import AnyJob
from oncely.plugins.provider import AnyProvider
from oncely_cdk.import_check import check_imports
from oncely_cdk.job_pins import check_lock
from oncely_cdk.layers import ENGINE, JOB_PACKAGES, ON_LAMBDA, ON_THIS_MACHINE, RUNTIME, used_layers
from oncely_cdk.packaging import (
    CODE_PATH,
    LAYER_PATH,
    ShippedFiles,
    collect_files,
    digest_files,
    engine_files,
    job_files,
    lambda_python,
)
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.stages import OncelySettings, StageError

PYTHON: Final = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE: Final = lambda_.Architecture.ARM_64
MAX_LAYERS: Final = 5  # of one function, on Lambda


def engine_code(*, stage: OncelySettings) -> lambda_.AssetCode:
    """The engine, as a layer."""
    return _asset(engine_files(), stage=stage, runtime_path=LAYER_PATH)


def _asset(files: ShippedFiles, *, stage: OncelySettings, runtime_path: str) -> lambda_.AssetCode:
    digest = _digest(files, stage=stage)
    compiler = _compiler(stage)
    folder = collect_files(files, digest=digest, compiler=compiler, runtime_path=runtime_path)
    return lambda_.Code.from_asset(str(folder), asset_hash=digest)


def _digest(files: ShippedFiles, *, stage: OncelySettings) -> str:
    compiled = not stage.is_local and lambda_python() is not None
    return digest_files(files, for_lambda=compiled)


def _compiler(stage: OncelySettings) -> Path | None:
    # The local engine starts a process for each function, which would compile everything again.
    return Path(sys.executable) if stage.is_local else lambda_python()


class CodeLayers(Construct):
    """The code and layers of one stage. A function gets the layers of its providers and jobs."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: OncelySettings,
        required: RequiredResources,
        requirements: Path | None,
        environment: Mapping[str, str],
    ) -> None:
        super().__init__(scope, id_)
        self.stage = stage
        self._contracts = required.contracts
        target = ON_THIS_MACHINE if stage.is_local else ON_LAMBDA
        layers = used_layers(target, required.providers, jobs=requirements)
        if requirements is not None:
            check_lock(requirements, (layers[name] for name in layers if name != JOB_PACKAGES))
        check_imports(required, requirements=requirements, environment=environment)
        self._layers = {
            name: self._layer(
                name,
                # The hash of the pins, not of the file: equal on every build machine.
                lambda_.Code.from_asset(str(layer.build_if_missing()), asset_hash=layer.hash),
                description=f"packages of {layer.requirements.name}",
            )
            for name, layer in layers.items()
        }
        engine = engine_code(stage=stage)
        self._layers[ENGINE] = self._layer(ENGINE, engine, description="the engine")
        self._hashes = {name: layer.hash for name, layer in layers.items()}
        self._hashes[ENGINE] = _digest(engine_files(), stage=stage)

    def _layer(
        self, name: str, code: lambda_.AssetCode, *, description: str
    ) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self,
            name.title(),
            description=f"Oncely: {description}",
            code=code,
            compatible_runtimes=[PYTHON],
            compatible_architectures=[ARCHITECTURE],
        )

    def code(self) -> lambda_.AssetCode:
        """The code of every function: the packages of the jobs."""
        return _asset(job_files(self._contracts), stage=self.stage, runtime_path=CODE_PATH)

    def stamp_env_vars(self, own_jobs: Iterable[type[AnyJob]] | None = None) -> dict[str, str]:
        """Return the digests that engine and job code must have, for oncely/aws/code_stamp.py.

        `own_jobs` are those of a team's function, whose code this construct does not collect.
        """
        if self.stage.is_local:
            return {}  # a local redeploy changes code alone
        if own_jobs is not None:
            jobs = digest_modules(one.__module__ for one in own_jobs)
        else:
            jobs = _digest(job_files(self._contracts), stage=self.stage)
        return {ENGINE_STAMP_ENV_VAR: self._hashes[ENGINE], JOB_STAMP_ENV_VAR: jobs}

    def for_function(
        self, providers: tuple[AnyProvider, ...], *, imports_jobs: bool
    ) -> list[lambda_.ILayerVersion]:
        return [self._layers[name] for name in self._names(providers, imports_jobs=imports_jobs)]

    def digest(self, providers: tuple[AnyProvider, ...], *, imports_jobs: bool) -> str:
        """Return a digest of a function's layers: a change needs a new version."""
        names = self._names(providers, imports_jobs=imports_jobs)
        return ",".join(self._hashes[name] for name in names)

    def _names(self, providers: tuple[AnyProvider, ...], *, imports_jobs: bool) -> list[str]:
        extra = sorted({plugin.layer for plugin in providers if plugin.layer})
        if imports_jobs and JOB_PACKAGES in self._layers:
            extra.append(JOB_PACKAGES)
        if unknown := sorted(set(extra) - set(self._layers)):
            raise StageError(
                f"no pins for the layer {', '.join(unknown)}: set `layer` of the provider to None, "
                "and give its packages in `requirements`"
            )
        names = [RUNTIME, ENGINE, *extra]
        if len(names) > MAX_LAYERS:
            raise StageError(
                f"a function needs the layers {', '.join(names)}, but Lambda allows {MAX_LAYERS}: "
                "deploy the jobs of one provider in another stack"
            )
        return names
