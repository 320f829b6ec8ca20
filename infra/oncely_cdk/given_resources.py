"""What a stack gives the construct: settings, existing tables and secrets, its own variables."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aws_cdk import Token
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from pydantic import ValidationError

from oncely.contracts.job import JobSettings
from oncely.contracts.job_names import JOBS_ENV_VAR
from oncely.contracts.settings import (
    Settings,
    columns_env_var,
    job_setting_output,
    queue_env_var,
    secret_env_var,
    table_env_var,
)
from oncely.operate.own_tables import JOBS
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.stage_file import suggest
from oncely_cdk.stages import OncelySettings, StageError

_TEXT: Final = dynamodb.AttributeType.STRING


@dataclass(frozen=True)
class GivenResources:
    """Existing resources by short name. A name that no job uses is refused as misspelled."""

    required: RequiredResources
    settings: OncelySettings
    tables: Mapping[str, dynamodb.ITable]
    secrets: Mapping[str, secretsmanager.ISecret]
    queues: Mapping[str, sqs.IQueue]
    workers: Mapping[str, lambda_.IFunction]
    archive_bucket: s3.IBucket | None
    environment: Mapping[str, str]

    def __post_init__(self) -> None:
        settings, required = self.settings, self.required
        self._refuse_unknown_names()
        for plugin in required.providers:
            settings.settings_of(plugin)
        if self.archive_bucket is not None and settings.existing_archive_bucket is not None:
            raise settings.error(
                "existing_archive_bucket and archive_bucket are both given: use one"
            )
        self._check_keys()
        _check_columns(settings, required, self.tables)
        self._check_job_settings()
        if taken := sorted(set(self.environment) & set(_own_variables(required))):
            raise StageError(
                f"environment sets {', '.join(taken)}, which Oncely sets itself: rename it, or use "
                "the argument or setting for it"
            )

    def _refuse_unknown_names(self) -> None:
        settings, required = self.settings, self.required
        tables, secrets = (JOBS, *required.tables), (*required.secrets, *required.signing_secrets)
        # What is given by name, and the names that the jobs use.
        names: dict[str, tuple[Iterable[str], Iterable[str]]] = {
            "tables": (self.tables, tables),
            "existing_tables": (settings.existing_tables, tables),
            "secrets": (self.secrets, secrets),
            "existing_secrets": (settings.existing_secrets, secrets),
            "read_only_secrets": (settings.read_only_secrets, required.secrets),
            "queues": (self.queues, required.queues),
            "workers": (self.workers, required.queues),
            "queue_worker_concurrency": (settings.queue_worker_concurrency, required.queues),
            "table_retention_days": (
                settings.table_retention_days,
                required.default_retention_days,
            ),
            "provider_settings": (settings.provider_settings, required.provider_settings),
            "job_settings": (settings.job_settings, self._job_setting_variables),
        }
        for key, (given, known) in names.items():
            if unknown := sorted(set(given) - set(known)):
                raise settings.error(
                    f"{key} has {unknown[0]}, which no job uses{suggest(unknown[0], known)}"
                )

    @property
    def job_env_vars(self) -> dict[str, str]:
        """The variables of every function with jobs: the team's, and those of the stage's file."""
        in_file = {name.upper(): value for name, value in self.settings.job_settings.items()}
        return {**self.environment, **in_file}

    @property
    def job_setting_outputs(self) -> dict[str, str]:
        """What commands need: the settings that the jobs declare."""
        values = self.job_env_vars
        return {
            job_setting_output(field): values[name]
            for field, name in self._job_setting_variables.items()
            if name in values
        }

    @property
    def _job_setting_variables(self) -> dict[str, str]:
        """The variable of each declared field."""
        types = self.required.job_settings
        return {field: name for one in types for field, name in one.env_vars().items()}

    def _check_job_settings(self) -> None:
        """Refuse values that a job could not use, and fields that hide a variable of Oncely."""
        given, variables = self.settings.job_settings, self._job_setting_variables
        taken = set(_own_variables(self.required))
        for field, name in variables.items():
            if name in taken:
                raise StageError(
                    f"the settings of a job are read from {name}, which Oncely sets itself: "
                    "rename the field"
                )
            if field in given and name in self.environment:
                raise self.settings.error(
                    f"job_settings.{field} is in `environment`, too, as {name}: use one"
                )
        for settings_type in self.required.job_settings:
            self._check_values(settings_type)

    def _check_values(self, settings_type: type[JobSettings]) -> None:
        values = self.job_env_vars
        try:
            settings_type.read(values)
        except ValidationError as error:
            for fault in error.errors():
                field = str(fault["loc"][0])
                # What only the deployment knows is checked when the worker starts.
                if not Token.is_unresolved(values.get(field.upper(), "")):
                    raise self.settings.error(
                        f"job_settings.{field} of {settings_type.__name__}: {fault['msg']}"
                    ) from error

    def _check_keys(self) -> None:
        settings, keys = self.settings, self.settings.existing_keys
        # What has a key, what exists, and the setting that names it.
        groups: dict[str, tuple[Iterable[str], Iterable[str], str]] = {
            "tables": (keys.tables, {*self.tables, *settings.existing_tables}, "existing_tables"),
            "secrets": (
                keys.secrets,
                {*self.secrets, *settings.existing_secrets},
                "existing_secrets",
            ),
            "read_only_secrets": (
                keys.read_only_secrets,
                settings.read_only_secrets,
                "read_only_secrets",
            ),
        }
        for group, (given, existing, setting) in groups.items():
            if unknown := sorted(set(given) - set(existing)):
                raise settings.error(
                    f"existing_keys.{group} has {unknown[0]}, which the stack creates or no job "
                    f"uses: name yours as {setting}.{unknown[0]}"
                )
        bucket = settings.existing_archive_bucket or self.archive_bucket
        if keys.archive_bucket is not None and bucket is None:
            raise settings.error(
                "existing_keys.archive_bucket is set, but the stack creates the archive bucket: "
                "name yours as existing_archive_bucket"
            )


def _check_columns(
    settings: OncelySettings, required: RequiredResources, given: Mapping[str, dynamodb.ITable]
) -> None:
    """Refuse a mapping without an existing table, and a table whose key the jobs cannot use."""
    existing = {*given, *settings.existing_tables}
    for name, mapping in settings.table_columns.items():
        schema = required.table_schemas.get(name)
        if schema is None or name not in existing:
            raise settings.error(
                f"table_columns has {name}, which is not an existing table with columns of the "
                f"jobs: set existing_tables.{name}"
            )
        if fault := next(schema.mapping_faults(mapping), None):
            raise settings.error(f"table_columns.{name}: {fault}")
    for name, table in given.items():
        schema = required.table_schemas.get(name)
        if schema is not None and isinstance(table, dynamodb.Table):
            columns = settings.table_columns.get(name, {})
            wanted = [columns.get(one, one) for one in schema.key.names]
            key = table.schema()
            parts = [one for one in (key.partition_key, key.sort_key) if one is not None]
            actual = [one.name for one in parts]
            if actual != wanted or any(one.type is not _TEXT for one in parts):
                types = ", ".join(f"{one.name} ({one.type.name.lower()})" for one in parts)
                raise settings.error(
                    f"tables has {name} with the key {types}, but the jobs use "
                    f"{', '.join(wanted)} (string): map the columns under [table_columns.{name}]"
                )


def _own_variables(required: RequiredResources) -> Iterator[str]:
    yield from (JOBS_ENV_VAR, "POWERTOOLS_SERVICE_NAME")
    yield from (name.upper() for name in Settings.model_fields)
    yield from map(table_env_var, required.tables)
    yield from map(columns_env_var, required.tables)
    yield from map(secret_env_var, (*required.secrets, *required.signing_secrets))
    yield from map(queue_env_var, required.queues)
    for plugin in required.configured_providers:
        yield from map(plugin.env_var, plugin.settings_type.model_fields)
