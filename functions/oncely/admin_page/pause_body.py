"""The JSON body of a request to pause or resume, validated."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from oncely.core.errors import InvalidRequestError


class PauseBody(BaseModel):
    """What to pause or resume, and why."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    target: str
    action: Literal["pause", "resume"]
    reason: str = ""

    @classmethod
    def parse(cls, body: str) -> Self:
        """Parse a body. Errors contain the field but never its value."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            errors = (
                f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}"
                for fault in error.errors(include_url=False, include_input=False)
            )
            raise InvalidRequestError(f"invalid request: {'; '.join(errors)}"[:500]) from None
