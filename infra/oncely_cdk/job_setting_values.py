"""The values of the settings that jobs declare: from the stage's file, or from the stack."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Token
from pydantic import ValidationError

from oncely.contracts.resources import JobSettings
from oncely.contracts.settings import job_setting_output
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.stages import OncelySettings, StageError


@dataclass(frozen=True)
class JobSettingValues:
    """The settings of all jobs, as every function that imports jobs gets them."""

    required: RequiredResources
    settings: OncelySettings
    environment: Mapping[str, str]  # of the team

    @property
    def variables(self) -> dict[str, str]:
        """The variable of each declared field."""
        types = self.required.job_settings
        return {field: name for one in types for field, name in one.env_vars().items()}

    @property
    def env_vars(self) -> dict[str, str]:
        """The team's variables, and the settings of the stage's file."""
        given = {name.upper(): value for name, value in self.settings.job_settings.items()}
        return {**self.environment, **given}

    @property
    def outputs(self) -> dict[str, str]:
        """What commands need: the declared settings."""
        values = self.env_vars
        return {
            job_setting_output(field): values[name]
            for field, name in self.variables.items()
            if name in values
        }

    def check(self, taken: set[str]) -> None:
        """Refuse values that a job could not use, and fields that hide a variable of Oncely."""
        for field, name in self.variables.items():
            if name in taken:
                raise StageError(
                    f"the settings of a job are read from {name}, which Oncely sets itself: "
                    "rename the field"
                )
            if field in self.settings.job_settings and name in self.environment:
                raise self.settings.error(
                    f"job_settings.{field} is in `environment`, too, as {name}: use one"
                )
        for settings_type in self.required.job_settings:
            self._check_values(settings_type)

    def _check_values(self, settings_type: type[JobSettings]) -> None:
        values = self.env_vars
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
