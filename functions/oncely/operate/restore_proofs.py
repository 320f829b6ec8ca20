"""Makes the rows of a job table safe to run, then declares it a replacement or a copy.

Safe to interrupt and to run again: every write is conditional, and the identity item comes last.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from oncely.core.deployment_identity import DynamoTableIdentity
from oncely.core.errors import UnreadableRowError
from oncely.core.job_row import JobRow
from oncely.core.results import Created, ForgedRow, Swapped
from oncely.core.schedule import Clock
from oncely.core.store import JobStore
from oncely.core.table_identity import TableIdentity
from oncely.history.archive import ErasureLog, HistoryReader
from oncely.history.erasure_log import ErasedJobs, erase_restored
from oncely.history.lines import HistoryLine
from oncely.history.restore import is_unreadable, park_copied_row, restore_row
from oncely.history.row_scan import RowScan


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
    unresolved: int = 0  # of these, unknown or parked for an operator


ReportProgress = Callable[[Declaration], None]


@dataclass(frozen=True, kw_only=True)
class ProofRestorer:
    """The two ways to unblock a table that does not match its identity item."""

    table: DynamoTableIdentity
    store: JobStore
    scan: RowScan
    history: HistoryReader
    erasure_log: ErasureLog
    clock: Clock
    new_identity: Callable[[], str]

    def replace_table(
        self,
        *,
        replays_for: timedelta,
        identity: str | None = None,
        dry_run: bool = False,
        report: ReportProgress = lambda _: None,
    ) -> Declaration | RestoreRefused:
        found = self.table.identity()
        if why := self._declare_refusal(found):
            return RestoreRefused(why)
        if gaps := self.history.open_gaps():
            return RestoreRefused(
                f"the history has {len(gaps)} open gaps, so proofs may be missing from it. Run "
                "`oncely archive backfill` on the table that is replaced if it is still there; "
                "`oncely archive gaps` shows what they lost"
            )
        newest = dict(self.history.newest())
        if unreadable := [key for key, line in newest.items() if is_unreadable(line)]:
            return RestoreRefused(
                f"{len(unreadable)} jobs were written by a version that this one cannot read, such "
                f"as {unreadable[0]}: deploy that version, and run this again"
            )
        deployment = _choose_deployment(found, newest.values(), identity)
        if isinstance(deployment, RestoreRefused):
            return deployment
        return self._declare(
            found, deployment, self._restored_rows(newest, deployment), replays_for, dry_run, report
        )

    def declare_copy(
        self, *, dry_run: bool = False, report: ReportProgress = lambda _: None
    ) -> Declaration | RestoreRefused:
        found = self.table.identity()
        if why := self._declare_refusal(found):
            return RestoreRefused(why)
        try:
            rows = self._parked_rows()
            return self._declare(found, self.new_identity(), rows, None, dry_run, report)
        except UnreadableRowError as error:
            return RestoreRefused(str(error))

    def _declare_refusal(self, found: TableIdentity | None) -> str | None:
        facts = self.table.with_protection(self.table.facts())
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
        changes: "Iterator[tuple[JobRow | None, JobRow | None]]",
        replays_for: timedelta | None,
        dry_run: bool,  # noqa: FBT001  # the same
        report: ReportProgress,
    ) -> Declaration | RestoreRefused:
        """Replace each changed row if it is still the one that was read, then the identity item."""
        # A restored table accepts the events of emails that were sent before. A copy makes no tags
        # of the deployment that it was copied from.
        is_restored = found is not None and found.deployment == deployment
        tag_key = found.tag_key if found is not None and is_restored else ""
        identity = TableIdentity(
            deployment=deployment,
            table_id=self.table.facts().table_id,
            tag_key=tag_key or self.new_identity() + self.new_identity(),
        )
        declaration = Declaration(identity=identity)
        for before, after in self._erase_again(changes, self.erasure_log.erased()):
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
        if replays_for is not None:
            now = self.clock.now()
            identity = replace(identity, restored_at=now, replays_until=now + replays_for)
        if not dry_run and not self.table.write(identity, replacing=found):
            why = "the identity item was changed by another process: run this again"
            return RestoreRefused(why)
        return replace(declaration, identity=identity)

    def _restored_rows(
        self, newest: dict[str, HistoryLine], deployment: str
    ) -> Iterator[tuple[JobRow | None, JobRow | None]]:
        for page in self.scan.pages():
            for row in page.jobs:
                line = newest.pop(row.job_key, None)
                yield row, restore_row(row, line, deployment=deployment, now=self.clock.now())
            for key, _ in page.unreadable:
                newest.pop(key, None)  # a newer version's row: no worker can claim it
        for line in newest.values():
            yield None, restore_row(None, line, deployment=deployment, now=self.clock.now())

    def _parked_rows(self) -> Iterator[tuple[JobRow | None, JobRow | None]]:
        for page in self.scan.pages():
            for row in page.jobs:
                yield row, park_copied_row(row, now=self.clock.now())
            for key, _ in page.unreadable:
                # An open job that was never claimed would run in the copy, too.
                raise UnreadableRowError(
                    f"the row of {key} cannot be read by this version, so it is not parked: deploy "
                    "the version that wrote it, and run this again"
                )

    def _erase_again(
        self, changes: Iterator[tuple[JobRow | None, JobRow | None]], erased: ErasedJobs
    ) -> Iterator[tuple[JobRow | None, JobRow | None]]:
        """A backup may be older than an erasure: remove the data with the write that restores."""
        for before, after in changes:
            row = after or before
            kept = None if row is None else erase_restored(row, erased, now=self.clock.now())
            yield before, after if kept == row else kept

    def _write(self, before: JobRow | None, after: JobRow) -> bool:
        if before is None:
            result = self.store.create(after)
            if isinstance(result, ForgedRow):
                result = self.store.create(after, replacing=result)
            return isinstance(result, Created)
        return isinstance(self.store.swap(before, after), Swapped)


def _choose_deployment(
    found: TableIdentity | None, lines: Iterable[HistoryLine], identity: str | None
) -> str | RestoreRefused:
    """The identity to keep: the item's, or the one in the history if there is no item."""
    known = {line.deployment for line in lines if line.deployment is not None}
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
