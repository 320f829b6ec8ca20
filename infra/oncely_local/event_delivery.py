"""Puts the events of the sandboxes onto the intake queue, as EventBridge would."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final

from oncely.plugins.events import EventEnvelope, EventRule
from oncely.plugins.provider import AnyProvider
from oncely.testing.sandbox import Sandbox
from oncely_local.account import LocalAccount
from oncely_local.engine import ACCOUNT
from oncely_local.project import LocalProject

# Of what the stack creates for a provider. Only EventBridge compares it.
LOCAL_NAME: Final = "local"


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


@contextmanager
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
            with suppress(Exception):  # the reconciler resolves jobs without events
                account.client("sqs").send_message(QueueUrl=url, MessageBody=body)

        for plugin in project.providers:
            rules = deployed_rules(plugin, project)

            def deliver(event: Mapping[str, Any], rules: tuple[EventRule, ...] = rules) -> None:
                if body := envelope_for(rules, event):
                    with suppress(RuntimeError):  # the stack is stopping
                        pool.submit(send, body)

            sandbox.providers[plugin.name].on_event = deliver
        yield
