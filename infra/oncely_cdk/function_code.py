"""The code of each function: the package, and layers of third-party code."""

from typing import Final

from aws_cdk import IgnoreMode
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from oncely.provider import AnyProvider
from oncely_cdk.layers import RUNTIME, Target, layers_for
from oncely_cdk.packaging import (
    NOT_SHIPPED,
    compile_functions,
    digest_files,
    lambda_python,
    list_shipped_files,
)
from oncely_cdk.paths import FUNCTIONS, PACKAGE
from oncely_cdk.stages import Stage

PYTHON: Final = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE: Final = lambda_.Architecture.ARM_64


def function_code(*, stage: Stage) -> lambda_.AssetCode:
    """The code of every function. Its hash covers the shipped files only."""
    # Local redeploys must take seconds, so they skip the compiler.
    if stage.is_local or lambda_python() is None:
        excluded = [f"/{PACKAGE.name}/{pattern}" for pattern in NOT_SHIPPED]
        return lambda_.Code.from_asset(
            str(FUNCTIONS),
            exclude=["/*", f"!/{PACKAGE.name}", *excluded, "__pycache__", "*.pyc", ".*"],
            ignore_mode=IgnoreMode.GIT,
        )
    return lambda_.Code.from_asset(
        str(compile_functions()), asset_hash=digest_files(list_shipped_files())
    )


def handler_path(entry: str) -> str:
    """The handler string of an entry point."""
    return f"oncely.handlers.{entry}.handler"


class CodeLayers(Construct):
    """The layers of one stage. A function gets those of its providers."""

    def __init__(self, scope: Construct, id_: str, *, stage: Stage) -> None:
        super().__init__(scope, id_)
        self.stage = stage
        target = Target.this_machine() if stage.is_local else Target.lambda_()
        self._layers = {
            name: lambda_.LayerVersion(
                self,
                name.title(),
                description=f"Oncely: packages of requirements/{layer.requirements.name}",
                # The hash of the pins, not of the file: equal on every build machine.
                code=lambda_.Code.from_asset(str(layer.build_if_missing()), asset_hash=layer.hash),
                compatible_runtimes=[PYTHON],
                compatible_architectures=[ARCHITECTURE],
            )
            for name, layer in layers_for(target).items()
        }

    def for_providers(self, providers: tuple[AnyProvider, ...]) -> list[lambda_.ILayerVersion]:
        extra = sorted({plugin.layer for plugin in providers if plugin.layer})
        return [self._layers[name] for name in (RUNTIME, *extra)]
