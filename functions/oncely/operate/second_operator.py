"""Whether an operator's act needs a second operator: by its effect, whatever the route to it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from oncely.contracts.contract import AnyContract
from oncely.core.job_row import JobRow
from oncely.core.job_type import AlreadyResolved, PrecheckResult, Proceed
from oncely.core.money import Money
from oncely.core.repairs import Repair
from oncely.operate.second_operator_rules import SecondOperatorRule


def needs_second_operator(
    rule: SecondOperatorRule,
    repair: Repair,
    *,
    contract_type: type[AnyContract] | None,
    row: JobRow | None = None,
    prechecks: Callable[[], Iterable[PrecheckResult[Any]]] = tuple,
) -> bool:
    """Return whether another operator must confirm this repair. Sending a job counts as reopening.

    `contract_type` is None if it is not known what the job does. `prechecks` say what it would do
    now. The business rows are read only if the rule is on.
    """
    if not rule.above:
        return False
    moves_money = contract_type is None or contract_type.takes_money or contract_type.returns_money
    if row is None and not moves_money:
        return False
    # The amount of the row may be forged, or there is none.
    amounts = (*_claimed_amounts(row), *_amounts_now(prechecks()))
    return rule.applies_to(repair, amounts, moves_money=moves_money)


def _claimed_amounts(row: JobRow | None) -> Iterator[Money]:
    if row is not None and row.amount is not None and row.currency:
        yield Money(row.amount, row.currency)


def _amounts_now(prechecks: Iterable[PrecheckResult[Any]]) -> Iterator[Money]:
    for found in prechecks:
        if isinstance(found, Proceed | AlreadyResolved) and found.money is not None:
            yield found.money
