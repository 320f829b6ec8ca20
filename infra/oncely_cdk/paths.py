"""The folders of the sources that the constructs deploy."""

from pathlib import Path
from typing import Final

import oncely

PACKAGE: Final = Path(oncely.__file__).resolve().parent
FUNCTIONS: Final = PACKAGE.parent
REPOSITORY: Final = FUNCTIONS.parent
