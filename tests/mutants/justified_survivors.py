"""Random mutants that may survive, each with the reason why no test needs to notice."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class JustifiedSurvivor:
    """A line of the product, as it is and as the mutant has it, both without indentation."""

    file: str
    line: str
    mutated: str
    reason: str


_FIND_DUE: Final = "functions/oncely/reconcile/find_due_work.py"
_INSPECT: Final = "functions/oncely/operate/job_queries.py"
_ENQUEUE: Final = "functions/oncely/enqueue/enqueuer.py"
_PUBLISH: Final = "functions/oncely/publish/publisher.py"
_REGISTRY: Final = "functions/oncely/registry.py"
_RESOLVE_GROUP: Final = "functions/oncely/reconcile/resolve_group.py"
_ERRORS: Final = (
    "for fault in error.errors(include_url=False, include_input=False, include_context=False)"
)
_REPAIR_REQUEST: Final = "functions/oncely/admin_page/repair_body.py"
_FAULTS: Final = "for fault in error.errors(include_url=False, include_input=False)"
_MOVES: Final = "functions/oncely/domain/decisions.py"
_REPAIR: Final = "functions/oncely/operate/repairer.py"
_TUNED: Final = "A tuned bound on the reads of one sweep: one more row changes no outcome."
_SIZE: Final = "A tuned size: one byte more or less leaves room within 256 kB."
_LISTED: Final = "A tuned bound on the reads of one list: tests show that it bounds, not where."
_THREADS: Final = "A tuned number of threads: one more changes the speed and no outcome."

JUSTIFIED_SURVIVORS: Final = (
    JustifiedSurvivor(_FIND_DUE, "MAX_LOOKUPS: Final = 200", "MAX_LOOKUPS: Final = 201", _TUNED),
    JustifiedSurvivor(
        _FIND_DUE,
        "if len(requested) <= MAX_LOOKUPS:",
        "if len(requested) < MAX_LOOKUPS:",
        "With exactly MAX_LOOKUPS items both ways return all of them; only their order differs.",
    ),
    JustifiedSurvivor(_FIND_DUE, "size = 0", "size = 1", _SIZE),
    JustifiedSurvivor(_FIND_DUE, "if size > MAX_PAGE_BYTES:", "if size >= MAX_PAGE_BYTES:", _SIZE),
    JustifiedSurvivor(
        _MOVES,
        "doubled: timedelta = first * 2 ** min(max(times - 1, 0), 20)",
        "doubled: timedelta = first * 2 ** min(max(times - 1, 0), 21)",
        "Both powers are past the longest delay of every caller, and far from an overflow.",
    ),
    JustifiedSurvivor(
        _REPAIR,
        "if another is None:",
        "if False:",
        "The offer was refused before if there is no other attempt; mypy needs the branch.",
    ),
    *(
        JustifiedSurvivor(
            _REGISTRY,
            _ERRORS,
            _ERRORS.replace(f"{flag}=False", f"{flag}=True"),
            "It only spares pydantic work: of a fault, only loc, type and msg are read.",
        )
        for flag in ("include_url", "include_input", "include_context")
    ),
    *(
        JustifiedSurvivor(
            _REPAIR_REQUEST,
            _FAULTS,
            _FAULTS.replace(f"{flag}=False", f"{flag}=True"),
            "It only spares pydantic work: of a fault, only loc and msg are read.",
        )
        for flag in ("include_url", "include_input")
    ),
    JustifiedSurvivor(
        _FIND_DUE, "MAX_PAGE_BYTES: Final = 110_000", "MAX_PAGE_BYTES: Final = 110001", _SIZE
    ),
    JustifiedSurvivor(
        _RESOLVE_GROUP,
        "if threads <= 1:",
        "if threads < 1:",
        "A pool of one thread gives the same outcomes; the list only spares making it.",
    ),
    JustifiedSurvivor(
        _INSPECT, "MAX_SEARCH_RESULTS: Final = 50", "MAX_SEARCH_RESULTS: Final = 51", _LISTED
    ),
    JustifiedSurvivor(
        _INSPECT, "MAX_ROWS_READ: Final = 1000", "MAX_ROWS_READ: Final = 1001", _LISTED
    ),
    JustifiedSurvivor(_INSPECT, "MAX_COUNT: Final = 1_000", "MAX_COUNT: Final = 1001", _LISTED),
    JustifiedSurvivor(
        _INSPECT,
        "MAX_ENTRIES_SCANNED: Final = 20_000",
        "MAX_ENTRIES_SCANNED: Final = 20001",
        _LISTED,
    ),
    JustifiedSurvivor(
        _ENQUEUE, "_WRITE_CONCURRENCY: Final = 8", "_WRITE_CONCURRENCY: Final = 9", _THREADS
    ),
    JustifiedSurvivor(
        _PUBLISH, "MAX_CONCURRENCY: Final = 10", "MAX_CONCURRENCY: Final = 11", _THREADS
    ),
)
