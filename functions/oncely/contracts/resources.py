"""The resources of a job type: its queue, tables, providers, secrets and settings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from pydantic import BaseModel, ConfigDict

from oncely.contracts.table_schema import TableSchema
from oncely.plugins.provider import AnyProvider


class JobSettings(BaseModel):
    """Settings of job types. The field `voucher_template` is read from VOUCHER_TEMPLATE.

    Never a secret: the stack's outputs show them, so that commands have them as well.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    @classmethod
    def env_vars(cls) -> dict[str, str]:
        """Return the name of each field's environment variable."""
        return {field: field.upper() for field in cls.model_fields}

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Parse them, or raise pydantic's ValidationError."""
        names = cls.env_vars().items()
        values = {field: value for field, name in names if (value := environ.get(name))}
        return cls.model_validate(values)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources of a job type. The stack is derived from them."""

    queue: str
    # Business tables, in both if a table is read and written. One that another stack owns is a
    # short name without a schema. A worker cannot write a table that is only read.
    reads: tuple[TableSchema | str, ...] = ()
    writes: tuple[TableSchema | str, ...] = ()
    providers: tuple[AnyProvider, ...] = ()
    settings_of: tuple[AnyProvider, ...] = ()  # not called, only asked whether configured
    secrets: tuple[str, ...] = ()  # beyond the API keys of its providers
    settings: type[JobSettings] | None = None  # of its own; read with `dependencies.job_settings`
    sends_to: tuple[str, ...] = ()  # queues that its effect or its follow-ups send to

    @property
    def tables(self) -> tuple[TableSchema | str, ...]:
        """All its business tables."""
        return tuple(dict.fromkeys((*self.reads, *self.writes)))

    @property
    def table_names(self) -> tuple[str, ...]:
        """Short names of all its business tables."""
        return _table_names(self.tables)

    @property
    def read_table_names(self) -> tuple[str, ...]:
        """Short names of the tables that it reads."""
        return _table_names(self.reads)

    @property
    def written_table_names(self) -> tuple[str, ...]:
        """Short names of the tables that it writes."""
        return _table_names(self.writes)

    @cached_property
    def secret_names(self) -> tuple[str, ...]:
        """Short names of its own secrets and the API keys of its providers."""
        return self.secret_names_for(self.providers)

    @cached_property
    def secrets_by_provider(self) -> Mapping[str, tuple[str, ...]]:
        """The secrets of a job that uses one of the providers, by the name of the plug-in."""
        return {one.name: self.secret_names_for([one]) for one in self.providers}

    def secret_names_for(self, providers: Iterable[AnyProvider]) -> tuple[str, ...]:
        """Short names of its own secrets and the API keys of some of its providers."""
        chosen = (one for one in providers if one in self.providers)
        return (*self.secrets, *(one.secret_name for one in chosen if one.secret_name))


def _table_names(tables: Iterable[TableSchema | str]) -> tuple[str, ...]:
    return tuple(one if isinstance(one, str) else one.name for one in tables)
