"""Guards of a job's evidence, its due times, and what follows its end."""

from typing import Final

from tests.mutants.mutation import Mutation

JOBS: Final = "functions/oncely/domain/jobs.py"
DECIDE: Final = "functions/oncely/domain/decide.py"
MOVES: Final = "functions/oncely/domain/decisions.py"
DUE: Final = "functions/oncely/domain/due.py"
SETTLE: Final = "functions/oncely/run/attempt.py"
PUBLISH: Final = "functions/oncely/publish/publisher.py"
REPLIES: Final = "functions/oncely/run/process_batch.py"
BATCH: Final = "functions/oncely/run/process_batch.py"

ENDED_JOB_MUTATIONS: Final = (
    # Evidence and what a person hears.
    Mutation(
        "each move forgets the evidence before it",
        JOBS,
        '"evidence": append_evidence(self.evidence, entry),',
        '"evidence": (entry,),',
        ("tests/unit/test_reconciler.py", "tests/unit/test_late_workers.py"),
    ),
    Mutation(
        "evidence grows without a bound",
        JOBS,
        "if len(longer) <= MAX_EVIDENCE_ENTRIES:",
        "if longer:",
        ("tests/unit/test_evidence.py",),
    ),
    Mutation(
        "a late worker's definite answer is dropped",
        SETTLE,
        "return DecisionResult(decision, None, self._save_as_evidence(row, job, outcome))",
        "return DecisionResult(decision, None, None)",
        ("tests/unit/test_write_decision.py",),
    ),
    Mutation(
        "a contradiction of an end is only noted",
        MOVES,
        "if _contradicts(row, outcome):",
        "if not row.status:",
        ("tests/unit/test_late_outcome.py",),
    ),
    Mutation(
        "a review is not due until somebody was told",
        JOBS,
        'alert_changes = {"due_at": now} if self.alert else {}',
        "alert_changes: dict[str, object] = {}",
        ("tests/unit/test_every_decision.py",),
    ),
    Mutation(
        "a review may expire",
        MOVES,
        '            "expires_at": None,\n            "last_error": single_line(reason),\n',
        '            "last_error": single_line(reason),\n',
        ("tests/unit/test_every_decision.py",),
    ),
    # Due times and the end of the line.
    Mutation(
        "a look does not push the due time",
        DUE,
        "return replace(row, version=row.version + 1, due_at=now + SWEEP_HOLD + jitter_delay)",
        "return replace(row, version=row.version + 1)",
        ("tests/unit/test_reconciler.py",),
    ),
    # The ended row is the proof.
    Mutation(
        "a row that owes something may expire",
        JOBS,
        "    if must_publish:\n",
        "    if must_publish and now is None:\n",
        ("tests/unit/test_proof.py",),
    ),
    Mutation(
        "a row that owes something is not due",
        JOBS,
        "due_at=after.due_at or now + PUBLISH_GRACE",
        "due_at=None",
        ("tests/unit/test_proof.py",),
    ),
    Mutation(
        "an end that owes nothing never expires",
        JOBS,
        "return replace(after, due_at=None, expires_at=expiry_time(now, retention))",
        "return replace(after, due_at=None)",
        ("tests/unit/test_proof.py",),
    ),
    Mutation(
        "evidence on an ended row makes its debt go",
        JOBS,
        "    if before.ended or not after.ended:\n",
        "    if not after.ended:\n",
        ("tests/unit/test_proof.py",),
    ),
    Mutation(
        "a contradicted end may still expire",
        MOVES,
        '                "expires_at": None,\n',
        "",
        ("tests/unit/test_proof.py", "tests/unit/test_late_outcome.py"),
    ),
    Mutation(
        "an end whose follow-ups cannot be told is taken to owe none",
        SETTLE,
        "return True  # the publisher reports",
        "return False  # the publisher reports",
        ("tests/unit/test_publisher.py",),
    ),
    Mutation(
        "the debt is cleared before it is paid",
        PUBLISH,
        "            follow_ups = contract.follow_ups(job)\n",
        "            follow_ups = contract.follow_ups(job)\n"
        "            soon = self.clock.now()\n"
        "            early = mark_published(job, retention=MONEY_RETENTION, now=soon)\n"
        "            self.store.compare_and_swap(job, early)\n",
        ("tests/unit/test_publisher.py",),
    ),
    Mutation(
        "a queue that does not take a follow-up clears the debt",
        PUBLISH,
        "            if not "
        "all(self.sender_for_queue(queue).send([encode_message(message.to_dict())])):\n",
        "            if not "
        "self.sender_for_queue(queue).send([encode_message(message.to_dict())]):\n",
        ("tests/unit/test_publisher.py",),
    ),
    Mutation(
        "a broken job's message is acknowledged",
        REPLIES,
        "        case InternalError():\n            return LeaveInvisible()",
        "        case InternalError():\n            return Ack()",
        ("tests/unit/test_message_actions.py",),
    ),
    Mutation(
        "a message held elsewhere goes to the dead letters",
        REPLIES,
        "return Ack() if near_receive_limit else Nack(until)",
        "return Nack(until)",
        ("tests/unit/test_message_actions.py",),
    ),
    Mutation(
        "a message held elsewhere comes back at once",
        BATCH,
        "delay=self._delay_until(at))",
        "delay=timedelta(0))",
        ("tests/unit/test_process_batch.py",),
    ),
)
