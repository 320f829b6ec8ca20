"""Guards of the job table: whose it is, and what a restore may have lost."""

from typing import Final

from tests.mutants.mutation import Mutation

IDENTITY: Final = "functions/oncely/domain/table_identity.py"
ITEM: Final = "functions/oncely/aws/deployment_identity.py"
GUARD: Final = "functions/oncely/run/table_guard.py"
SET_UP: Final = "functions/oncely/operate/set_up_table.py"
RUN: Final = "functions/oncely/run/run_job.py"
ACTING: Final = "functions/oncely/run/attempt.py"
ASKING: Final = "functions/oncely/reconcile/lookup_effect.py"
FIND: Final = "functions/oncely/reconcile/find_due_work.py"
RECONCILE: Final = "functions/oncely/reconcile/reconciler.py"
REPAIR: Final = "functions/oncely/operate/repairer.py"
STRIPE: Final = "functions/oncely/providers/stripe/payments.py"
RESTORE: Final = "functions/oncely/domain/restore.py"
PROOF_SERVICE: Final = "functions/oncely/operate/restore_proofs.py"
PROOFS: Final = ("tests/unit/test_restore_proofs.py",)
FENCED: Final = ("tests/unit/test_fence.py",)
AFTER: Final = ("tests/unit/test_after_restore.py",)
CHECKS: Final = ("tests/unit/test_table_guard.py",)
SEARCH: Final = ("tests/conformance/test_payment_search.py",)

