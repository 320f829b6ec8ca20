"""Named ways to break a guard, each with the tests that must notice."""

from dataclasses import dataclass
from typing import Final

JOBS: Final = "functions/oncely/domain/jobs.py"
CLAIMS: Final = "functions/oncely/domain/claims.py"
DECIDE: Final = "functions/oncely/domain/decide.py"
MOVES: Final = "functions/oncely/domain/moves.py"
DUE: Final = "functions/oncely/domain/due.py"
KEYS: Final = "functions/oncely/domain/keys.py"
RUN: Final = "functions/oncely/services/run_job.py"
ACTING: Final = "functions/oncely/services/acting.py"
RECONCILE: Final = "functions/oncely/services/reconcile.py"
SETTLE: Final = "functions/oncely/services/settle.py"
PUBLISH: Final = "functions/oncely/services/publish.py"
REPLIES: Final = "functions/oncely/services/replies.py"
BATCH: Final = "functions/oncely/services/work_batch.py"
EXPRESSIONS: Final = "functions/oncely/adapters/expressions.py"
DYNAMODB: Final = "functions/oncely/adapters/dynamodb_jobs.py"
STRIPE: Final = "functions/oncely/adapters/stripe_payments.py"
SES: Final = "functions/oncely/adapters/ses_mail.py"
CHARGE: Final = "functions/oncely/contracts/payment_charge.py"

REPAIR: Final = "functions/oncely/services/repair.py"
RULING: Final = "functions/oncely/services/ruling.py"
REPAIR_WRITE: Final = "functions/oncely/services/repair_write.py"
REPAIRS: Final = "functions/oncely/domain/repairs.py"
HTTP: Final = "functions/oncely/adapters/http_api.py"

EXPLORER: Final = "tests/faults/test_explorer.py"
GRID: Final = ("tests/unit/test_decide.py", "tests/unit/test_back_to_ready.py")
SWAP: Final = ("tests/contract/test_job_store_swap.py", "-k", "moto")
REPAIRED: Final = (
    "tests/unit/test_repair.py",
    "tests/unit/test_repair_order.py",
    "tests/unit/test_ruling.py",
)
END: Final = ("tests/contract/test_job_store_end.py", "-k", "moto")


@dataclass(frozen=True)
class Mutation:
    """`old` stands exactly once in `file`, and `new` takes its place."""

    name: str
    file: str
    old: str
    new: str
    caught_by: tuple[str, ...]  # what pytest is given


