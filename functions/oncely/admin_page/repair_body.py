"""The body of a repair as a page sends it, checked."""

from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from oncely.domain.errors import InvalidRequestError
from oncely.domain.keys import JobKey
from oncely.domain.repairs import Repair
from oncely.operate.repair_request import RepairRequest


class RepairBody(BaseModel):
    """Which job, as it was seen, what to do, and why."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    key: str
    repair: str
    version: int
    reason: str
    reference: str | None = None
    dry_run: bool = False

    @classmethod
    def parse(cls, body: str) -> Self:
        """Read a body; what is wrong is said without repeating it."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            faults = (
                f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}"
                for fault in error.errors(include_url=False, include_input=False)
            )
            raise InvalidRequestError(f"not a repair: {'; '.join(faults)}"[:500]) from None

    def to_request(self, *, actor: str) -> RepairRequest:
        """The order of this person."""
        if self.repair not in set(Repair):
            known = ", ".join(Repair)
            raise InvalidRequestError(f"there is no such repair; there are {known}")
        return RepairRequest(
            key=JobKey(self.key),
            repair=Repair(self.repair),
            version=self.version,
            reason=self.reason,
            actor=actor,
            reference=(self.reference or "").strip() or None,
            dry_run=self.dry_run,
        )