FENCE: Final = (
    Mutation(
        "a restored job charges what was only to be closed",
        RESTORE,
        "closing=_closing(line),",
        "closing=None,",
        PROOFS,
    ),
    Mutation(
        "a restored table closes the gap that must stop its restore",
        "functions/oncely/cli/archive.py",
        "if item is None or item.table_id != facts.table_id:",
        "if item is None and not facts.table_id:",
        ("tests/unit/test_command_archive.py",),
    ),
    Mutation(
        "a copy is opened with an open row that it could not park",
        PROOF_SERVICE,
        "            for key, _ in page.unreadable:\n                # One",
        "            for key, _ in ():\n                # One",
        PROOFS,
    ),
    Mutation(
        "what a copy does not owe stays for ever",
        RESTORE,
        "expires_at = expiry_time(now, MONEY_RETENTION) if row.ended else None",
        "expires_at = None",
        PROOFS,
    ),
    Mutation(
        "an old line is restored though a newer version wrote the row since",
        "functions/oncely/domain/history.py",
        "        return _follows(line, other)",
        "        return False",
        PROOFS,
    ),
    Mutation(
        "a line of a newer version hides what was written after it",
        "functions/oncely/domain/history.py",
        "return in_time and (",
        "return bool(in_time) or (",
        PROOFS,
    ),
    Mutation(
        "a table with another id is taken for ours",
        IDENTITY,
        "if identity.table_id != facts.table_id:",
        "if not identity.table_id:",
        CHECKS,
    ),
    Mutation(
        "a table without protection is used",
        IDENTITY,
        "    if facts.missing:\n",
        "    if len(facts.missing) > 2:\n",
        CHECKS,
    ),
    Mutation(
        "a restored table opens while old workers run",
        IDENTITY,
        "if identity.opens_at is not None and now < identity.opens_at:",
        "if identity.opens_at is not None and now < identity.restored_at:",
        CHECKS,
    ),
    Mutation(
        "only rows from before the replays end are trusted",
        IDENTITY,
        "job.created_at < replays_until",
        "job.created_at > replays_until",
        (*CHECKS, *AFTER),
    ),
    Mutation(
        "the table is checked at start only",
        GUARD,
        "if self._state is None or self._next_check is None or now >= self._next_check:",
        "if self._state is None:",
        CHECKS,
    ),
    Mutation(
        "an unchecked table stays open for ever",
        GUARD,
        "now - seen < MAX_UNCHECKED and ",
        "",
        CHECKS,
    ),
    Mutation(
        "a refused table opens while DynamoDB does not answer",
        GUARD,
        "            return self._state\n        since",
        '            return TableOpen(deployment="")\n        since',
        CHECKS,
    ),
    Mutation(
        "first setup opens a table that has rows",
        SET_UP,
        "if not self.table.is_empty():",
        "if self.table.is_empty() is None:",
        ("tests/conformance/test_deployment_identity.py", "-k", "moto"),
    ),
    Mutation(
        "two setups that begin at once make two identities",
        ITEM,
        '{"ConditionExpression": "attribute_not_exists(table_id)"}',
        "{}",
        ("tests/conformance/test_deployment_identity.py", "-k", "moto"),
    ),
    Mutation(
        "an identity item is replaced that somebody else wrote",
        ITEM,
        '"ConditionExpression": "#identity = :identity AND table_id = :table",',
        '"ConditionExpression": "#identity = :identity OR table_id = :table",',
        ("tests/conformance/test_deployment_identity.py", "-k", "moto"),
    ),
    Mutation(
        "a frozen worker acts on the table that was restored meanwhile",
        RUN,
        "        table = self.runner.guard.check()\n",
        "        table: TableOpen | TableBlocked = self.table\n",
        FENCED,
    ),
    Mutation(
        "a worker claims in a refused table",
        RUN,
        "            return TableFenced(job_key=key, job_type=contract_type.job_type, "
        "reason=table.reason)\n",
        "            table = TableOpen(deployment=None)\n",
        FENCED,
    ),
    Mutation(
        "a worker acts at once though a restore may have lost the first run",
        RUN,
        "        return may_have_lost_history(job, table.replays_until)\n",
        "        return False\n",
        AFTER,
    ),
    Mutation(
        "what cannot be asked after a restore is sent",
        ACTING,
        "    if isinstance(outcome, LookupUnsupported):\n        return Anomalous(",
        "    if isinstance(outcome, LookupUnsupported):\n"
        "        from oncely.domain.effect_outcomes import NotFound\n"
        "        return NotFound(",
        AFTER,
    ),
    Mutation(
        "a found payment is not saved before it is confirmed",
        ACTING,
        "if not self._save(restore_reference(ref)):",
        "if not ref:",
        AFTER,
    ),
    Mutation(
        "the reconciler takes a restored row without a reference for proof",
        ASKING,
        "        if may_have_lost_history(row, table.replays_until):\n            answer",
        "        if row.status is None:\n            answer",
        AFTER,
    ),
    Mutation(
        "a row that lost its claim is looked for without its deployment",
        ASKING,
        "return replace(row, deployment=row.deployment or table.deployment)",
        "return row",
        AFTER,
    ),
    Mutation(
        "a key window makes a resend safe after a restore",
        ASKING,
        "if isinstance(answer, LookupUnsupported) and contract.policy.safety is not "
        "RetrySafety.NATURAL:",
        "if isinstance(answer, LookupUnsupported) and contract.policy.safety is None:",
        AFTER,
    ),
    Mutation(
        "the reference that the reconciler found is not kept",
        RECONCILE,
        "changes={**lookup.restored_fields, **decision.changes}",
        "changes=decision.changes",
        AFTER,
    ),
    Mutation(
        "the reconciler works in a refused table",
        RECONCILE,
        "            return Resolution(key=key, outcome=FENCED, reason=table.reason)\n",
        "            table = TableOpen(deployment=None)\n",
        FENCED,
    ),
    Mutation(
        "orders without a job are served though their job may be lost",
        FIND,
        "self._find(finder, sweep, now) if knows_every_job else iter(())",
        "self._find(finder, sweep, now)",
        FENCED,
    ),
    Mutation(
        "a repair fails a job whose payment was lost from its row",
        REPAIR,
        "frozenset({Repair.REOPEN, Repair.MARK_FAILED})",
        "frozenset({Repair.REOPEN})",
        AFTER,
    ),
    Mutation(
        "a repair is done in a refused table",
        REPAIR,
        "            return NotAllowed(table.reason)\n",
        "            table = TableOpen(deployment=None)\n",
        FENCED,
    ),
    Mutation(
        "any payment of the customer is taken for this job's",
        STRIPE,
        "if intent_owner(intent) == owner]",
        "if intent_owner(intent)[1] == owner[1]]",
        SEARCH,
    ),
    Mutation(
        "an open payment hides the one that took the money",
        STRIPE,
        "        return 0\n    return 2",
        "        return 3\n    return 2",
        SEARCH,
    ),
    Mutation(
        "some of the customer's payments prove that there is none",
        STRIPE,
        "        if all_seen:\n            return NotFound(",
        "        if all_seen or not found:\n            return NotFound(",
        SEARCH,
    ),
    Mutation(
        "a payment that our own rows name already is recorded a second time",
        ASKING,
        "if may_have_lost_history(row, table.replays_until) and _is_recorded(checked_outcome, "
        "precheck):",
        "if row.status is None:",
        AFTER,
    ),
    Mutation(
        "a message whose row was lost with its table is rejected",
        RUN,
        "isinstance(table := self.runner.guard.check(), TableBlocked):",
        "isinstance(table := self.table, TableBlocked):",
        FENCED,
    ),
    Mutation(
        "an older image takes the place of a newer row",
        RESTORE,
        ") > (row.created_at, row.version)",
        ") != (row.created_at, row.version)",
        PROOFS,
    ),
    Mutation(
        "what has not ended stays as the history has it",
        RESTORE,
        "    if not job.unresolved:\n",
        "    if job.status:\n",
        PROOFS,
    ),
    Mutation(
        "an expired row is brought back",
        RESTORE,
        "if line.record is HistoryRecordType.EXPIRED or status is None:",
        "if status is None and line.old_status is None:",
        PROOFS,
    ),
    Mutation(
        "an open gap does not stop a restore",
        PROOF_SERVICE,
        "if gaps := self.history.open_gaps():",
        "if gaps := self.history.open_gaps()[:0]:",
        PROOFS,
    ),
    Mutation(
        "a restore opens a table that somebody is changing",
        PROOF_SERVICE,
        "if after is not None and not dry_run and not self._write(before, after):",
        "if after is not None and not dry_run and self._write(before, after) is None:",
        PROOFS,
    ),
    Mutation(
        "an identity can be made up",
        PROOF_SERVICE,
        "        if identity in known:\n",
        "        if identity:\n",
        PROOFS,
    ),
    Mutation(
        "a copy keeps what is open",
        RESTORE,
        "    if row.unresolved:\n        decision",
        "    if row.status is None:\n        decision",
        PROOFS,
    ),
)
