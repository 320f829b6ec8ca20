"""The local stack: the engine, the provider sandbox and the deployed stack."""

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from oncely.providers.sandbox import ProviderSandbox
from oncely_local.account import LocalAccount
from oncely_local.deploy import BUILD_FOLDER, bootstrap, cached_assembly, deploy
from oncely_local.engine import Engine, running_engine

ENGINE_LOG: Final = BUILD_FOLDER / "engine.log"
# Sent when a terminal closes, and by process managers.
_SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM)

ProgressCallback = Callable[[str], None]


@dataclass(frozen=True)
class LocalStack:
    """A deployed local stack, created by `running_stack`."""

    engine: Engine
    sandbox: ProviderSandbox
    account: LocalAccount
    outputs: Mapping[str, str]


@contextlib.contextmanager
def running_stack(
    report_progress: ProgressCallback,
    *,
    log: Path = ENGINE_LOG,
    honors_idempotency_keys: bool = True,
    seed: int = 0,
) -> Iterator[LocalStack]:
    """Start everything and deploy the stack. Calls `report_progress` with each step."""
    BUILD_FOLDER.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    with (
        ProviderSandbox(honors_idempotency_keys=honors_idempotency_keys, seed=seed) as sandbox,
        # Stops before the sandbox, so that no function sees the providers disappear.
        running_engine(log) as engine,
    ):
        report_progress("synthesizing the stack (cached until a source changes)")
        assembly = cached_assembly()
        report_progress("bootstrapping the local account")
        bootstrap(engine.url, assembly)
        report_progress("deploying the stack")
        deploy(engine.url, assembly, providers=sandbox.url)
        account = LocalAccount(engine.url)
        account.put_provider_secrets()
        yield LocalStack(engine, sandbox, account, account.outputs())


@contextlib.contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Treat these signals like Ctrl-C, so that everything is cleaned up."""
    previous_handlers = {one: signal.signal(one, signal.default_int_handler) for one in _SIGNALS}
    try:
        yield
    finally:
        for one, handler in previous_handlers.items():
            signal.signal(one, handler)
