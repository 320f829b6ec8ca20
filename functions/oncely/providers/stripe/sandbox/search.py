"""Reads Stripe's search language as far as a charge job needs it: `field:'value' AND …`."""

import re
from collections.abc import Callable
from typing import Final

from oncely.providers.stripe.sandbox.errors import StripeValidationError
from oncely.testing.sandbox.ledger import PaymentIntent

CLAUSE: Final = re.compile(
    r"""(?:metadata\[(?P<mark>["'])(?P<key>.+?)(?P=mark)\]|(?P<field>status|customer|currency))
        :(?P<quote>["'])(?P<value>(?:\\.|(?!(?P=quote)).)*)(?P=quote)""",
    re.VERBOSE,
)
AND: Final = re.compile(r"\s+AND\s+")


def parse_filter(query: str) -> Callable[[PaymentIntent], bool]:
    """Give the test that a query stands for."""
    wanted: list[tuple[str | None, str | None, str]] = []
    position = 0
    while True:
        clause = CLAUSE.match(query, position)
        if clause is None:
            message = f"We were unable to parse your search query: {query}"
            raise StripeValidationError(message, param="query")
        value = re.sub(r"\\(.)", r"\1", clause["value"])
        wanted.append((clause["key"], clause["field"], value))
        position = clause.end()
        if position == len(query.rstrip()):
            break
        joint = AND.match(query, position)
        position = joint.end() if joint else len(query)

    def matches(intent: PaymentIntent) -> bool:
        return all(
            intent.metadata.get(key) == value if key else getattr(intent, str(field)) == value
            for key, field, value in wanted
        )

    return matches
