"""Guards of people: who may do what, to which version, and with which proof; what they see."""

from typing import Final

from tests.mutants.mutation import Mutation

JOBS: Final = "functions/oncely/domain/jobs.py"
CLAIMS: Final = "functions/oncely/domain/claims.py"
EXPRESSIONS: Final = "functions/oncely/aws/expressions.py"
REPAIR: Final = "functions/oncely/operate/repairer.py"
RULING: Final = "functions/oncely/operate/repair_write.py"
REPAIR_WRITE: Final = "functions/oncely/operate/repair_write.py"
REPAIRS: Final = "functions/oncely/domain/repairs.py"
HTTP: Final = "functions/oncely/admin_page/http_api.py"
JOB_INDEX: Final = "functions/oncely/aws/dynamodb_job_index.py"
JOB_VIEW: Final = "functions/oncely/operate/job_view.py"
REPAIRED: Final = (
    "tests/unit/test_repair.py",
    "tests/unit/test_repair_races.py",
    "tests/unit/test_manual_resolution.py",
)

OPERATOR_MUTATIONS: Final = (
    Mutation(
        "one unreadable row fails a whole list",
        JOB_INDEX,
        "yield from map(_to_job, answer",
        "yield from map(deserialize_job, answer",
        ("tests/conformance/test_job_index.py", "-k", "moto"),
    ),
    Mutation(
        "an edited time of a status fails a whole list",
        JOB_INDEX,
        "with suppress(ValueError):",
        "with suppress(KeyError):",
        ("tests/integration/test_edited_rows.py",),
    ),
    Mutation(
        "a contract that cannot describe a row fails a whole list",
        JOB_VIEW,
        "except Exception:",
        "except ArithmeticError:",
        ("tests/unit/test_job_lists.py",),
    ),
    Mutation(
        "a repair does not compare the version that the person saw",
        REPAIR,
        "if row.version != request.version:",
        "if row.version < request.version:",
        REPAIRED,
    ),
    Mutation(
        "a repair that is not offered is done",
        REPAIR,
        "if not option.allowed:",
        "if False:",
        REPAIRED,
    ),
    Mutation(
        "a job is marked as done without a reference",
        REPAIR,
        "if option.needs_reference and request.reference is None and not request.dry_run:",
        "if False:",
        REPAIRED,
    ),
    Mutation(
        "a dry run writes",
        REPAIR_WRITE,
        "        if self.request.dry_run:\n",
        "        if False:\n",
        REPAIRED,
    ),
    Mutation(
        "a dry run promises what our own rows refuse",
        REPAIR_WRITE,
        "if not one.applies_to(table(one.table).get(one.key))",
        "if False",
        REPAIRED,
    ),
    Mutation(
        "an order that says something else by now is called paid",
        RULING,
        "facts = None if isinstance(precheck, Mismatch) or moved_on else precheck.facts",
        "facts = None if isinstance(precheck, Mismatch) else precheck.facts",
        REPAIRED,
    ),
    Mutation(
        "a job is returned to ready without asking the provider",
        REPAIRS,
        "return policy.safety is RetrySafety.NATURAL or not job.was_claimed",
        "return True",
        REPAIRED,
    ),
    Mutation(
        "a job is returned to ready while a request may be under way",
        REPAIRS,
        "if proved or looked_up_at >= absence_conclusive_at(\n            job, policy\n        ):",
        ":",
        ("tests/unit/test_repairs.py",),
    ),
    Mutation(
        "a returned job keeps its age",
        REPAIRS,
        "        reopened_at=now,\n",
        "",
        ("tests/unit/test_repairs.py", *REPAIRED),
    ),
    Mutation(
        "what people note pushes proof out of a job's history",
        JOBS,
        "if longer[place].is_operator_note)",
        "if False)",
        ("tests/unit/test_evidence.py",),
    ),
    Mutation(
        "a person called like the machine is taken for it",
        "functions/oncely/domain/actors.py",
        "return _OPERATOR_PREFIX + single_line(name, MAX_ID_LENGTH)",
        "return single_line(name, MAX_ID_LENGTH)",
        REPAIRED,
    ),
    Mutation(
        "a second attempt that cannot run is told of every few minutes",
        CLAIMS,
        "return escalate(reason) if row and row.allows(Event.CLAIM) else None",
        "return None",
        ("tests/unit/test_resubmission.py",),
    ),
    Mutation(
        "what a sweep puts out names an address",
        "functions/oncely/domain/text.py",
        "return single_line(mask_emails(text))",
        "return single_line(text)",
        ("tests/unit/test_sweep_report.py",),
    ),
    Mutation(
        "an export of a rare type reads the whole index",
        "functions/oncely/operate/job_queries.py",
        "if scanned == MAX_ENTRIES_SCANNED:",
        "if False:",
        ("tests/unit/test_job_lists.py",),
    ),
    Mutation(
        "any group may do anything",
        HTTP,
        "if route.groups and user is not None and not route.groups & user.groups:",
        "if False:",
        ("tests/unit/test_http_api.py",),
    ),
    Mutation(
        "a person is named by an address that they can change",
        HTTP,
        'for name in ("cognito:username", "username"))',
        'for name in ("email", "cognito:username", "username"))',
        ("tests/unit/test_http_api.py",),
    ),
    Mutation(
        "an exported cell is a formula",
        "functions/oncely/admin_page/csv_export.py",
        """_FORMULA.sub(r"\\1'", str(value))""",
        "str(value)",
        ("tests/unit/test_csv_export.py",),
    ),
    Mutation(
        "addresses are shown",
        "functions/oncely/operate/job_view.py",
        "        case str():\n            return mask_emails(value)\n",
        "",
        ("tests/unit/test_job_view.py",),
    ),
    Mutation(
        "a page of a list forgets what it has shown of the same moment",
        "functions/oncely/operate/page_cursor.py",
        "same = self.shown if entry.at == self.at else frozenset()",
        "same: frozenset[JobKey] = frozenset()",
        ("tests/unit/test_job_lists.py",),
    ),
    Mutation(
        "a job stays in the list of the status that it had",
        EXPRESSIONS,
        "if where := attention_partition(after.status, after.job_key):",
        "if where := attention_partition(before.status, after.job_key)\\\n"
        "        or attention_partition(after.status, after.job_key):",
        ("tests/conformance/test_job_index.py", "-k", "moto"),
    ),
)
