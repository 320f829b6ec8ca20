"""The project that a command runs in: `[tool.oncely]` in its pyproject.toml lists its job types."""

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from oncely.cli.errors import CommandError

if TYPE_CHECKING:
    from oncely.contracts.job import AnyJob

FILE: Final = "pyproject.toml"
_EXAMPLE: Final = '`jobs = ["shop.jobs:JOBS"]` under `[tool.oncely]`'
_SOURCE_ROOTS: Final = ("", "src", "functions")
# The folder of the clone, if this package is installed from one.
_CLONE: Final = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class JobList:
    """The module of a project that lists its jobs, and the name of the list in it."""

    file: Path
    module: str
    name: str

    @property
    def package(self) -> str:
        return self.module.rpartition(".")[0]


@dataclass(frozen=True)
class Project:
    """A folder whose pyproject.toml has `[tool.oncely]`."""

    folder: Path
    settings: Mapping[str, Any]

    @property
    def job_names(self) -> list[str]:
        names = self.settings.get("jobs")
        if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
            raise CommandError(f"{FILE} does not list job types. Write {_EXAMPLE}.")
        return names

    def jobs(self) -> "tuple[type[AnyJob], ...]":
        from oncely.contracts.job_names import import_jobs

        self.put_on_path()
        return import_jobs(self.job_names, source=f"[tool.oncely] of {FILE}")

    def job_list(self) -> JobList:
        """Find the list that a new job is added to: the first of the names."""
        module, _, name = self.job_names[0].partition(":")
        path = f"{module.replace('.', '/')}.py"
        files = (self.folder / root / path for root in _SOURCE_ROOTS)
        file = next((one for one in files if one.is_file()), None)
        if file is None or not name or "." not in module:
            raise CommandError(
                f"{FILE} lists {self.job_names[0]!r}, which is not a list in a package of this "
                f"project. Write {_EXAMPLE}, or add the job by hand."
            )
        return JobList(file, module, name)

    def put_on_path(self) -> None:
        """Make its modules importable, as `python -m` does: a project need not be installed."""
        if str(self.folder) not in sys.path:
            sys.path.insert(0, str(self.folder))

    def text(self, key: str) -> str | None:
        """Return an optional setting."""
        value = self.settings.get(key)
        if value is not None and not (isinstance(value, str) and value):
            raise CommandError(
                f"{FILE} has {key} = {value!r} under [tool.oncely]. It must be a string."
            )
        return value


def project_jobs() -> "tuple[type[AnyJob], ...]":
    """Import the job types in ONCELY_JOBS, or else those of the nearest project."""
    from oncely.contracts.job_names import JOBS_ENV_VAR, jobs_from_env

    if os.environ.get(JOBS_ENV_VAR):
        return jobs_from_env(os.environ)
    return find_project().jobs()


def find_project() -> Project:
    """Return the project of this folder or of the nearest parent, or else the clone."""
    if (found := project_or_none()) is None:
        raise CommandError(
            f"No job types are configured. Run this command in a project whose {FILE} has "
            f"{_EXAMPLE}, or set ONCELY_JOBS. `oncely init` starts a project."
        )
    return found


def project_or_none() -> Project | None:
    """Return the project, or None outside of one."""
    for folder in _folders():
        if (settings := read_settings(folder)) is not None:
            return Project(folder, settings)
    return None


def _folders() -> Iterator[Path]:
    here = Path.cwd()
    yield from (here, *here.parents)
    yield _CLONE


def read_settings(folder: Path) -> dict[str, Any] | None:
    """Read `[tool.oncely]`. Returns None if the folder has none."""
    file = folder / FILE
    try:
        text = file.read_text(encoding="utf-8")
        settings: dict[str, Any] | None = tomllib.loads(text).get("tool", {}).get("oncely")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CommandError(f"Cannot read {file}: {error}.") from error
    return settings
