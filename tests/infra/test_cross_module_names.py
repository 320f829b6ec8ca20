"""Every handler runs with shipped code only, and every environment parses as its settings."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncely.contracts.job import providers_of
from oncely.contracts.job_names import JOBS_ENV_VAR
from oncely.contracts.settings import Settings
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely_cdk import layers
from oncely_cdk.layers import BUILD, ENGINE, ON_THIS_MACHINE, LayerError, layers_for
from oncely_cdk.required_resources import RequiredResources
from tests.infra.assembly import LAMBDA, SHIPPED_FUNCTIONS, Assembly, FunctionResource
from tests.support.engines import skip_or_fail

# Runs without site-packages, so imports come from the asset, the layers or the stdlib.
IMPORTS = """
import importlib, json, os, sys
handler, *paths = sys.argv[1:]
sys.path[:0] = paths
module, _, name = handler.rpartition(".")
assert callable(getattr(importlib.import_module(module), name))
for late in json.loads(sys.stdin.read()):
    importlib.import_module(late)
importlib.import_module("oncely.handlers.telemetry").Telemetry.create()
files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
print(json.dumps([[file for file in files if file], sorted(sys.modules)]))
"""
# Like Lambda's init phase: with the function's variables and without network.
INIT = """
import gc, importlib, sys
handler, *paths = sys.argv[1:]
sys.path[:0] = paths
def audit(event, args):
    if event.startswith("socket."):
        raise RuntimeError(f"{event}{args}")
sys.addaudithook(audit)
module = importlib.import_module(handler.rpartition(".")[0])
made = [one for one in vars(module).values() if hasattr(one, "cache_info")]
assert all(one.cache_info().currsize == 1 for one in made), made
assert gc.isenabled() and gc.get_freeze_count()
print(*sorted(name for name in sys.modules if name.startswith("oncely.jobs.")))
"""
JOB_MODULES = {one.__module__.removeprefix("oncely.jobs.") for one in SHIPPED_JOBS}
JOB_MODULES |= {"orders", "payment_providers", "refund_ledger", "tables"}
# Imported on first use by functions with this layer.
LAZY_IMPORTS = {
    "runtime": "botocore.httpsession",
    ENGINE: "oncely.handlers.telemetry",
    **{one.layer: one.preload[0] for one in providers_of(SHIPPED_JOBS) if one.layer},
}


@pytest.fixture(scope="session")
def unpacked(prod: Assembly) -> dict[str, Path]:
    """The real local layers by name, built by `make test`, and the engine's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "BUILD", BUILD)
        local = layers_for(ON_THIS_MACHINE)
        try:
            list(layers.build_layers((ON_THIS_MACHINE,)))
        except LayerError as error:
            skip_or_fail(str(error))
        folders = {name: layer.unpacked for name, layer in local.items()}
        return {**folders, ENGINE: prod.engine / "python"}


# The local layer replaces `runtime` and includes what Lambda provides.
LAMBDA_RUNTIME_MODULES = {"boto3", "botocore", "python_dateutil", "s3transfer", "six", "urllib3"}


@dataclass(frozen=True)
class ImportedModules:
    """The modules that importing a handler loads."""

    files: list[Path]
    names: set[str]


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """An interpreter that sees only what it is given, and compiles the engine once for all."""
    bytecode = tmp_path_factory.mktemp("bytecode")
    return [sys.executable, "-I", "-S", "-X", f"pycache_prefix={bytecode}", "-c"]


