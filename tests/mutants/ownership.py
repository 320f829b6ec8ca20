"""Guards of whose row it is, and of what is saved before what."""

from typing import Final

from tests.mutants.mutation import Mutation

JOBS: Final = "functions/oncely/domain/jobs.py"
CLAIMS: Final = "functions/oncely/domain/claims.py"
RUN: Final = "functions/oncely/run/run_job.py"
ACTING: Final = "functions/oncely/run/attempt.py"
SETTLE: Final = "functions/oncely/run/attempt.py"
EXPRESSIONS: Final = "functions/oncely/aws/expressions.py"
DYNAMODB: Final = "functions/oncely/aws/dynamodb_job_store.py"
EXPLORER: Final = "tests/faults/test_explorer.py"
ROWS: Final = "functions/oncely/aws/job_rows.py"
SWAP: Final = ("tests/conformance/test_job_store_compare_and_swap.py", "-k", "moto")
END: Final = ("tests/conformance/test_job_store_end.py", "-k", "moto")

OWNERSHIP: Final = (
    Mutation(
        "a row of other types is read, and fails among its neighbours",
        ROWS,
        "if not isinstance(value, expected_type):",
        "if value is expected_type:",
        ("tests/unit/test_job_rows.py",),
    ),
    Mutation(
        "a move of a newer version makes its row unreadable",
        ROWS,
        "else _TRANSITIONS.get((old, event), _UNKNOWN_STATUS)",
        "else _TRANSITIONS[old, event]",
        ("tests/unit/test_job_rows.py",),
    ),
    Mutation(
        "what a spoiled row raises is taken for a fault of ours",
        ROWS,
        "*(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),",
        "*(LookupError, TypeError, ValueError),",
        ("tests/unit/test_job_rows.py",),
    ),
    # Ownership: whose row it is, and whose write.
    Mutation(
        "a claim takes a row that is not ready",
        CLAIMS,
        "elif not row.allows(Event.CLAIM) or has_conflict(row, claim):",
        "elif has_conflict(row, claim):",
        ("tests/unit/test_jobs.py", "tests/unit/test_late_workers.py"),
    ),
    Mutation(
        "a claim on DynamoDB takes any row",
        EXPRESSIONS,
        "free = f\"({status} = {e.value(serialize_field('status', Status.READY))})\"",
        "free = f\"(attribute_exists({key}) OR {status} = {e.value(serialize_field('status', "
        "'x'))})\"",
        ("tests/conformance/test_job_store_claim.py", "-k", "moto"),
    ),
    Mutation(
        "a write on DynamoDB does not compare the owner",
        EXPRESSIONS,
        "else f\"{e.name('owner')} = {e.value(serialize_field('owner', before.owner))}\",",
        "else f\"attribute_exists({e.name('owner')})\",",
        SWAP,
    ),
    Mutation(
        "a write on DynamoDB does not compare the version",
        EXPRESSIONS,
        "f\"{e.name('version')} = {e.value(serialize_field('version', before.version))}\",",
        "",
        SWAP,
    ),
    Mutation(
        "a write on DynamoDB does not compare the status",
        EXPRESSIONS,
        "f\"{e.name('status')} = {e.value(serialize_field('status', before.status))}\",",
        "",
        SWAP,
    ),
    Mutation(
        "a worker that lost its row saves its reference over another's",
        JOBS,
        "return row.owner == self.owner and row.status is self.status",
        "return row.status is self.status",
        ("tests/unit/test_write_decision.py", EXPLORER, "-k", "second_owner or zombie"),
    ),
    Mutation(
        "a worker that lost its row goes on and confirms",
        ACTING,
        "                    if not self._save(save_reference(ref)):\n",
        "                    mine = save_reference(ref).apply_to(self.job, "
        "now=self.job.updated_at, actor='late')\n"
        "                    if not self._save(save_reference(ref)):\n"
        "                        self.job = mine\n"
        "                    if not self.job:\n",
        ("tests/unit/test_late_workers.py",),
    ),
    Mutation(
        "a claim that the SDK sent twice is taken for another's",
        DYNAMODB,
        "return Claimed(row) if row.owner == claim.owner else ClaimFailed(row)",
        "return ClaimFailed(row)",
        ("tests/conformance/test_job_store_claim.py", "-k", "moto"),
    ),
    Mutation(
        "another's write is taken for our own that lost its reply",
        JOBS,
        "if row.owner != write.owner or row.version < write.version:",
        "if row.version < write.version:",
        ("tests/unit/test_own_write_detection.py",),
    ),
    Mutation(
        "a live lease counts as over",
        JOBS,
        "return self.lease_until is None or now >= self.lease_until",
        "return True",
        ("tests/unit/test_late_workers.py",),
    ),
    Mutation(
        "the lease ends before its worker does",
        RUN,
        "+ self.contract.policy.profile.request_timeout + CLOCK_SKEW,",
        "- timedelta(seconds=30),",
        ("tests/unit/test_late_workers.py",),
    ),
    Mutation(
        "a thawed worker does not look at the time before it calls",
        ACTING,
        "if not self._has_time(terms.profile.request_timeout * calls):",
        "if False:",
        (EXPLORER, "-k", "invariants_hold and (lookup or no-keys)"),
    ),
    # Order: what is saved before what.
    Mutation(
        "the payment is confirmed before its reference is saved",
        ACTING,
        "                    if not self._save(save_reference(ref)):\n",
        "                    mine = save_reference(ref).apply_to(self.job, "
        "now=self.job.updated_at, actor='early')\n"
        "                    early = replace(self._call(), job=mine)\n"
        "                    self._guarded_call(self.contract.execute, early)\n"
        "                    if not self._save(save_reference(ref)):\n",
        ("tests/unit/test_charge_once.py",),
    ),
    Mutation(
        "another payment is prepared though one is saved",
        ACTING,
        "        if self.job.provider_ref is None:\n            match self._guarded_call",
        "        if True:\n            match self._guarded_call",
        ("tests/unit/test_ambiguous_charges.py",),
    ),
    Mutation(
        "the local writes are left out of the end",
        SETTLE,
        "match self.store.compare_and_swap(job, after, business_writes=business_writes(after)):",
        "match self.store.compare_and_swap(job, after):",
        ("tests/unit/test_write_decision.py",),
    ),
    Mutation(
        "the local writes are made beside the transaction",
        DYNAMODB,
        """            self.client.transact_write_items(
                TransactItems=items, ClientRequestToken=_request_token(after)
            )
""",
        """            for item in items:
                self.client.transact_write_items(TransactItems=[item])
""",
        END,
    ),
)
