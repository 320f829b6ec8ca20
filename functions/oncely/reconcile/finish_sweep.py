"""Ends a sweep: gives its shards free, and goes on where it stopped if more is due."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from oncely.ports import SweepLeases, Sweeps
from oncely.reconcile.sweep_report import build_report, made_progress


@dataclass(frozen=True, kw_only=True)
class SweepFinisher:
    """What remains to be done when the groups of a page are through."""

    leases: SweepLeases
    sweeps: Sweeps

    def finish(
        self, sweep: Mapping[str, Any], results: Iterable[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Report, and start the next page, which takes the leases anew.

        The next page begins later than this one, so rows that fail each time end no sweep. If it
        cannot begin later, because many rows fell due at once, something must have moved.
        """
        done = build_report(results)
        for shard in sweep["shards"]:
            self.leases.release(shard, holder=sweep["execution"])
        next_sweep = sweep["next"]
        if next_sweep is not None and (
            next_sweep["from"] != sweep["from"] or made_progress(done["counts"])
        ):
            self.sweeps.start(next_sweep)
        return {**done, "busy_shards": sweep["busy"]} if sweep["busy"] else done
