"""AWS resources that plug-ins request, such as a source of events."""

import hashlib
from collections.abc import Iterable
from typing import Final

from aws_cdk import CfnResource, Stack
from constructs import Construct

from oncely.contracts.settings import pascal_case
from oncely.plugins.provider import AnyProvider
from oncely_cdk.stages import OncelySettings

# Every AWS service accepts names of this length.
_MAX_NAME_LENGTH: Final = 64


def with_provider_resources(
    scope: Construct, stage: OncelySettings, providers: Iterable[AnyProvider]
) -> OncelySettings:
    """Create what the providers need, and return the stage with its names in the settings."""
    stack = Stack.of(scope)
    bus = stack.format_arn(service="events", resource="event-bus", resource_name="default")
    found = dict(stage.provider_settings)
    for plugin in providers:
        wanted = plugin.stack_resources(
            stage.settings_of(plugin), name=_short_name(stack.stack_name), event_bus=bus
        )
        parent = Construct(scope, f"{pascal_case(plugin.name)}Resources") if wanted else scope
        created: list[CfnResource] = []
        for one in wanted:
            resource = CfnResource(parent, one.id, type=one.type, properties=dict(one.properties))
            resource.node.add_dependency(*created)
            created.append(resource)
            if one.setting is not None:
                # A reference, so that no function starts before the resource exists.
                found[f"{plugin.name}_{one.setting}"] = resource.ref
    return stage.model_copy(update={"provider_settings": found})


def _short_name(stack_name: str) -> str:
    if len(stack_name) <= _MAX_NAME_LENGTH:
        return stack_name
    digest = hashlib.sha256(stack_name.encode()).hexdigest()[:8]
    return f"{stack_name[: _MAX_NAME_LENGTH - len(digest) - 1]}-{digest}"
