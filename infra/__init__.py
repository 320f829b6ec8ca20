"""The stack: what Oncely deploys, and the same stack on one machine."""

import sys
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
FUNCTIONS: Final = REPOSITORY / "functions"
# The package that every function ships, beside its own folder.
SHARED: Final = "oncely"

# `functions` is a source root, not a package: whoever imports the stack needs the registry in it,
# `cdk synth` as well as a plain `python -m infra.app`.
if str(FUNCTIONS) not in sys.path:
    sys.path.insert(0, str(FUNCTIONS))
