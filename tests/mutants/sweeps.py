"""Guards of sweeps: whose shard it is, what comes first, and what a list may confirm."""

from typing import Final

from tests.mutants.mutation import Mutation

LEASES: Final = "functions/oncely/aws/dynamodb_sweep_leases.py"
FIND: Final = "functions/oncely/reconcile/find_due_work.py"
GROUP: Final = "functions/oncely/reconcile/resolve_group.py"
FINISH: Final = "functions/oncely/reconcile/resolve_group.py"
DUE: Final = "functions/oncely/domain/due.py"
EXPRESSIONS: Final = "functions/oncely/aws/expressions.py"
STRIPE: Final = "functions/oncely/providers/stripe/payments.py"
LEASE_TESTS: Final = ("tests/conformance/test_sweep_leases.py", "-k", "moto")
INDEX_TESTS: Final = ("tests/conformance/test_due_index.py", "-k", "moto")
_FREE: Final = '"attribute_not_exists(job_key) OR #until <= :now OR #holder = :holder"'

SWEEPS: Final = (
    Mutation(
        "a sweep takes a shard that another is at work on",
        LEASES,
        _FREE,
        '"attribute_not_exists(job_key) OR attribute_exists(#until) OR :now = :holder"',
        LEASE_TESTS,
    ),
    Mutation(
        "the lease of a sweep that died is never free again",
        LEASES,
        _FREE,
        '"attribute_not_exists(job_key) OR #holder = :holder OR :now = :holder"',
        LEASE_TESTS,
    ),
    Mutation(
        "a late sweep gives back a lease that is another one's",
        LEASES,
        'ConditionExpression="#holder = :holder",',
        'ConditionExpression="attribute_exists(#holder) OR #holder = :holder",',
        LEASE_TESTS,
    ),
    Mutation(
        "a sweep goes on without the lease",
        FIND,
        "                    self.busy += 1\n                    continue",
        "                    self.busy += 1",
        ("tests/unit/test_find_due_work.py",),
    ),
    Mutation(
        "a due time that was edited by hand stops every sweep",
        "functions/oncely/aws/dynamodb_due_index.py",
        "with suppress(ValueError):",
        "with suppress(KeyError):",
        ("tests/integration/test_edited_rows.py",),
    ),
    Mutation(
        "what is asked stands with what is published",
        DUE,
        "            return DueAction.PUBLISH",
        "            return DueAction.LOOK_UP",
        (
            "tests/conformance/test_due_index.py",
            "tests/unit/test_find_due_work.py",
            "-k",
            "memory or unknown",
        ),
    ),
    Mutation(
        "a page is filled with what is published first",
        FIND,
        "turns = _take_turns((ask, send, ask, publish, ask, lost))",
        "turns = chain(publish, send, ask, lost)",
        ("tests/unit/test_find_due_work.py",),
    ),
    Mutation(
        "a row that is due for something else stays where it was",
        EXPRESSIONS,
        '    if "due_at" in changed:',
        '    if "due_at" in changed and after.due_at is None:',
        INDEX_TESTS,
    ),
    Mutation(
        "an end moves the entry that it should leave alone",
        EXPRESSIONS,
        '    if "due_at" in changed:',
        "    if changed:",
        INDEX_TESTS,
    ),
    Mutation(
        "one job that fails stops its neighbours",
        GROUP,
        "            return HandledItem(key=key, error=error)",
        "            raise",
        ("tests/unit/test_resolve_group.py",),
    ),
    Mutation(
        "a job is begun that its function cannot end",
        GROUP,
        "if self.reconciler.clock.now() + self._max_duration(key) > deadline:",
        "if False:",
        ("tests/unit/test_resolve_group.py",),
    ),
    Mutation(
        "jobs that always fail hide all that are due after them",
        FINISH,
        'next_sweep["from"] != sweep["from"] or made_progress(done["counts"])',
        'made_progress(done["counts"])',
        ("tests/unit/test_finish_sweep.py",),
    ),
    Mutation(
        "a list confirms a charge whose refund it does not show",
        STRIPE,
        "if ours is None or not isinstance(ours.latest_charge, stripe.Charge):",
        "if ours is None:",
        ("tests/integration/test_stripe_payments.py", "-k", "test_lookup"),
    ),
    Mutation(
        "a list says that a charge is absent",
        STRIPE,
        "return answer if isinstance(answer, Succeeded) else None",
        "return answer  # type: ignore[return-value]",
        ("tests/integration/test_stripe_payments.py", "-k", "test_lookup"),
    ),
)