def find_imports(
    function: FunctionResource, unpacked: dict[str, Path], python: list[str]
) -> ImportedModules:
    paths = [function.folder, *(unpacked[name] for name in function.layers)]
    done = subprocess.run(
        [*python, IMPORTS, function.properties["Handler"], *paths],
        input=json.dumps([LAZY_IMPORTS[name] for name in function.layers]),
        cwd="/",
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files, names = json.loads(done.stdout)
    return ImportedModules([Path(file) for file in files], set(names))


@pytest.fixture(scope="session")
def loaded(
    prod: Assembly, unpacked: dict[str, Path], python: list[str]
) -> dict[str, ImportedModules]:
    return {name: find_imports(one, unpacked, python) for name, one in prod.functions.items()}


def test_every_handler_imports_only_from_asset_and_layers(
    prod: Assembly, unpacked: dict[str, Path], loaded: dict[str, ImportedModules]
) -> None:
    library = Path(sys.base_prefix)
    for name, function in prod.functions.items():
        known = (library, function.folder, *(unpacked[layer] for layer in function.layers))
        for file in loaded[name].files:
            assert any(file.is_relative_to(place) for place in known), file


def test_handler_import_needs_no_environment(loaded: dict[str, ImportedModules]) -> None:
    # `find_imports` gave them none.
    assert len(loaded) >= SHIPPED_FUNCTIONS


def test_init_builds_everything_and_imports_only_own_jobs_without_connection(
    prod: Assembly, unpacked: dict[str, Path], python: list[str]
) -> None:
    imported = {}
    for name, function in prod.functions.items():
        paths = [function.folder, *(unpacked[layer] for layer in function.layers)]
        done = subprocess.run(
            [*python, INIT, function.properties["Handler"], *paths],
            cwd="/",
            env={**LAMBDA, **function.variables, "LAMBDA_TASK_ROOT": str(function.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{function.name}: {done.stderr}"
        imported[name] = {one.removeprefix("oncely.jobs.") for one in done.stdout.split()}

    assert imported["SyncWorker/Worker"] == {"sync_contact", "sync_import", "sync_push", "tables"}
    assert imported["MailWorker/Worker"] == {"orders", "receipt_send", "tables"}
    payments = {
        *("orders", "payment_charge", "payment_providers", "payment_refund"),
        *("receipt_send", "refund_ledger", "tables"),
    }
    assert imported["PaymentsWorker/Worker"] == payments
    assert imported["Reconciler/Find"] == payments - {"payment_refund", "refund_ledger"}
    assert imported["Reconciler/Finish"] == imported["Rejects/Archive"] == set()
    assert imported["Reconciler/Resolve"] == imported["AdminPage/Read"] == JOB_MODULES


def test_every_variable_is_read_by_settings(prod: Assembly) -> None:
    providers = RequiredResources(tuple(SHIPPED_JOBS)).providers
    fields = {name.upper() for name in Settings.model_fields}
    fields |= {JOBS_ENV_VAR, "POWERTOOLS_SERVICE_NAME"}
    fields |= {
        plugin.env_var(one) for plugin in providers for one in plugin.settings_type.model_fields
    }
    grouped = ("_TABLE", "_SECRET", "_QUEUE_URL", "_RETENTION_DAYS")
    for function in prod.functions.values():
        for name in function.variables:
            assert name in fields or name.endswith(grouped), (function.name, name)


def test_every_dependency_is_imported(
    prod: Assembly, unpacked: dict[str, Path], loaded: dict[str, ImportedModules]
) -> None:
    unused = {
        (layer, package)
        for function in prod.functions.values()
        for layer in function.layers
        # A worker has at most one provider's layer; the resolver, with two, would hide much.
        if function.entry == "process_queue" and (layer != "runtime" or len(function.layers) == 2)
        for package, names in distributions(unpacked[layer]).items()
        if not names & loaded[function.name].names
    }

    assert unused - {("runtime", name) for name in LAMBDA_RUNTIME_MODULES} == set()


def distributions(layer: Path) -> dict[str, set[str]]:
    found = {}
    for info in layer.glob("*.dist-info"):
        name = info.name.partition("-")[0]
        listed = info / "top_level.txt"
        found[name] = set(listed.read_text(encoding="utf-8").split()) if listed.exists() else {name}
    return found


def test_code_size_is_bounded(prod: Assembly) -> None:
    size = sum(file.stat().st_size for file in prod.engine.rglob("*.py"))

    # All functions share it, so developer tools must stay out.
    assert size < 1_330_000
