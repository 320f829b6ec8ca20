"""Which files each Lambda ships: the shared package, its own folder, and layers under both."""

from typing import Final

from aws_cdk import IgnoreMode
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import FUNCTIONS, SHARED
from infra.bytecode import lambda_python
from infra.layers import PAYMENTS, RUNTIME, SYNC, Target, layers_for
from infra.shipped import compile_functions, digest_files, list_shipped_files
from infra.stages import Stage

PYTHON: Final = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE: Final = lambda_.Architecture.ARM_64
# Who may use a provider's key speaks to it with its SDK, and nobody else carries that.
_LAYER_BY_SECRET: Final = {"hubspot": SYNC, "stripe": PAYMENTS}


def function_code(entry: str, *, stage: Stage) -> lambda_.AssetCode:
    """The code of the entry point in functions/<entry>/; its hash knows no other file."""
    files = list_shipped_files(entry)
    others = ["/*", f"!/{SHARED}", f"!/{entry}"]
    # On one machine code is replaced in seconds, so nobody waits for a compiler there.
    if stage.is_local or lambda_python() is None:
        # What teams test their own contracts with stays at home.
        excluded = [f"/{SHARED}/testing", "__pycache__", "*.pyc", ".*"]
        return lambda_.Code.from_asset(
            str(FUNCTIONS), exclude=[*others, *excluded], ignore_mode=IgnoreMode.GIT
        )
    return lambda_.Code.from_asset(
        str(compile_functions()),
        exclude=others,
        ignore_mode=IgnoreMode.GIT,
        asset_hash=digest_files(files),
    )


def handler_path(entry: str) -> str:
    """The name that Lambda calls."""
    return f"{entry}.handler.handler"


class CodeLayers(Construct):
    """The layers of one stage; a function takes those that its secrets ask for."""

    def __init__(self, scope: Construct, id_: str, *, stage: Stage) -> None:
        super().__init__(scope, id_)
        target = Target.this_machine() if stage.is_local else Target.lambda_()
        self._layers = {
            name: lambda_.LayerVersion(
                self,
                name.title(),
                description=f"Oncely: the packages of requirements/{layer.requirements.name}",
                # The hash of the pins, not of the file: the same wherever it is built.
                code=lambda_.Code.from_asset(str(layer.build_if_missing()), asset_hash=layer.hash),
                compatible_runtimes=[PYTHON],
                compatible_architectures=[ARCHITECTURE],
            )
            for name, layer in layers_for(target).items()
        }

    def for_secrets(self, secrets: tuple[str, ...]) -> list[lambda_.ILayerVersion]:
        """What every function needs, and the SDKs of these secrets' providers."""
        extra = sorted({_LAYER_BY_SECRET[name] for name in secrets if name in _LAYER_BY_SECRET})
        return [self._layers[name] for name in (RUNTIME, *extra)]
