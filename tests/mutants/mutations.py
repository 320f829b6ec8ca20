"""All named ways to break a guard, by what the guard is for."""

from typing import Final

from tests.mutants.boundaries import BOUNDARIES
from tests.mutants.crm import CRM
from tests.mutants.endings import ENDINGS
from tests.mutants.fence import FENCE
from tests.mutants.history import HISTORY
from tests.mutants.knowledge import KNOWLEDGE
from tests.mutants.mutation import Mutation
from tests.mutants.ownership import OWNERSHIP
from tests.mutants.people import PEOPLE
from tests.mutants.sweeps import SWEEPS

MUTATIONS: Final[tuple[Mutation, ...]] = (
    *OWNERSHIP,
    *KNOWLEDGE,
    *ENDINGS,
    *PEOPLE,
    *BOUNDARIES,
    *CRM,
    *FENCE,
    *SWEEPS,
    *HISTORY,
)
