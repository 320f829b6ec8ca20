"""The clone of Oncely that a command is run in, for what only a clone can do."""

from pathlib import Path

from oncely.cli.exits import CommandError


def find_repository() -> Path:
    """The folder of the clone: the current one, one above it, or the one this code is in."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[3]):
        if all((folder / part).is_dir() for part in ("functions/oncely", "infra/oncely_cdk")):
            return folder
    raise CommandError("This needs a clone of Oncely: run it inside one.")
