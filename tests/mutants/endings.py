"""Guards of a job's evidence, its due times, and what follows its end."""

from typing import Final

from tests.mutants.mutation import Mutation

JOBS: Final = "functions/oncely/domain/jobs.py"
DECIDE: Final = "functions/oncely/domain/decide.py"
MOVES: Final = "functions/oncely/domain/moves.py"
DUE: Final = "functions/oncely/domain/due.py"
SETTLE: Final = "functions/oncely/services/settle.py"
PUBLISH: Final = "functions/oncely/services/publish.py"
PROOF: Final = "functions/oncely/domain/proof.py"
ENDING: Final = "functions/oncely/services/ending.py"
REPLIES: Final = "functions/oncely/services/replies.py"
BATCH: Final = "functions/oncely/services/work_batch.py"

ENDINGS: Final = (
    # Evidence and what a person hears.
    Mutation(
        "each move forgets the evidence before it",
        JOBS,
        '"evidence": with_entry(self.evidence, entry),',
        '"evidence": (entry,),',
        ("tests/unit/test_reconciler.py", "tests/unit/test_late_workers.py"),
    ),
    Mutation(
        "evidence grows without a bound",
        JOBS,
        "if len(longer) <= MAX_EVIDENCE:",
        "if longer:",
        ("tests/unit/test_evidence.py",),
    ),
    Mutation(
        "a late worker's definite answer is dropped",
        SETTLE,
        "return Settlement(decision, None, self._keep_as_evidence(row, job, answer))",
        "return Settlement(decision, None, None)",
        ("tests/unit/test_settle.py",),
    ),
    Mutation(
        "a contradiction of an end is only noted",
        DECIDE,
        "if row.status in ENDED and _contradicts(row, answer):",
        "if not row.status:",
        ("tests/unit/test_late_answer.py",),
    ),
    Mutation(
        "a review is not due until somebody was told",
        MOVES,
        'told = {"due_at": now} if self.alert else {}',
        "told: dict[str, object] = {}",
        ("tests/unit/test_every_decision.py",),
    ),
    Mutation(
        "a review may expire",
        MOVES,
        '            "expires_at": None,\n            "last_error": one_line(reason),\n',
        '            "last_error": one_line(reason),\n',
        ("tests/unit/test_every_decision.py",),
    ),
    # Due times and the end of the line.
    Mutation(
        "a look does not push the due time",
        DUE,
        "return replace(row, version=row.version + 1, due_at=now + LOOK_TIME + apart)",
        "return replace(row, version=row.version + 1)",
        ("tests/unit/test_reconciler.py",),
    ),
    # The ended row is the proof.
    Mutation(
        "a row that owes something may expire",
        PROOF,
        "    if owes:\n",
        "    if owes and now is None:\n",
        ("tests/unit/test_proof.py",),
    ),
    Mutation(
        "a row that owes something is not due",
        PROOF,
        "due_at=after.due_at or now + PUBLISH_GRACE",
        "due_at=None",
        ("tests/unit/test_proof.py",),
    ),
    Mutation(
        "an end that owes nothing never expires",
        PROOF,
        "return replace(after, due_at=None, expires_at=expiry(now, retention))",
        "return replace(after, due_at=None)",
        ("tests/unit/test_proof.py",),
    ),
    Mutation(
        "evidence on an ended row makes its debt go",
        PROOF,
        "    if before.ended or not after.ended:\n",
        "    if not after.ended:\n",
        ("tests/unit/test_proof.py",),
    ),
    Mutation(
        "a contradicted end may still expire",
        DECIDE,
        '                "expires_at": None,\n',
        "",
        ("tests/unit/test_proof.py", "tests/unit/test_late_answer.py"),
    ),
    Mutation(
        "an end whose follow-ups cannot be told is taken to owe none",
        ENDING,
        "return True  # the publisher meets",
        "return False  # the publisher meets",
        ("tests/unit/test_publisher.py",),
    ),
    Mutation(
        "the debt is cleared before it is paid",
        PUBLISH,
        "            follow_ups = contract.follow_ups(job)\n",
        "            follow_ups = contract.follow_ups(job)\n"
        "            soon = self.clock.now()\n"
        "            early = published(job, retention=MONEY_RETENTION, now=soon)\n"
        "            self.store.swap(job, early)\n",
        ("tests/unit/test_publisher.py",),
    ),
    Mutation(
        "a queue that does not take a follow-up clears the debt",
        PUBLISH,
        "            if not all(self.outbox(queue).send([body_of(message.as_json())])):\n",
        "            if not self.outbox(queue).send([body_of(message.as_json())]):\n",
        ("tests/unit/test_publisher.py",),
    ),
    Mutation(
        "a broken job's message is acknowledged",
        REPLIES,
        "        case Broken():\n            return Leave()",
        "        case Broken():\n            return Ack()",
        ("tests/unit/test_replies.py",),
    ),
    Mutation(
        "a message held elsewhere goes to the dead letters",
        REPLIES,
        "return Ack() if last_receives else HandBack(until)",
        "return HandBack(until)",
        ("tests/unit/test_replies.py",),
    ),
    Mutation(
        "a message held elsewhere comes back at once",
        BATCH,
        "after=self._wait_until(at))",
        "after=timedelta(0))",
        ("tests/unit/test_work_batch.py",),
    ),
)
