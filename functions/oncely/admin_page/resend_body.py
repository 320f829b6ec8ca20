"""The JSON body of a request to resend a rejected message, validated."""

from typing import Annotated

from pydantic import Field

from oncely.admin_page.repair_body import RequestBody
from oncely.core.text import MAX_REASON_LENGTH


class ResendBody(RequestBody):
    """The message as the operator edited it, and the reason."""

    request_name = "resend"
    name: str
    message: str  # JSON text, with addresses masked as they were shown
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_LENGTH // 2)]
