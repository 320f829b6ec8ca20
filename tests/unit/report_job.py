"""A job type of the tests. It may run again, so its key is a token of the producer."""

from typing import ClassVar

from oncely.contracts.job import Job
from oncely.core.effect_outcomes import Succeeded
from oncely.core.job_type import Call, PrecheckResult, Proceed
from tests.unit.samples import PROFILE


class ReportBuild(Job):
    """A file."""

    key = "token"
    queue = "reports"
    profile = PROFILE
    safety = "natural"
    sends_to: ClassVar[tuple[str, ...]] = ("mail",)

    list_id: str
    token: str
    text: str | None = None

    def subject_id(self) -> None:
        return None

    def uniqueness_key(self) -> str:
        return f"report.build:{self.list_id}"

    def precheck(self) -> PrecheckResult[None]:
        return Proceed(facts=None, values={"list_id": self.list_id})

    def execute(self, call: Call) -> Succeeded:
        return Succeeded("built")


def report_message(token: str, list_id: str = "7", **more: object) -> dict[str, object]:
    """A report.build message."""
    return {"job": "report.build", "v": 1, "list_id": list_id, "token": token, **more}
