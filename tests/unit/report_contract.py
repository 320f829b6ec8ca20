"""A job type of the tests. It may run again, so its key is a token of the producer."""

from typing import Literal

from oncely.contracts.contract import Contract
from oncely.contracts.description import Description
from oncely.contracts.message import Message
from oncely.contracts.resources import Resources
from oncely.core.effect_outcomes import Succeeded
from oncely.core.job_type import EffectCall, Proceed
from oncely.core.keys import JobKey, job_key
from oncely.core.profiles import RetryPolicy, RetrySafety
from tests.unit.samples import PROFILE


class ReportMessage(Message):
    job: Literal["report.build"]
    v: Literal[1]
    list_id: str
    token: str
    text: str | None = None


class ReportBuild(Contract[ReportMessage, None]):
    job_type = "report.build"
    message = ReportMessage
    policy = RetryPolicy(safety=RetrySafety.NATURAL, profile=PROFILE)
    resources = Resources(queue="reports", sends_to=("mail",))
    description = Description(
        effect="a file.", business_rows="none.", success="it is there.", failure="never."
    )

    @classmethod
    def key(cls, message: ReportMessage) -> JobKey:
        return job_key(cls.job_type, message.token)

    @classmethod
    def uniqueness_key(cls, message: ReportMessage) -> str:
        return f"report.build:{message.list_id}"

    def precheck(self, message: ReportMessage) -> Proceed[None]:
        return Proceed(facts=None, values={"list_id": message.list_id})

    def execute(self, call: EffectCall[None]) -> Succeeded:
        return Succeeded("built")


def report_message(token: str, list_id: str = "7", **more: object) -> dict[str, object]:
    """A report.build message."""
    return {"job": "report.build", "v": 1, "list_id": list_id, "token": token, **more}
