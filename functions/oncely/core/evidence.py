"""The audit trail of a job: bounded, with equal entries counted."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from oncely.core.actors import display_name, is_operator
from oncely.core.lifecycle import Event, Status

# Bounds the row far below DynamoDB's 400 kB; each entry is bounded as well.
MAX_EVIDENCE_ENTRIES: Final = 100


@dataclass(frozen=True, kw_only=True)
class EvidenceEntry:
    """One entry of the audit trail: who did what, when, and why.

    An event or status that only a newer version knows stays text.
    """

    at: datetime
    event: Event | str
    from_status: Status | str | None
    to_status: Status | str
    reason: str
    actor: str
    count: int = 1
    last_at: datetime | None = None  # when the last of `count` equal entries was made

    @property
    def actor_name(self) -> str:
        """The actor's display name."""
        return display_name(self.actor)

    @property
    def is_operator_note(self) -> bool:
        """Whether an operator's action changed no status, so that it proves nothing."""
        return self.from_status == self.to_status and is_operator(self.actor)

    @property
    def leaves_claimable(self) -> bool:
        """Whether a worker may claim the job after it."""
        return isinstance(self.to_status, Status) and self.to_status.allows(Event.CLAIM)

    def repeated_at(self, at: datetime) -> "EvidenceEntry":
        """The same entry, counted once more."""
        return replace(self, count=self.count + 1, last_at=at)

    def equals_except_time(self, other: "EvidenceEntry") -> bool:
        """Whether the two differ only in time."""
        return replace(self, at=other.at, count=other.count, last_at=other.last_at) == other


def append_evidence(
    evidence: tuple[EvidenceEntry, ...], entry: EvidenceEntry
) -> tuple[EvidenceEntry, ...]:
    """Add an entry. Equal entries in a row are counted; operator notes make room first."""
    if evidence and entry.equals_except_time(evidence[-1]):
        return (*evidence[:-1], evidence[-1].repeated_at(entry.at))
    return _within_limit((*evidence, entry))


def insert_claim(
    evidence: tuple[EvidenceEntry, ...], claim: EvidenceEntry
) -> tuple[EvidenceEntry, ...]:
    """Add a claim after the entry that made the job claimable, before those of its own run."""
    claimable = [
        place
        for place, entry in enumerate(evidence, start=1)
        if entry.leaves_claimable and entry.at <= claim.at
    ]
    place = max(claimable, default=0)
    return _within_limit((*evidence[:place], claim, *evidence[place:]))


def _within_limit(longer: tuple[EvidenceEntry, ...]) -> tuple[EvidenceEntry, ...]:
    if len(longer) <= MAX_EVIDENCE_ENTRIES:
        return longer
    # Keep the first entry, which shows how the job began, and the last, its current state.
    middle = range(1, len(longer) - 1)
    dropped = next((place for place in middle if longer[place].is_operator_note), middle[0])
    return (*longer[:dropped], *longer[dropped + 1 :])
