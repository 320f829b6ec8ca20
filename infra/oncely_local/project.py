"""The project whose stack runs on this machine: its jobs, its stage `local` and its fixtures."""

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

from oncely.cli.errors import CommandError
from oncely.cli.project import find_project
from oncely.contracts.job import AnyJob, providers_of
from oncely.contracts.settings import pascal_case
from oncely.plugins.provider import AnyProvider
from oncely.testing.local import LocalFixtures
from oncely.testing.sandbox import sandbox_type
from oncely_cdk import OncelySettings, read_stage_file

STAGE: Final = "local"


@dataclass(frozen=True)
class LocalProject:
    """A team's project, or this repository."""

    folder: Path
    jobs: tuple[type[AnyJob], ...]
    fixtures: LocalFixtures

    @property
    def is_clone(self) -> bool:
        """Whether it is this repository, with its own workload and sample data."""
        return (self.folder / "infra" / "oncely_local").is_dir()

    @property
    def build_folder(self) -> Path:
        return self.folder / ".build" / "local"

    @property
    def state_file(self) -> Path:
        return self.folder / ".build" / "local.json"

    @property
    def kept_folder(self) -> Path:
        """What `make local` keeps between two starts."""
        return self.build_folder / "kept"

    @property
    def engine_environment(self) -> Path:
        return self.folder / (".venv-engine" if self.is_clone else ".build/engine")

    @property
    def stage_file(self) -> Path:
        return self.folder / "stages" / f"{STAGE}.toml"

    @cached_property
    def settings(self) -> OncelySettings:
        return read_stage_file(self.stage_file)

    @property
    def providers(self) -> tuple[AnyProvider, ...]:
        return providers_of(self.jobs)

    @property
    def secrets(self) -> dict[str, str]:
        """The values of the secrets, by short name: what the sandboxes accept, and its own."""
        keys: dict[str | None, str] = {}
        for one in self.providers:
            kind = sandbox_type(one, self.jobs)
            keys |= {one.secret_name: kind.api_key, one.webhook_secret_name: kind.signing_secret}
        return {
            **{name: key for name, key in keys.items() if name and key},
            **self.fixtures.secrets,
        }

    @property
    def queue_outputs(self) -> dict[str, str]:
        """The outputs with the URLs of the jobs' queues, by short name."""
        return {one.queue: queue_output(one) for one in self.jobs}


def queue_output(contract: type[AnyJob]) -> str:
    """The output with the URL of a job's queue."""
    return f"{pascal_case(contract.queue)}QueueUrl"


@cache
def local_project() -> LocalProject:
    """Load the project of the working folder. A process serves one."""
    found = find_project()
    jobs = found.jobs()
    fixtures: object = LocalFixtures()
    if name := found.text("local"):
        try:
            fixtures = resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise CommandError(
                f"[tool.oncely] of pyproject.toml has local = {name!r}, which cannot be imported "
                f"({error})."
            ) from error
    if not isinstance(fixtures, LocalFixtures):
        raise CommandError(f"{name} is not an instance of oncely.testing.local.LocalFixtures.")
    return LocalProject(found.folder, jobs, fixtures)