MUTATIONS: Final = (
    # Ownership: whose row it is, and whose write.
    Mutation(
        "a claim takes a row that is not ready",
        CLAIMS,
        "elif row.status is not Status.READY or conflicts(row, claim):",
        "elif conflicts(row, claim):",
        ("tests/unit/test_jobs.py", "tests/unit/test_late_workers.py"),
    ),
    Mutation(
        "a claim on DynamoDB takes any row",
        EXPRESSIONS,
        "free = f\"({status} = {e.value(attribute('status', Status.READY))})\"",
        "free = f\"(attribute_exists({key}) OR {status} = {e.value(attribute('status', 'x'))})\"",
        ("tests/contract/test_job_store_claim.py", "-k", "moto"),
    ),
    Mutation(
        "a write on DynamoDB does not compare the owner",
        EXPRESSIONS,
        "else f\"{e.name('owner')} = {e.value(attribute('owner', before.owner))}\",",
        "else f\"attribute_exists({e.name('owner')})\",",
        SWAP,
    ),
    Mutation(
        "a write on DynamoDB does not compare the version",
        EXPRESSIONS,
        "f\"{e.name('version')} = {e.value(attribute('version', before.version))}\",",
        "",
        SWAP,
    ),
    Mutation(
        "a write on DynamoDB does not compare the status",
        EXPRESSIONS,
        "f\"{e.name('status')} = {e.value(attribute('status', before.status))}\",",
        "",
        SWAP,
    ),
    Mutation(
        "a worker that lost its row saves its reference over another's",
        JOBS,
        "return row.owner == self.owner and row.status is self.status",
        "return row.status is self.status",
        ("tests/unit/test_settle.py", EXPLORER, "-k", "second_owner or zombie"),
    ),
    Mutation(
        "a worker that lost its row goes on and confirms",
        ACTING,
        "                    if saved is None:\n",
        "                    mine = prepared(ref).on(job, now=job.updated_at, actor='late')\n"
        "                    saved = saved or mine\n"
        "                    if saved is None:\n",
        ("tests/unit/test_late_workers.py",),
    ),
    Mutation(
        "a claim that the SDK sent twice is taken for another's",
        DYNAMODB,
        "return Claimed(row) if row.owner == claim.owner else ClaimRefused(row)",
        "return ClaimRefused(row)",
        ("tests/contract/test_job_store_claim.py", "-k", "moto"),
    ),
    Mutation(
        "another's write is taken for our own that lost its reply",
        JOBS,
        "if row.owner != write.owner or row.version < write.version:",
        "if row.version < write.version:",
        ("tests/unit/test_landed.py",),
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
        "lease_until=self.deadline.at + self.contract.terms.profile.request_timeout + CLOCK_SKEW,",
        "lease_until=self.deadline.at - timedelta(seconds=30),",
        ("tests/unit/test_late_workers.py",),
    ),
    Mutation(
        "a thawed worker does not look at the time before it calls",
        ACTING,
        "if not self._has_time(terms.profile.request_timeout):",
        "if False:",
        (EXPLORER, "-k", "promise_holds and (lookup or no-keys)"),
    ),
    # Order: what is saved before what.
    Mutation(
        "the payment is confirmed before its reference is saved",
        ACTING,
        "                    saved = self.keep(job, prepared(ref))\n",
        "                    mine = prepared(ref).on(job, now=job.updated_at, actor='early')\n"
        "                    early = self._call(mine, facts)\n"
        "                    self._guarded(self.contract.act, early)\n"
        "                    saved = self.keep(job, prepared(ref))\n",
        ("tests/unit/test_charge_once.py",),
    ),
    Mutation(
        "another payment is prepared though one is saved",
        ACTING,
        "        if job.provider_ref is None:\n            match self._guarded",
        "        if True:\n            match self._guarded",
        ("tests/unit/test_unclear_charges.py",),
    ),
    Mutation(
        "a second attempt leaves the first one's payment open",
        CHARGE,
        "            if former is not None and former.provider_ref is not None:\n",
        "            if False:\n",
        ("tests/unit/test_second_attempts.py",),
    ),
    Mutation(
        "the local writes are left out of the end",
        SETTLE,
        "match self.store.swap(job, after, local=local(after)):",
        "match self.store.swap(job, after):",
        ("tests/unit/test_settle.py",),
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
    # What is not known.
    Mutation(
        "a timeout counts as a failure",
        DECIDE,
        "return lose(answer.reason, now, due_at=now, timeouts=job.timeouts + 1)",
        'return refuse(Refused(answer.reason, "timeout"), now)',
        ("tests/unit/test_every_decision.py",),
    ),
    Mutation(
        "a timeout counts as nothing sent",
        DECIDE,
        "return lose(answer.reason, now, due_at=now, timeouts=job.timeouts + 1)",
        "return _release_unsent(job, NotSent(answer.reason), now, spread)",
        ("tests/unit/test_unclear_charges.py",),
    ),
    Mutation(
        "whatever a provider raises counts as nothing sent",
        ACTING,
        'return Unclear(f"the call ended in {type(error).__name__}: {error}")',
        'return NotSent(f"the call ended in {type(error).__name__}: {error}")',
        (EXPLORER, "-k", "promise_holds and at-most-once"),
    ),
    Mutation(
        "the answer to a confirmation is its HTTP code",
        STRIPE,
        "return turned_away_unsent(error) or self._state_after(error, ref, payment)",
        "return turned_away(error)",
        ("tests/integration/test_stripe_payments.py",),
    ),
    Mutation(
        "“not there” counts at once",
        DECIDE,
        "case Absent() if answer.proved or now >= ask_not_before(job, terms):",
        "case Absent() if job.status:",
        GRID,
    ),
    Mutation(
        "“not there” does not wait for the look-up's lag",
        DECIDE,
        "return last_send + terms.profile.request_timeout + lag",
        "return last_send + terms.profile.request_timeout",
        GRID,
    ),
    Mutation(
        "“not there” does not wait for a request under way",
        DECIDE,
        "return last_send + terms.profile.request_timeout + lag",
        "return last_send + lag",
        GRID,
    ),
    Mutation(
        "an answer is judged by a later clock than it was heard",
        RECONCILE,
        "decision = self._decide(row, answer, asked_at)",
        "decision = self._decide(row, answer, self.reconciler.clock.now())",
        ("tests/unit/test_reconciler.py",),
    ),
    Mutation(
        "the key number is not raised by proof",
        DECIDE,
        "key_number=job.key_number + 1)",
        "key_number=job.key_number)",
        GRID,
    ),
    Mutation(
        "the key number is raised without proof",
        DECIDE,
        "return _return(job, terms, reason, now, spread, key_number=job.key_number)",
        "return _return(job, terms, reason, now, spread, key_number=job.key_number + 1)",
        GRID,
    ),
    Mutation(
        "a key is safe for ever",
        DECIDE,
        "return job.key_scope == scope and now + terms.profile.longest_run < safe_until",
        "return job.key_scope == scope",
        ("tests/unit/test_claim_rules.py",),
    ),
    Mutation(
        "a key is safe under another account",
        DECIDE,
        "return job.key_scope == scope and now + terms.profile.longest_run < safe_until",
        "return now + terms.profile.longest_run < safe_until",
        ("tests/unit/test_claim_rules.py",),
    ),
    Mutation(
        "a claim forgets that an earlier send is open",
        CLAIMS,
        "first_sent_at=row.first_sent_at or claim.now,",
        "first_sent_at=claim.now,",
        ("tests/contract/test_stores_agree.py", "-k", "moto"),
    ),
    Mutation(
        "what may be sent once at most is sent again",
        DECIDE,
        "if terms.safety is Safety.AT_MOST_ONCE:",
        "if not terms.safety:",
        GRID,
    ),
    Mutation(
        "five timeouts in a row are not counted",
        DECIDE,
        "if job.timeouts >= terms.stop.timeouts_in_a_row:",
        "if not job.status:",
        GRID,
    ),
    Mutation(
        "Stripe's library sends again by itself",
        STRIPE,
        "max_network_retries=0,",
        "max_network_retries=2,",
        ("tests/integration/test_stripe_payments.py",),
    ),
    Mutation(
        "the mail client sends again by itself",
        SES,
        '"total_max_attempts": 1}',
        '"total_max_attempts": 3}',
        ("tests/integration/test_ses_mail.py",),
    ),
    # Identity.
    Mutation(
        "ids are not escaped",
        KEYS,
        'r"[^A-Za-z0-9_.@#+-]"',
        'r"[^A-Za-z0-9_.@#+:%-]"',
        ("tests/unit/test_keys.py",),
    ),
    Mutation(
        "the fingerprint is taken over the message",
        RUN,
        "fingerprint=None if standing.values is None else fingerprint(standing.values),",
        "fingerprint=fingerprint(self.message.as_json()),",
        ("tests/unit/test_conflicting_messages.py",),
    ),
    Mutation(
        "a conflict is answered like a duplicate",
        CLAIMS,
        "    if conflicts(row, claim):\n",
        "    if not row.status:\n",
        ("tests/unit/test_claim_rules.py",),
    ),
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
        "return replace(row, version=row.version + 1, due_at=now + LOOK_TIME)",
        "return replace(row, version=row.version + 1)",
        ("tests/unit/test_reconciler.py",),
    ),
    Mutation(
        "an ended row is not due",
        MOVES,
        'return {"due_at": now + ARCHIVE_GRACE, "timeouts": 0, "unreachable": 0}',
        'return {"due_at": None, "timeouts": 0, "unreachable": 0}',
        ("tests/unit/test_every_decision.py",),
    ),
    Mutation(
        "nothing is archived",
        PUBLISH,
        "        self.archive.keep(job)\n",
        "",
        ("tests/unit/test_publisher.py",),
    ),
    Mutation(
        "the row may expire before its archive is written",
        PUBLISH,
        "        self.bus.publish(job)\n",
        "        soon = self.clock.now()\n"
        "        early = archived(now=soon, retention=self.retention)\n"
        "        self.store.swap(job, early.on(job, now=soon, actor=ACTOR))\n"
        "        self.bus.publish(job)\n",
        ("tests/unit/test_publisher.py",),
    ),
    Mutation(
        "a claim does not look in the archive",
        RUN,
        "match self._former(job):",
        "match None:",
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
    # People: who may do what, to which version, and with which proof.
    Mutation(
        "a repair does not compare the version that the person saw",
        REPAIR,
        "if row.version != order.version:",
        "if row.version < order.version:",
        REPAIRED,
    ),
    Mutation(
        "a repair that is not offered is done",
        REPAIR,
        "if not offered.allowed:",
        "if False:",
        REPAIRED,
    ),
    Mutation(
        "a job is marked as done without a reference",
        REPAIR,
        "if offered.needs_reference and order.reference is None and not order.dry_run:",
        "if False:",
        REPAIRED,
    ),
    Mutation(
        "a dry run writes",
        REPAIR_WRITE,
        "        if self.order.dry_run:\n",
        "        if False:\n",
        REPAIRED,
    ),
    Mutation(
        "a dry run promises what our own rows refuse",
        REPAIR_WRITE,
        "if not one.fits(table(one.table).get(one.key))]",
        "if False]",
        REPAIRED,
    ),
    Mutation(
        "an order that says something else by now is called paid",
        RULING,
        "facts = None if isinstance(standing, Mismatch) or moved_on else standing.facts",
        "facts = None if isinstance(standing, Mismatch) else standing.facts",
        REPAIRED,
    ),
    Mutation(
        "a job is returned to ready without asking the provider",
        REPAIRS,
        "return terms.safety is Safety.NATURAL or not job.has_started",
        "return True",
        REPAIRED,
    ),
    Mutation(
        "a job is returned to ready while a request may be under way",
        REPAIRS,
        "case Absent(proved=proved) if proved or asked_at >= ask_not_before(job, terms):",
        "case Absent():",
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
        "if longer[place].is_a_remark)",
        "if False)",
        ("tests/unit/test_evidence.py",),
    ),
    Mutation(
        "a person called like the machine is taken for it",
        "functions/oncely/domain/actors.py",
        "return _PERSON + one_line(name, MAX_PART)",
        "return one_line(name, MAX_PART)",
        REPAIRED,
    ),
    Mutation(
        "a second attempt that cannot run is told of every few minutes",
        CLAIMS,
        "return escalate(reason) if row and row.status is Status.READY else None",
        "return None",
        ("tests/unit/test_second_attempts.py",),
    ),
    Mutation(
        "what a sweep puts out names an address",
        "functions/oncely/domain/text.py",
        "return one_line(masked(text))",
        "return one_line(text)",
        ("tests/unit/test_sweep_report.py",),
    ),
    Mutation(
        "an export of a rare type reads the whole index",
        "functions/oncely/services/inspect.py",
        "if looked_at == MOST_LOOKED_AT:",
        "if False:",
        ("tests/unit/test_job_lists.py",),
    ),
    Mutation(
        "any group may do anything",
        HTTP,
        "if route.groups and person is not None and not route.groups & person.groups:",
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
        "a new attempt looks at the one before it only",
        CHARGE,
        "for attempt in range(call.facts.attempt - 1, 0, -1):",
        "for attempt in range(call.facts.attempt - 1, 0, -1)[:1]:",
        ("tests/unit/test_second_attempts.py",),
    ),
    Mutation(
        "an exported cell is a formula",
        "functions/repair_jobs/spreadsheet.py",
        """_FORMULA.sub(r"\\1'", str(value))""",
        "str(value)",
        ("tests/unit/test_spreadsheet.py",),
    ),
    Mutation(
        "addresses are shown",
        "functions/oncely/services/job_view.py",
        "        case str():\n            return masked(value)\n",
        "",
        ("tests/unit/test_job_view.py",),
    ),
    Mutation(
        "a page of a list forgets what it has shown of the same moment",
        "functions/oncely/services/page_cursor.py",
        "same = self.shown if one.since == self.at else frozenset()",
        "same: frozenset[JobKey] = frozenset()",
        ("tests/unit/test_job_lists.py",),
    ),
    Mutation(
        "a job stays in the list of its former status",
        EXPRESSIONS,
        "if after.status is not before.status:",
        "if False:",
        ("tests/contract/test_job_finder.py", "-k", "moto"),
    ),
)
