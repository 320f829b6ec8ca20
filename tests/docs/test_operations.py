"""docs/operations.md quotes log lines as the code writes them."""

import re

from tests.docs.change_cost import product_strings
from tests.docs.pages import page

_QUOTE = re.compile(r"`([a-z]+(?: [a-z]+)+)`")
_COMMANDS = ("aws ", "make ", "oncely ")


def test_quoted_log_lines_are_in_code() -> None:
    quoted = {
        one
        for one in _QUOTE.findall(page("docs/operations.md").prose)
        if not one.startswith(_COMMANDS)
    }

    assert len(quoted) > 3
    assert quoted <= product_strings()
