"""Guards of the history: nothing is dropped, nothing says too much, no gap is closed too early."""

from typing import Final

from tests.mutants.mutation import Mutation

LINES: Final = "functions/oncely/domain/history.py"
GAPS: Final = "functions/oncely/domain/gaps.py"
STREAM: Final = "functions/oncely/aws/stream_records.py"
FAILURES: Final = "functions/oncely/aws/stream_gaps.py"
BACKFILL: Final = "functions/oncely/publish/archive_history.py"
MAPPING: Final = "infra/oncely_cdk/stream_consumers.py"

_LINES: Final = ("tests/unit/test_history.py",)
_WRITER: Final = ("tests/unit/test_archive_history.py",)
_BACKFILL: Final = ("tests/unit/test_backfill.py",)

HISTORY: Final = (
    Mutation(
        "a saved reference is not in the history",
        LINES,
        "or reference_changed\n",
        "\n",
        _LINES,
    ),
    Mutation(
        "a restore owes again what was published long ago",
        LINES,
        "expiry_changed = old is not None and old.expires_at != new.expires_at",
        "expiry_changed = False",
        ("tests/unit/test_restore_proofs.py",),
    ),
    Mutation(
        "free text of a message is in the history",
        LINES,
        "return code_or_none(value) is not None",
        "return True",
        _LINES,
    ),
    Mutation(
        "a message that was cut looks whole",
        LINES,
        "return kept, len(kept) == len(held)",
        "return kept, bool(held)",
        _LINES,
    ),
    Mutation(
        "a removed row is taken for a repetition of its last change",
        LINES,
        "version=old.version + 1,",
        "version=old.version,",
        _LINES,
    ),
    Mutation(
        "lines of a row that followed an expired one are taken for repetitions",
        LINES,
        "return (self.generation, self.job_key, self.created_at, self.version)",
        "return (self.generation, self.job_key, None, self.version)",
        _LINES,
    ),
    Mutation(
        "a row that cannot be read leaves no line",
        STREAM,
        "return RowChange(job_key=key, at=at, unreadable=True,",
        "return RowChange(job_key=key, at=at,",
        _WRITER,
    ),
    Mutation(
        "two batches have the same name",
        STREAM,
        'return f"{generation[:8]}-{first}-{last}"',
        'return f"{generation[:8]}-{first[:0]}{last[:0]}"',
        _WRITER,
    ),
    Mutation(
        "a failure message that cannot be read is no gap",
        FAILURES,
        "except (AttributeError, LookupError, TypeError, ValueError):",
        "except ZeroDivisionError:",
        _WRITER,
    ),
    Mutation(
        "a gap is closed by a scan that began before it",
        GAPS,
        "if self.recorded_at > scanned_since:",
        "if self.recorded_at is scanned_since is None:",
        (*_WRITER, *_BACKFILL),
    ),
    Mutation(
        "a gap is closed by a scan that left its rows out",
        GAPS,
        "return rows_from <= self.first_at - _MAX_WRITE_DELAY",
        "return bool(rows_from)",
        (*_WRITER, *_BACKFILL),
    ),
    Mutation(
        "an interrupted scan counts from its second start",
        BACKFILL,
        "            progress = earlier\n",
        "            progress = replace(earlier, started_at=progress.started_at)\n",
        _BACKFILL,
    ),
    Mutation(
        "a scan goes on behind the end of another one",
        GAPS,
        "return not self.done and (self.generation, self.rows_from) ==",
        "return (self.generation, self.rows_from) ==",
        _BACKFILL,
    ),
    Mutation(
        "the stream forgets changes before Lambda reports the gap",
        MAPPING,
        "HISTORY_MAX_RECORD_AGE: Final = timedelta(hours=22)",
        "HISTORY_MAX_RECORD_AGE: Final = timedelta(hours=25)",
        ("tests/infra/test_safe_defaults.py", "-k", "history"),
    ),
)
