"""History lines as a test edits them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oncely.history.lines import IMAGE, HistoryLine


def edited(line: HistoryLine, **changes: Any) -> HistoryLine:  # noqa: ANN401  # fields of a line
    """A line with other fields, of its own or of its row's image. None removes one."""
    image: Mapping[str, Any] = {**line.image, **{n: v for n, v in changes.items() if n in IMAGE}}
    return replace(
        line,
        image={name: value for name, value in image.items() if value is not None},
        **{name: value for name, value in changes.items() if name not in IMAGE},
    )
