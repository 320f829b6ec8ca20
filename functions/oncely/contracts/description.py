"""A job type in plain language: fields for the admin page and `--json`, text for CLI and docs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from oncely.core.effect_outcomes import Json
from oncely.core.profiles import RetrySafety

RETRY_DESCRIPTIONS: Final[Mapping[RetrySafety, str]] = {
    RetrySafety.NATURAL: (
        "an ended job returns its first result; before that it runs again, which changes nothing "
        "at the provider."
    ),
    RetrySafety.KEYED: (
        "an ended job returns its first result. While the outcome is unknown, Oncely looks it up "
        "at the provider. It resends only if the effect certainly did not happen, or under the "
        "same idempotency key while the provider still honors it."
    ),
    RetrySafety.LOOKUP: (
        "an ended job returns its first result. While the outcome is unknown, Oncely looks it up "
        "at the provider. It resends only if the effect certainly did not happen."
    ),
    RetrySafety.AT_MOST_ONCE: (
        "an ended job returns its first result. While the outcome is unknown, it is never resent "
        "automatically: an operator decides."
    ),
}


@dataclass(frozen=True, kw_only=True)
class JobDescription:
    """A job type in plain language: what its author wrote, its limits and its retry safety."""

    job_type: str
    queue: str
    effect: str
    business_rows: str
    success: str
    failure: str
    retry: str
    review_when: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        """The fields for the admin page and `--json`."""
        return {**vars(self), "review_when": list(self.review_when)}

    def __str__(self) -> str:
        lines = (
            f"{self.job_type} (queue {self.queue})",
            f"  Effect: {self.effect}",
            f"  Business rows: {self.business_rows}",
            f"  Success: {self.success}",
            f"  Failure: {self.failure}",
            f"  Retry: {self.retry}",
            "  Needs review:",
            *(f"    - {case}" for case in self.review_when),
        )
        return "\n".join(lines)
