"""Imports a team's jobs at synthesis as Lambda will: a missing package is found before a deploy."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from oncely.core.text import single_line
from oncely_cdk.layers import ON_THIS_MACHINE, used_layers
from oncely_cdk.packaging import (
    CODE_PATH,
    collect_files,
    digest_files,
    engine_files,
    job_files,
    job_packages,
)
from oncely_cdk.paths import PACKAGE
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.stages import StageError

# Runs without site-packages, so imports come from the code, the layers or the standard library.
_SCRIPT: Final = """
import importlib, json, sys
task = json.load(sys.stdin)
report, sys.stdout = sys.stdout, sys.stderr  # a module may print
sys.path[:0] = task["paths"]
for module, importer in task["modules"].items():
    try:
        importlib.import_module(module)
    except BaseException as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        reason = f"{type(error).__name__}: {error}"
        json.dump({"importer": importer, "missing": missing, "reason": reason}, report)
        break
"""


def check_imports(
    required: RequiredResources, *, requirements: Path | None, environment: Mapping[str, str]
) -> None:
    """Import the jobs in an interpreter that has what functions have, and nothing else.

    It is this machine's interpreter, with the same pins as wheels for this machine and the boto3
    of the runtime. Raises StageError with one sentence.
    """
    if not job_packages(required.contracts):
        return  # all jobs are part of the engine, which has its own tests
    modules = {one.__module__: f"the job {one.job_type}" for one in required.contracts}
    for plugin in required.providers:
        modules |= dict.fromkeys(plugin.preload, f"the provider {plugin.name}")
    task = {"paths": _paths(required, requirements), "modules": modules}
    done = subprocess.run(  # noqa: S603  # this interpreter, on what the functions will run
        [sys.executable, "-I", "-S", "-B", "-c", _SCRIPT],
        input=json.dumps(task),
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = single_line((done.stderr.strip().splitlines() or ["no output"])[-1])
        raise StageError(f"the jobs cannot be imported as on Lambda ({last}): correct their code")
    if done.stdout:
        raise StageError(_sentence(json.loads(done.stdout), required, requirements))


def _paths(required: RequiredResources, requirements: Path | None) -> list[str]:
    layers = used_layers(ON_THIS_MACHINE, required.providers, jobs=requirements)
    for layer in layers.values():
        layer.build_if_missing()
    return [
        str(_collect(job_files(required.contracts))),
        str(_collect(engine_files()) / "python"),
        *(str(layer.unpacked) for layer in layers.values()),
    ]


def _collect(files: Mapping[str, Path]) -> Path:
    digest = digest_files(files, for_lambda=False)
    return collect_files(files, digest=digest, compiler=None, runtime_path=CODE_PATH)


def _sentence(
    found: Mapping[str, Any], required: RequiredResources, requirements: Path | None
) -> str:
    importer, missing = found["importer"], found["missing"]
    if missing is None:
        reason = single_line(found["reason"])
        return f"{importer} cannot be imported as on Lambda ({reason}): correct its code"
    package = missing.partition(".")[0]
    shipped = job_packages(required.contracts)
    if package == PACKAGE.name:
        return (
            f"{importer} imports {missing}, which is not shipped: it is for tests and the "
            "command, so move that import out of the job's package"
        )
    if package in shipped:
        return f"{importer} imports {missing}, which does not exist: correct the import"
    if _is_own_code(package):
        return (
            f"{importer} imports {missing}, which is not shipped: functions have the packages of "
            f"the jobs ({', '.join(shipped)}), so move it into one of them"
        )
    lock = "requirements-jobs.txt" if requirements is None else requirements.name
    return (
        f"{importer} imports {missing}, which is in no layer: add {_distribution(package)} to "
        f"{Path(lock).with_suffix('.in')}, run `oncely lock`, and give `requirements={lock!r}`"
    )


def _is_own_code(package: str) -> bool:
    """Whether this machine has the package as a folder of its own, not as an installed one."""
    spec = find_spec(package)
    if spec is None:
        return False
    places: Iterable[str] = spec.submodule_search_locations or (spec.origin or "",)
    return not any({"site-packages", "dist-packages"} & set(Path(one).parts) for one in places)


def _distribution(package: str) -> str:
    return next(iter(packages_distributions().get(package, ())), package)
