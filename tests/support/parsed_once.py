"""Parses botocore's description of each AWS service once per process; import it for that effect."""

from functools import cache
from typing import Any

from botocore.loaders import JSONFileLoader

_parse_once = cache(JSONFileLoader().load_file)


def _load_file(self: JSONFileLoader, file_path: str) -> Any:  # noqa: ANN401  # whatever the file has
    return _parse_once(file_path)


JSONFileLoader.load_file = _load_file  # type: ignore[method-assign]  # for all sessions
