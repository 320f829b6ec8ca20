"""Makes the rows of a job table safe to run, then declares it the replacement of a lost one.

Safe to interrupt and to run again: every write is conditional, and the identity item comes last.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from oncely.core.job_row import JobRow
from oncely.core.store import Created, ForgedRow, Swapped
from oncely.core.table_guard import TableIdentity
from oncely.history.erasure_log import erase_restored
from oncely.history.lines import HistoryLine
from oncely.history.restore import is_unreadable, restore_row

if TYPE_CHECKING:
    from oncely.app import App


@dataclass(frozen=True)
class RestoreRefused:
    """Nothing was declared. The table stays blocked."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The result, or that of a dry run. `identity` is the item that unblocks the table."""

    identity: TableIdentity
    rows_read: int = 0  # rows of the table
    rows_written: int = 0
    unresolved: int = 0  # of these, unknown or in review


ReportProgress = Callable[[Declaration], None]


@dataclass(frozen=True, kw_only=True)
class ProofRestorer:
    """Unblocks a table that replaces a lost one, and does not match its identity item."""

    app: "App"

    def replace_table(
        self,
        *,
        replays_for: timedelta,
        identity: str | None = None,
        dry_run: bool = False,
        report: ReportProgress = lambda _: None,
    ) -> Declaration | RestoreRefused:
        ports = self.app.ports
        found = ports.table_identity.identity()
        if why := self._declare_refusal(found):
            return RestoreRefused(why)
        if gaps := ports.history.open_gaps():
            return RestoreRefused(
                f"the history has {len(gaps)} open gaps, so proofs may be missing from it. Run "
                "`oncely archive backfill` on the table that is replaced if it is still there; "
                "`oncely archive gaps` shows what they lost"
            )
        newest = dict(ports.history.newest())
        if unreadable := [key for key, line in newest.items() if is_unreadable(line)]:
            return RestoreRefused(
                f"{len(unreadable)} jobs were written by a version that this one cannot read, such "
                f"as {unreadable[0]}: deploy that version, and run this again"
            )
        deployment = _choose_deployment(found, newest.values(), identity)
        if isinstance(deployment, RestoreRefused):
            return deployment
        return self._declare(found, deployment, newest, replays_for, dry_run, report)

    def _declare_refusal(self, found: TableIdentity | None) -> str | None:
        table = self.app.ports.table_identity
        facts = table.with_protection(table.facts())
        if found is not None and found.table_id == facts.table_id:
            return (
                f"the identity item already names {facts.name}, so jobs run on it and there is "
                "nothing to declare"
            )
        if facts.missing:
            return (
                f"{facts.name} has no {', no '.join(facts.missing)}: enable what is "
                "missing first, a restore turns it off"
            )
        return None

    def _declare(  # noqa: PLR0917  # all of them make the declaration
        self,
        found: TableIdentity | None,
        deployment: str,
        newest: dict[str, HistoryLine],
        replays_for: timedelta,
        dry_run: bool,  # noqa: FBT001  # the same
        report: ReportProgress,
    ) -> Declaration | RestoreRefused:
        """Replace each changed row if it is still the one that was read, then the identity item."""
        ports = self.app.ports
        # A restored table accepts the events of emails that were sent before. That of another
        # deployment makes none of its tags.
        is_restored = found is not None and found.deployment == deployment
        tag_key = found.tag_key if found is not None and is_restored else ""
        identity = TableIdentity(
            deployment=deployment,
            table_id=ports.table_identity.facts().table_id,
            tag_key=tag_key or ports.new_identity() + ports.new_identity(),
        )
        declaration = Declaration(identity=identity)
        erased = ports.erasure_log.erased()
        for before, line in self._rows_and_lines(newest):
            now = ports.clock.now()
            restored = restore_row(before, line, deployment=deployment, now=now)
            # A backup may be older than an erasure: the write that restores removes the data.
            row = restored or before
            kept = None if row is None else erase_restored(row, erased, now=now)
            after = restored if kept == row else kept
            declaration = replace(
                declaration,
                rows_read=declaration.rows_read + (before is not None),
                rows_written=declaration.rows_written + (after is not None),
                unresolved=declaration.unresolved + (after is not None and not after.ended),
            )
            if after is not None and not dry_run and not self._write(before, after):
                return RestoreRefused(
                    f"{after.job_key} was changed by another process: stop the workers, then "
                    "run this again"
                )
            report(declaration)
        now = ports.clock.now()
        identity = replace(identity, restored_at=now, replays_until=now + replays_for)
        if not dry_run and not ports.table_identity.write(identity, replacing=found):
            why = "the identity item was changed by another process: run this again"
            return RestoreRefused(why)
        return replace(declaration, identity=identity)

    def _rows_and_lines(
        self, newest: dict[str, HistoryLine]
    ) -> Iterator[tuple[JobRow | None, HistoryLine | None]]:
        """Yield every row of the table with its newest line, then the lines without a row."""
        for page in self.app.ports.row_scan.pages():
            for row in page.jobs:
                yield row, newest.pop(row.job_key, None)
            for key, _ in page.unreadable:
                newest.pop(key, None)  # a newer version's row: no worker can claim it
        for line in newest.values():
            yield None, line

    def _write(self, before: JobRow | None, after: JobRow) -> bool:
        store = self.app.ports.job_store()
        if before is None:
            result = store.create(after)
            if isinstance(result, ForgedRow):
                result = store.create(after, replacing=result)
            return isinstance(result, Created)
        return isinstance(store.swap(before, after), Swapped)


def _choose_deployment(
    found: TableIdentity | None, lines: Iterable[HistoryLine], identity: str | None
) -> str | RestoreRefused:
    """The identity to keep: the item's, or the one in the history if there is no item."""
    known: set[str] = {line.image["deployment"] for line in lines if "deployment" in line.image}
    if found is not None:
        known.add(found.deployment)
    if identity is not None:
        if identity in known:
            return identity
        return RestoreRefused(f"neither the table nor its history names the identity {identity}")
    if found is not None:
        return found.deployment
    if len(known) == 1:
        return known.pop()
    several = f"several: {', '.join(sorted(known))}. Choose one with --identity"
    none = "none. Is this the stack of the lost table?"
    return RestoreRefused(
        f"the table has no identity item, and its history names {several if known else none}"
    )
