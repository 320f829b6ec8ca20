"""Settings of a job type, such as an address or a template id."""

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict


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
