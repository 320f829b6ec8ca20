"""CDK constructs that deploy Oncely. Stacks import from here; a name is loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from oncely_cdk.guardrails import UnsafeStageError as UnsafeStageError
    from oncely_cdk.layers import LayerError as LayerError
    from oncely_cdk.oncely import Oncely as Oncely
    from oncely_cdk.packaging import BytecodeError as BytecodeError
    from oncely_cdk.stack import OncelyStack as OncelyStack
    from oncely_cdk.stage_file import read_stage_file as read_stage_file
    from oncely_cdk.stages import OncelySettings as OncelySettings
    from oncely_cdk.stages import StageError as StageError

_MODULE_OF: Final = {
    "BytecodeError": "oncely_cdk.packaging",
    "LayerError": "oncely_cdk.layers",
    "Oncely": "oncely_cdk.oncely",
    "OncelyStack": "oncely_cdk.stack",
    "OncelySettings": "oncely_cdk.stages",
    "StageError": "oncely_cdk.stages",
    "UnsafeStageError": "oncely_cdk.guardrails",
    "read_stage_file": "oncely_cdk.stage_file",
}
__all__ = tuple(_MODULE_OF)  # one list of names and their modules


def __getattr__(name: str) -> Any:  # noqa: ANN401  # of any type
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_MODULE_OF[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in {"aws_cdk", "constructs"}:
            raise
        raise ModuleNotFoundError(
            f'the constructs need the package {error.name}: pip install "oncely[cdk]"',
            name=error.name,
        ) from error
