"""Bulk runs in memory, as S3 holds them."""

import json
from dataclasses import dataclass, field

from oncely.domain.bulk_runs import BulkRun


@dataclass
class MemoryBulkRuns:
    """The runs by their id, as JSON."""

    saved: dict[str, str] = field(default_factory=dict)

    def save(self, run: BulkRun) -> None:
        self.saved[run.run_id] = json.dumps(run.to_dict())

    def get(self, run_id: str) -> BulkRun | None:
        held = self.saved.get(run_id)
        return None if held is None else BulkRun.from_dict(json.loads(held))
