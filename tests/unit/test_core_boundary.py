"""Only the core writes a job row, and only the core calls an effect: read from the syntax tree.

That the core imports nothing of Oncely but itself is a rule of import-linter, in pyproject.toml.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from oncely.core.job_row import JobRow
from oncely.core.job_type import JobType
from oncely_cdk.paths import FUNCTIONS

ENGINE: Final = FUNCTIONS / "oncely"
# A job calls its provider's client, and a simulation stands for AWS and for the providers.
OUTSIDE: Final = ("core", "jobs", "providers", "testing")

# The writes of DynamoDB's client. These modules write other items, and none of them a job row.
WRITES: Final = frozenset(
    {"update_item", "put_item", "delete_item", "transact_write_items", "batch_write_item"}
    | {"execute_statement", "execute_transaction", "batch_execute_statement"}
)
WRITES_OTHER_ITEMS: Final = {
    "aws/item_update.py": "an item by its key: gates and counts of alerts",
    "aws/business_tables.py": "business rows",
    "reconcile/sweep_leases.py": "the leases of sweeps",
}
# The fields by which a row would become another one. Names that other classes share are left out.
FIELDS: Final = frozenset(
    {"owner", "fence", "attempts", "lease_until", "due_at", "first_sent_at", "key_number"}
    | {
        "key_answered",
        "ended_version",
        "expires_at",
        "provider_ref",
        "erasure_requested_at",
        "waits_for",
    }
)
MAKES_ROWS: Final = {
    "history/lines.py": "the row of an archived line",
    "history/restore.py": "the same, as a replacement table gets it",
    "history/erasure_log.py": "an archived row whose data was erased since",
}
# The steps that reach a provider. `lookup` and others also name methods of other classes.
STEPS: Final = frozenset(
    {"prepare", "find_prepared", "execute", "lookup", "confirm", "close", "lookup_closed"}
)
UNSHARED_STEPS: Final = frozenset({"prepare", "find_prepared", "lookup_closed"})


def writes_items(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in WRITES


def makes_row(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    replaces = node.func.id == "replace" and any(one.arg in FIELDS for one in node.keywords)
    return replaces or node.func.id == JobRow.__name__


def calls_effect(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr not in STEPS:
        return False
    return node.attr in UNSHARED_STEPS or "contract" in ast.unparse(node.value)


def places(found: Callable[[ast.AST], bool]) -> Iterator[str]:
    """The files outside the core with such a node."""
    for path in sorted(ENGINE.rglob("*.py")):
        name = path.relative_to(ENGINE).as_posix()
        if name.split("/")[0] not in OUTSIDE:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield from (name for node in ast.walk(tree) if found(node))


@pytest.mark.parametrize(
    ("found", "allowed"),
    [(writes_items, WRITES_OTHER_ITEMS), (makes_row, MAKES_ROWS), (calls_effect, {})],
    ids=["writes a row", "makes a row", "calls an effect"],
)
def test_only_core(found: Callable[[ast.AST], bool], allowed: dict[str, str]) -> None:
    assert set(places(found)) == set(allowed)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (writes_items, "client.put_item(TableName=table, Item=item)"),
        (makes_row, "replace(row, lease_until=None)"),
        (makes_row, "JobRow(job_key=key)"),
        (calls_effect, "self.contract.execute(call)"),
        (calls_effect, "run(contract.lookup)"),
        (calls_effect, "one.prepare(call)"),
    ],
)
def test_breach_is_found(found: Callable[[ast.AST], bool], code: str) -> None:
    assert any(map(found, ast.walk(ast.parse(code))))


def test_fields_and_steps_are_those_of_the_core() -> None:
    assert JobRow.__dataclass_fields__.keys() >= FIELDS
    assert set(vars(JobType)) >= STEPS
