"""The fixtures of a project for its local stack, if it needs any.

`local` under `[tool.oncely]` points to them.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar


class LocalFixtures:
    """Sample rows, secrets and messages. A project overrides what its jobs need."""

    # Rows by the short name of their table. Values are texts or integers.
    rows: ClassVar[Mapping[str, Iterable[Mapping[str, str | int]]]] = {}
    # Values of secrets by short name, beyond the API keys of the providers.
    secrets: ClassVar[Mapping[str, str]] = {}

    def messages(self, number: int) -> Iterable[Mapping[str, object]]:
        """Return the first messages of `number` jobs, each with its own key, for `oncely demo`.

        Without any, it sends the examples of the jobs that need no business rows, with other ids.
        """
        del number
        return ()
