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
# What runs a simulation stands for AWS and for the providers.
OUTSIDE: Final = ("core", "testing")

# The writes of DynamoDB's clients. These modules write other items, and none of them a job row.
WRITES: Final = frozenset(
    {"update_item", "put_item", "delete_item", "transact_write_items", "batch_write_item"}
    | {"execute_statement", "execute_transaction", "batch_execute_statement", "batch_writer"}
)
WRITES_OTHER_ITEMS: Final = {
    "aws/item_update.py": "an item by its key: gates, counts of alerts, leases of sweeps",
    "alerts/budgeted_notifier.py": "the counts of alerts",
    "gates/table.py": "gates",
    "reconcile/sweeps.py": "the leases of sweeps",
    "aws/business_tables.py": "business rows",
}
ROW_FIELDS: Final = frozenset(JobRow.__dataclass_fields__)
# A new object of another class that has a field of the same name, by file and what it is made of.
OTHER_CLASSES: Final = {
    "history/lines.py: _line(new, generation)": "a line",
    "history/lines.py: _line(old, generation)": "a line",
    "history/lines.py: line": "a line",
    "jobs/payment_charge.py: call.facts.payment": "a payment",
    "jobs/payment_refund.py: call.facts.refund": "a refund",
    "jobs/receipt_send.py: proved": "an outcome",
    "jobs/sync_contact.py: outcome": "an outcome",
    "operate/bulk_repairer.py: request": "a request",
    "operate/bulk_repairer.py: wanted": "a filter",
    "operate/operator_sender.py: result": "what was sent",
    "providers/hubspot/crm.py: parse_record(body)": "a contact",
}
MAKES_ROWS: Final = {
    "history/lines.py": "the row of an archived line",
    "history/restore.py": "the same, as a replacement table gets it",
    "operate/repairer.py": "a row to look up or to check: it is not written",
}
# The steps of a job that reach a provider, and what else has methods of these names.
STEPS: Final = frozenset(
    {"prepare", "find_prepared", "execute", "lookup", "confirm", "close", "lookup_closed"}
)
NOT_A_JOB: Final = frozenset(
    {"console", "typer", "book", "conn", "super()", "self._file"}
    | {"asked", "outcome.details", "self"}  # their field `lookup` is an answer
    # The client of a provider: a job calls it, and only the core calls the job.
    | {"self._client", "self.client.v1.payment_intents"}
)


def writes_items(node: ast.AST) -> bool:
    names = (getattr(node, "attr", None), getattr(node, "id", None), getattr(node, "value", None))
    return any(isinstance(name, str) and name in WRITES for name in names)


def _called(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", None) or getattr(function, "id", None) or ""


def makes_row(node: ast.AST) -> bool:
    """A row, a copy with other fields, or a decision that would change some."""
    if not isinstance(node, ast.Call):
        return False
    names = {one.arg for one in node.keywords}
    match _called(node):
        case "JobRow" | "Decision":
            return True
        case "replace":
            return bool(names & (ROW_FIELDS | {"changes", None}))
        case "apply":
            return "actor" in names
        case _:
            return False


def calls_effect(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr not in STEPS:
        return False
    return ast.unparse(node.value) not in NOT_A_JOB


def places(found: Callable[[ast.AST], bool]) -> Iterator[str]:
    """The files outside the core with such a node."""
    for path in sorted(ENGINE.rglob("*.py")):
        name = path.relative_to(ENGINE).as_posix()
        if name.split("/")[0] in OUTSIDE or "sandbox" in name:
            continue
        for node in filter(found, ast.walk(ast.parse(path.read_text(encoding="utf-8")))):
            copied = isinstance(node, ast.Call) and bool(node.args) and ast.unparse(node.args[0])
            if f"{name}: {copied}" not in OTHER_CLASSES:
                yield name


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
        (writes_items, "update_item(client, table, key)"),
        (writes_items, "table.batch_writer()"),
        (writes_items, "getattr(client, 'put_item')"),
        (makes_row, "replace(row, lease_until=None)"),
        (makes_row, "dataclasses.replace(row, status=Status.FINISHED, version=2)"),
        (makes_row, "replace(row, **fields)"),
        (makes_row, "replace(decision, changes=changes)"),
        (makes_row, "store.swap(row, row.apply(Event.NOTE, now=now, actor=actor, reason=why))"),
        (makes_row, "Decision(event=Event.CONFIRM, reason=why).apply_to(row)"),
        (makes_row, "JobRow(job_key=key)"),
        (calls_effect, "self.contract.execute(call)"),
        (calls_effect, "run(contract.lookup)"),
        (calls_effect, "self.job.lookup(call)"),
        (calls_effect, "job_type.execute(call)"),
        (calls_effect, "one.prepare(call)"),
    ],
)
def test_breach_is_found(found: Callable[[ast.AST], bool], code: str) -> None:
    assert any(map(found, ast.walk(ast.parse(code))))


def test_steps_are_those_of_a_job() -> None:
    assert set(vars(JobType)) >= STEPS
