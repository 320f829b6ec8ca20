"""Job types by name, such as `shop.vouchers:VoucherIssue`: the engine imports only named ones."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any, Final, TypeGuard

from oncely.contracts.job import AnyJob, Job
from oncely.core.errors import NotConfiguredError
from oncely.core.text import single_line

# The variable of a function: the names of its job types, separated by commas.
JOBS_ENV_VAR: Final = "ONCELY_JOBS"
_EXAMPLE: Final = "shop.vouchers:VoucherIssue"


def jobs_from_env(environ: Mapping[str, str]) -> tuple[type[AnyJob], ...]:
    """Import the job types of this function. Without the variable, every job would be unknown."""
    if (names := environ.get(JOBS_ENV_VAR)) is None:
        raise NotConfiguredError(
            f"the environment is incomplete ({JOBS_ENV_VAR}: missing): deploy the stack again"
        )
    return import_jobs(filter(None, names.split(",")), source=JOBS_ENV_VAR)


def import_jobs(names: Iterable[str], *, source: str) -> tuple[type[AnyJob], ...]:
    """Import job types by name. A name can also be that of a list: `shop.jobs:JOBS`.

    `source` is where the names are written, for the error.
    """
    found: dict[type[AnyJob], str] = {}
    for name in map(str.strip, names):
        for contract_type in _import_name(name, source):
            if contract_type in found:
                raise NotConfiguredError(
                    f"{source} lists {contract_type.__name__} twice, as {found[contract_type]!r} "
                    f"and {name!r}: remove one of them"
                )
            found[contract_type] = name
    return tuple(found)


def refuse_other_jobs(contracts: Iterable[object], environ: Mapping[str, str]) -> None:
    """Compare the jobs of a team's own function with those that the stack deployed it for."""
    deployed, own = environ.get(JOBS_ENV_VAR), name_jobs(contracts)
    if deployed is not None and set(deployed.split(",")) != set(own.split(",")):
        raise NotConfiguredError(
            f"the function runs {own}, but the stack deployed it for {deployed}: give "
            "`oncely.worker` the jobs of its queue and deploy again"
        )


def name_jobs(contracts: Iterable[object]) -> str:
    """Return the value of ONCELY_JOBS. Each name must import the same class elsewhere."""
    return ",".join(_name_job(one) for one in contracts)


def _name_job(contract_type: object) -> str:
    if not _is_job(contract_type):
        raise NotConfiguredError(f"{contract_type!r} is not a job: {_JOB_HINT}")
    name = f"{contract_type.__module__}:{contract_type.__qualname__}"
    module = sys.modules.get(contract_type.__module__)
    if contract_type.__module__ == "__main__" or _attribute(module, name) is not contract_type:
        raise NotConfiguredError(
            f"the job {name!r} cannot be imported by its name: define it at the top level of "
            "a module that is shipped with the functions, not in a script or a function"
        )
    return name


def _import_name(name: str, source: str) -> Iterator[type[AnyJob]]:
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise NotConfiguredError(f"{source} lists {name!r}: write it like {_EXAMPLE}")
    try:
        module = import_module(module_name)
    except Exception as error:  # a module can raise anything while it is imported
        reason = single_line(f"{type(error).__name__}: {error}")
        raise NotConfiguredError(
            f"{source} lists {name!r}, which cannot be imported ({reason}): correct the name, or "
            "add the package that is missing"
        ) from error
    value = _attribute(module, name)
    if value is None:
        raise NotConfiguredError(
            f"{source} lists {name!r}, but {module_name} has no {attribute}: correct the name"
        )
    for one in value if isinstance(value, list | tuple) else (value,):
        if not _is_job(one):
            raise NotConfiguredError(
                f"{source} lists {name!r}, but {one!r} is not a job: {_JOB_HINT}"
            )
        yield one


_JOB_HINT: Final = "use a subclass of oncely.Job that defines `execute`, or a list of them"


def _attribute(module: object, name: str) -> Any:  # noqa: ANN401  # whatever the name stands for
    try:
        return attrgetter(name.partition(":")[2])(module)
    except AttributeError:
        return None


def _is_job(value: object) -> TypeGuard[type[AnyJob]]:
    # A class that lacks a method is abstract; Python refuses only its instances.
    is_job = isinstance(value, type) and issubclass(value, Job)
    return is_job and not getattr(value, "__abstractmethods__", None)
