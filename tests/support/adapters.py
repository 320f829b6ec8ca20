"""The adapters of AWS, found in the code."""

import inspect
import pkgutil
from importlib import import_module
from typing import Final

_PARTS: Final = ("core", "aws", "alerts", "gates", "history", "operate", "publish", "reconcile")


def aws_adapters() -> set[type]:
    """Every class of the engine that has a client of AWS."""
    packages = [import_module(f"oncely.{part}") for part in _PARTS]
    modules = [
        import_module(one.name)
        for package in packages
        for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]
    return {
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and {"client", "clients"} & inspect.get_annotations(value).keys()
    }
