"""The adapters of AWS, found in the code."""

import inspect
import pkgutil
from importlib import import_module

import oncely.aws


def aws_adapters() -> set[type]:
    """Every class of `oncely.aws` that has a client."""
    modules = [
        import_module(one.name) for one in pkgutil.iter_modules(oncely.aws.__path__, "oncely.aws.")
    ]
    return {
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and {"client", "clients"} & inspect.get_annotations(value).keys()
    }
