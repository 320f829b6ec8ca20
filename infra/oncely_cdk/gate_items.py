"""The keys of the gate table's items, for IAM conditions."""

from collections.abc import Iterable
from typing import Final

from oncely.core.profiles import EndpointGroup
from oncely.gates.rules import (
    gate_name,
)
from oncely.gates.table import PAUSE_KEY_PREFIX
from oncely.plugins.provider import AnyProvider

PAUSES: Final = [f"{PAUSE_KEY_PREFIX}*"]


def gates(providers: Iterable[AnyProvider]) -> list[str]:
    """The gates of these providers."""
    return [gate_name(plugin.name, group) for plugin in providers for group in EndpointGroup]
