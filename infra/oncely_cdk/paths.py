"""The folders of the sources that the constructs deploy."""

from pathlib import Path
from typing import Final

import oncely

PACKAGE: Final = Path(oncely.__file__).resolve().parent
FUNCTIONS: Final = PACKAGE.parent
# The clone, or the folder of the CDK app if the package was installed from its wheel.
REPOSITORY: Final = FUNCTIONS.parent if FUNCTIONS.name == "functions" else Path.cwd()
