"""All named ways to break a guard, by what the guard is for."""

from typing import Final

from tests.mutants.boundaries import BOUNDARIES
from tests.mutants.crm import CRM
from tests.mutants.effect_outcomes import EFFECT_OUTCOME_MUTATIONS
from tests.mutants.ended_jobs import ENDED_JOB_MUTATIONS
from tests.mutants.fence import FENCE
from tests.mutants.history import HISTORY
from tests.mutants.mutation import Mutation
from tests.mutants.operators import OPERATOR_MUTATIONS
from tests.mutants.ownership import OWNERSHIP
from tests.mutants.sweeps import SWEEPS

MUTATIONS: Final[tuple[Mutation, ...]] = (
    *OWNERSHIP,
    *EFFECT_OUTCOME_MUTATIONS,
    *ENDED_JOB_MUTATIONS,
    *OPERATOR_MUTATIONS,
    *BOUNDARIES,
    *CRM,
    *FENCE,
    *SWEEPS,
    *HISTORY,
)
