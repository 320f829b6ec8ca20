"""The whole of Oncely running on this machine: engine, providers, deployed stack, and its end."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.local.account import Account
from infra.local.deploy import HOME, assembly_of_stack, bootstrap, deploy
from infra.local.engine import Engine, running_engine
from infra.local.sandbox import ProviderSandbox

ENGINE_LOG: Final = HOME / "engine.log"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class LocalStack:
    """A deployed stack: `running_stack` makes it, and ends all of it."""

    engine: Engine
    sandbox: ProviderSandbox
    account: Account
    outputs: Mapping[str, str]

    @property
    def log(self) -> Path:
        """Where the engine writes what it does."""
        return self.engine.log


@contextlib.contextmanager
def running_stack(
    tell: Tell,
    *,
    log: Path = ENGINE_LOG,
    honours_keys: bool = True,
    seed: int = 0,
) -> Iterator[LocalStack]:
    """Start, deploy and fill everything; `tell` hears of each step."""
    HOME.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    with (
        ProviderSandbox(honours_keys=honours_keys, seed=seed) as sandbox,
        # Ends before what its functions call, so that none of them sees a dead provider.
        running_engine(log) as engine,
    ):
        tell("synthesizing the stack (once for each change)")
        assembly = assembly_of_stack()
        tell("preparing the local account for the CDK")
        bootstrap(engine.url, assembly)
        tell("deploying with the CDK")
        deploy(engine.url, assembly, providers=sandbox.url)
        account = Account(engine.url)
        account.fill_secrets()
        yield LocalStack(engine, sandbox, account, account.outputs())
