"""The JSON body of a repair request, validated."""

from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from oncely.contracts.message import RunAt
from oncely.core.errors import InvalidRequestError
from oncely.core.keys import JobKey
from oncely.core.repairs import Repair
from oncely.operate.repair_request import RepairRequest


class RequestBody(BaseModel):
    """The body of a request that changes jobs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    request_name: ClassVar[str] = "repair"

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
            reason = f"invalid {cls.request_name} request: {'; '.join(errors)}"[:500]
            raise InvalidRequestError(reason) from None


class RepairBody(RequestBody):
    """The job and the version the operator saw, the repair, and the reason."""

    key: str
    repair: str
    version: int
    reason: str
    reference: str | None = None
    run_at: RunAt | None = None
    dry_run: bool = False

    def to_request(self, *, actor: str) -> RepairRequest:
        if self.repair not in set(Repair):
            raise InvalidRequestError(f"unknown repair: use one of {', '.join(Repair)}")
        return RepairRequest(
            key=JobKey(self.key),
            repair=Repair(self.repair),
            version=self.version,
            reason=self.reason,
            actor=actor,
            reference=(self.reference or "").strip() or None,
            run_at=self.run_at,
            dry_run=self.dry_run,
        )
