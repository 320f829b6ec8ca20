"""Facts about providers, each with where it was read and when. Only `make docs` loads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What a provider does, where and when that was read, and what Oncely does because of it."""

    says: str  # one or two sentences in our own words
    source: str = ""  # the address of the page; empty if none was found that says so
    read: date | None = None  # when; without a source, when one was looked for
    does: str = ""  # what Oncely does because of it
    of: str = ""  # the number of the profile that rests on it, by its name on the page

    def __post_init__(self) -> None:
        if self.source and self.read is None:
            raise ValueError(f"{self.source}: a source needs the date when it was read")


@dataclass(frozen=True, kw_only=True)
class Sdk:
    """What a version of a provider's SDK knows of idempotency. A test compares it."""

    package: str
    version: str
    read: date
    knows: Mapping[str, str] = field(default_factory=dict)  # what each name or code means


@dataclass(frozen=True, kw_only=True)
class ProviderFacts:
    """The register of one provider."""

    facts: tuple[Fact, ...]
    sdk: Sdk | None = None  # None if Oncely calls the provider without one
    notes: tuple[str, ...] = ()  # what else Oncely does or needs
