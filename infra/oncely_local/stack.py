"""The local stack: the engine, the provider sandbox with its events, and the deployed stack."""

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from oncely.plugins.events import EventEnvelope, EventRule
from oncely.plugins.provider import AnyProvider
from oncely.testing.sandbox import Sandbox, SandboxOptions
from oncely_local.account import LocalAccount
from oncely_local.cdk_cli import require_cdk
from oncely_local.deploy import bootstrap, cached_assembly, deploy
from oncely_local.engine import ACCOUNT, Engine, free_port, install_if_missing, start_engine
from oncely_local.kept_data import KeptData, LocalPorts
from oncely_local.project import LocalProject, local_project

ENGINE_LOG: Final = Path("engine.log")
# Sent when a terminal closes, and by process managers.
_SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM)

# Of what the stack creates for a provider. Only EventBridge compares it.
LOCAL_NAME: Final = "local"


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
    report_progress: Callable[[str], None],
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
    require_cdk(project.folder)
    is_restored = kept is not None and kept.is_complete
    ports = kept.choose_ports() if kept else LocalPorts(engine=0, providers=0)
    log = project.build_folder / log
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    if not project.is_clone:  # there, make installs it
        report_progress("installing the local AWS (on its first use)")
        install_if_missing(project.engine_environment)
    options = SandboxOptions(honors_idempotency_keys=honors_idempotency_keys)
    sandbox = Sandbox(
        project.providers, jobs=project.jobs, port=ports.providers, seed=seed, options=options
    )
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
        account = deploy(engine.url, assembly, providers=sandbox.url)
        account.put_secrets(project.secrets)
        with event_delivery(sandbox, project, account):
            yield LocalStack(engine, sandbox, account, account.outputs(), project, is_restored)


def envelope_for(rules: tuple[EventRule, ...], event: Mapping[str, Any]) -> str | None:
    """The message that the first matching rule would send. Returns None if none matches."""
    type_ = str(event.get("type"))
    for rule in rules:
        if type_ in rule.detail_types and (kept := rule.reduce(event)) is not None:
            return EventEnvelope(
                source=rule.source, account=ACCOUNT, detail_type=type_, detail=kept
            ).to_body()
    return None


def deployed_rules(plugin: AnyProvider, project: LocalProject) -> tuple[EventRule, ...]:
    """The rules of a provider's events, including those that need a resource of the stack."""
    settings = project.settings.settings_of(plugin)
    created = plugin.stack_resources(settings, name=LOCAL_NAME, event_bus="")
    named = {one.setting: LOCAL_NAME for one in created if one.setting}
    return plugin.event_rules(settings.model_copy(update=named))


@contextlib.contextmanager
def event_delivery(
    sandbox: Sandbox, project: LocalProject, account: LocalAccount
) -> Iterator[None]:
    """Deliver events while the stack runs, if it has an intake. What cannot be sent is lost."""
    url = account.outputs().get("EventsQueueUrl")
    if url is None:
        yield
        return
    with ThreadPoolExecutor(max_workers=1) as pool:

        def send(body: str) -> None:
            with contextlib.suppress(Exception):  # the reconciler resolves jobs without events
                account.client("sqs").send_message(QueueUrl=url, MessageBody=body)

        for plugin in project.providers:
            rules = deployed_rules(plugin, project)

            def deliver(event: Mapping[str, Any], rules: tuple[EventRule, ...] = rules) -> None:
                if body := envelope_for(rules, event):
                    with contextlib.suppress(RuntimeError):  # the stack is stopping
                        pool.submit(send, body)

            sandbox.providers[plugin.name].on_event = deliver
        yield


@contextlib.contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Treat these signals like Ctrl-C, so that everything is cleaned up."""
    previous_handlers = {one: signal.signal(one, signal.default_int_handler) for one in _SIGNALS}
    try:
        yield
    finally:
        for one, handler in previous_handlers.items():
            signal.signal(one, handler)
