"""Which files each Lambda ships: the shared package, its own folder, and layers under both."""

from typing import Final

from aws_cdk import IgnoreMode
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import FUNCTIONS, SHARED
from infra.layers import PAYMENTS, RUNTIME, SYNC, Target, layers_for
from infra.stages import Stage

PYTHON: Final = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE: Final = lambda_.Architecture.ARM_64
LEFT_OUT_AS: Final = IgnoreMode.GIT  # patterns read as in a .gitignore
# Who may use a provider's key speaks to it with its SDK, and nobody else carries that.
_LAYER_OF_SECRET: Final = {"hubspot": SYNC, "stripe": PAYMENTS}


def function_code(entry: str) -> lambda_.AssetCode:
    """The code of the entry point in functions/<entry>/; its hash knows no other file."""
    if not (FUNCTIONS / entry / "handler.py").is_file():
        raise FileNotFoundError(f"there is no functions/{entry}/handler.py to deploy")
    return lambda_.Code.from_asset(str(FUNCTIONS), exclude=left_out(entry), ignore_mode=LEFT_OUT_AS)


def left_out(entry: str) -> list[str]:
    """Of all that lies in functions/, everything but two folders, and every tool's droppings."""
    # What teams test their own contracts with stays at home.
    at_home = f"/{SHARED}/testing"
    return ["/*", f"!/{SHARED}", f"!/{entry}", at_home, "__pycache__", "*.pyc", ".*"]


def handler_of(entry: str) -> str:
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
                code=lambda_.Code.from_asset(str(layer.built()), asset_hash=layer.hash),
                compatible_runtimes=[PYTHON],
                compatible_architectures=[ARCHITECTURE],
            )
            for name, layer in layers_for(target).items()
        }

    def for_secrets(self, secrets: tuple[str, ...]) -> list[lambda_.ILayerVersion]:
        """What every function needs, and the SDKs of these secrets' providers."""
        extra = sorted({_LAYER_OF_SECRET[name] for name in secrets if name in _LAYER_OF_SECRET})
        return [self._layers[name] for name in (RUNTIME, *extra)]
