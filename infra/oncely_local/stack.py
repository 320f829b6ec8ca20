"""The local stack: the engine, the provider sandbox and the deployed stack."""

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from oncely.testing.sandbox import Sandbox, SandboxOptions
from oncely_local.account import LocalAccount
from oncely_local.deploy import bootstrap, cached_assembly, deploy, stack_name
from oncely_local.engine import Engine, free_port, install_if_missing, start_engine
from oncely_local.event_delivery import event_delivery
from oncely_local.kept_data import KeptData, LocalPorts
from oncely_local.project import LocalProject, local_project

ENGINE_LOG: Final = Path("engine.log")
# Sent when a terminal closes, and by process managers.
_SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM)

ProgressCallback = Callable[[str], None]


@dataclass(frozen=True)
class LocalStack:
    """A deployed local stack, created by `running_stack`."""

    engine: Engine
    sandbox: Sandbox
    account: LocalAccount
    outputs: Mapping[str, str]
    project: LocalProject
    is_restored: bool = False  # it has the data of an earlier start


@contextlib.contextmanager
def running_stack(
    report_progress: ProgressCallback,
    *,
    log: Path = ENGINE_LOG,  # in the project's build folder
    honors_idempotency_keys: bool = True,
    seed: int = 0,
    kept: KeptData | None = None,
) -> Iterator[LocalStack]:
    """Start everything and deploy the stack. Calls `report_progress` with each step.

    With `kept`, it continues with the ports and the data that are there.
    """
    project = local_project()
    is_restored = kept is not None and kept.is_complete
    ports = kept.choose_ports() if kept else LocalPorts(engine=0, providers=0)
    log = project.build_folder / log
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    if not project.is_clone:  # there, make installs it
        report_progress("installing the local AWS (on its first use)")
        install_if_missing(project.engine_environment)
    options = SandboxOptions(honors_idempotency_keys=honors_idempotency_keys)
    sandbox = Sandbox(project.providers, port=ports.providers, seed=seed, options=options)
    if kept and is_restored:
        kept.restore_providers(sandbox)
    with (
        sandbox,
        # Stops before the sandbox, so that no function sees the providers disappear.
        start_engine(
            log,
            environment=project.engine_environment,
            pick_port=lambda: ports.engine or free_port(),
            data=None if kept is None else kept.engine,
        ) as engine,
    ):
        report_progress("synthesizing the stack (cached until a source changes)")
        assembly = cached_assembly()
        if not is_restored:
            report_progress("bootstrapping the local account")
            bootstrap(engine.url, assembly)
        report_progress("deploying the stack")
        deploy(engine.url, assembly, providers=sandbox.url)
        account = LocalAccount(engine.url, stack_name(assembly))
        account.put_secrets(project.secrets)
        with event_delivery(sandbox, project, account):
            yield LocalStack(engine, sandbox, account, account.outputs(), project, is_restored)


@contextlib.contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Treat these signals like Ctrl-C, so that everything is cleaned up."""
    previous_handlers = {one: signal.signal(one, signal.default_int_handler) for one in _SIGNALS}
    try:
        yield
    finally:
        for one, handler in previous_handlers.items():
            signal.signal(one, handler)
