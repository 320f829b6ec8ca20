"""Compares what the models of the providers receive and send with the vendors' descriptions."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pytest

from oncely.testing.sandbox.http_messages import SandboxRequest, SandboxResponse
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox
from oncely.testing.sandbox.server import SandboxProviders
from tests.specs import hubspot, ses, stripe_sdk
from tests.specs.description import ApiDescription


@cache
def descriptions() -> Mapping[str, ApiDescription]:
    """The description of each vendor that publishes one as data."""
    return {
        "hubspot": hubspot.described(),
        "ses": ses.described(),
        "stripe": stripe_sdk.described(),
    }


@dataclass
class Comparison:
    """Where exchanges differ from the descriptions, by whether the model states it."""

    exchanges: set[tuple[str, int]] = field(default_factory=set)  # operation and status
    known: set[str] = field(default_factory=set)  # the patterns of the stated differences
    unknown: set[str] = field(default_factory=set)

    def add(self, model: ProviderSandbox, differences: Iterable[str]) -> None:
        patterns = [one for stated in (model.differs or {}).values() for one in stated]
        for difference in differences:
            matching = {one for one in patterns if fnmatchcase(difference, one)}
            self.known |= matching
            if not matching:
                self.unknown.add(difference)


@contextmanager
def compare_exchanges() -> Iterator[Comparison]:
    """Compare every exchange, where all connections to a model meet."""
    comparison = Comparison()
    exchanged: list[tuple[ProviderSandbox, str, SandboxRequest, SandboxResponse]] = []
    answer = SandboxProviders.answer

    def recorded(self: SandboxProviders, request: SandboxRequest) -> Any:  # noqa: ANN401  # as wrapped
        response, fault = answer(self, request)
        for name, model in self.providers.items():
            if response is not None and model is self.provider_for(request.path):
                exchanged.append((model, name, request, response))
        return response, fault

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SandboxProviders, "answer", recorded)
        yield comparison
    for model, name, request, response in exchanged:
        if (description := descriptions().get(name)) is not None:
            comparison.exchanges.add((str(description.name_of(request)), response.status))
            comparison.add(model, description.differences(request, response))
