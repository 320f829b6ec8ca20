"""The whole of Oncely running on this machine: engine, providers, deployed stack, and its end."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from oncely.testing.sandbox import ProviderSandbox
from oncely_local.account import LocalAccount
from oncely_local.deploy import BUILD_FOLDER, bootstrap, cached_assembly, deploy
from oncely_local.engine import Engine, running_engine

ENGINE_LOG: Final = BUILD_FOLDER / "engine.log"

ProgressCallback = Callable[[str], None]


@dataclass(frozen=True)
class LocalStack:
    """A deployed stack: `running_stack` makes it, and ends all of it."""

    engine: Engine
    sandbox: ProviderSandbox
    account: LocalAccount
    outputs: Mapping[str, str]

    @property
    def log(self) -> Path:
        """Where the engine writes what it does."""
        return self.engine.log


@contextlib.contextmanager
def running_stack(
    report_progress: ProgressCallback,
    *,
    log: Path = ENGINE_LOG,
    honors_idempotency_keys: bool = True,
    seed: int = 0,
) -> Iterator[LocalStack]:
    """Start, deploy and fill everything; `tell` hears of each step."""
    BUILD_FOLDER.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    with (
        ProviderSandbox(honors_idempotency_keys=honors_idempotency_keys, seed=seed) as sandbox,
        # Ends before what its functions call, so that none of them sees a dead provider.
        running_engine(log) as engine,
    ):
        report_progress("synthesizing the stack (once for each change)")
        assembly = cached_assembly()
        report_progress("preparing the local account for the CDK")
        bootstrap(engine.url, assembly)
        report_progress("deploying with the CDK")
        deploy(engine.url, assembly, providers=sandbox.url)
        account = LocalAccount(engine.url)
        account.put_provider_secrets()
        yield LocalStack(engine, sandbox, account, account.outputs())
