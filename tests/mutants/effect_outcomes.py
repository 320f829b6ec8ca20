"""Guards of what is known of an effect, and of which job it belongs to."""

from typing import Final

from tests.mutants.mutation import Mutation

CLAIMS: Final = "functions/oncely/domain/claims.py"
DECIDE: Final = "functions/oncely/domain/decide.py"
MOVES: Final = "functions/oncely/domain/decisions.py"
KEYS: Final = "functions/oncely/domain/keys.py"
RUN: Final = "functions/oncely/run/run_job.py"
ACTING: Final = "functions/oncely/run/attempt.py"
RECONCILE: Final = "functions/oncely/reconcile/reconciler.py"
STRIPE: Final = "functions/oncely/providers/stripe/payments.py"
STRIPE_ANSWERS: Final = "functions/oncely/providers/stripe/responses.py"
SES: Final = "functions/oncely/providers/ses/mailer.py"
HTTP: Final = "functions/oncely/admin_page/http_api.py"
EXPLORER: Final = "tests/faults/test_explorer.py"
GRID: Final = ("tests/unit/test_decide.py", "tests/unit/test_requeue.py")

EFFECT_OUTCOME_MUTATIONS: Final = (
    # What is not known.
    Mutation(
        "a timeout counts as a failure",
        DECIDE,
        "return mark_unknown(outcome.reason, now, due_at=now, timeouts=job.timeouts + 1)",
        'return _fail(job, Declined(outcome.reason, "timeout"))',
        ("tests/unit/test_every_decision.py",),
    ),
    Mutation(
        "a timeout counts as nothing sent",
        DECIDE,
        "return mark_unknown(outcome.reason, now, due_at=now, timeouts=job.timeouts + 1)",
        "return _release_unsent(job, NotSent(outcome.reason), now, jitter)",
        ("tests/unit/test_ambiguous_charges.py",),
    ),
    Mutation(
        "whatever a provider raises counts as nothing sent",
        ACTING,
        'return Ambiguous(f"the call ended in {type(error).__name__}: {error}")',
        'return NotSent(f"the call ended in {type(error).__name__}: {error}")',
        (EXPLORER, "-k", "invariants_hold and at-most-once"),
    ),
    Mutation(
        "the answer to a confirmation is its HTTP code",
        STRIPE,
        "return self._outcome_after_error(error, ref, payment)",
        "return error_outcome(error)",
        ("tests/integration/test_stripe_payments.py",),
    ),
    Mutation(
        "“not there” counts at once",
        DECIDE,
        "case NotFound() if outcome.conclusive or now >= absence_conclusive_at(job, policy):",
        "case NotFound() if job.status:",
        GRID,
    ),
    Mutation(
        "“not there” does not wait for the look-up's lag",
        MOVES,
        "return last_send + policy.profile.request_timeout + lag",
        "return last_send + policy.profile.request_timeout",
        GRID,
    ),
    Mutation(
        "“not there” does not wait for a request under way",
        MOVES,
        "return last_send + policy.profile.request_timeout + lag",
        "return last_send + lag",
        GRID,
    ),
    Mutation(
        "an answer is judged by a later clock than it was heard",
        RECONCILE,
        "decision = self._decide(_with_restored_fields(row, lookup), answer, looked_up_at)",
        "decision = self._decide(_with_restored_fields(row, lookup), answer, "
        "self.reconciler.clock.now())",
        ("tests/unit/test_reconciler.py",),
    ),
    Mutation(
        "the key number is not raised by proof",
        DECIDE,
        "key_number=job.key_number + 1\n",
        "key_number=job.key_number\n",
        GRID,
    ),
    Mutation(
        "the key number is raised without proof",
        DECIDE,
        "return _requeue_within_limits(job, policy, reason, now, jitter, "
        "key_number=job.key_number)",
        "return _requeue_within_limits(job, policy, reason, now, jitter, "
        "key_number=job.key_number + 1)",
        GRID,
    ),
    Mutation(
        "a key is safe for ever",
        DECIDE,
        "return job.key_scope == key_scope and now + policy.profile.max_run_time < safe_until",
        "return job.key_scope == key_scope",
        ("tests/unit/test_claim_rules.py",),
    ),
    Mutation(
        "a key is safe under another account",
        DECIDE,
        "return job.key_scope == key_scope and now + policy.profile.max_run_time < safe_until",
        "return now + policy.profile.max_run_time < safe_until",
        ("tests/unit/test_claim_rules.py",),
    ),
    Mutation(
        "a claim forgets that an earlier send is open",
        CLAIMS,
        "first_sent_at=row.first_sent_at or claim.now,",
        "first_sent_at=claim.now,",
        ("tests/conformance/test_stores_agree.py",),
    ),
    Mutation(
        "what may be sent once at most is sent again",
        DECIDE,
        "if policy.safety is RetrySafety.AT_MOST_ONCE:",
        "if not policy.safety:",
        GRID,
    ),
    Mutation(
        "five timeouts in a row are not counted",
        DECIDE,
        "if job.timeouts >= policy.limits.max_consecutive_timeouts:",
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
        ("tests/integration/test_ses_mailer.py",),
    ),
    # Whose payment it is.
    Mutation(
        "a saved payment is confirmed without a look at whose it is",
        STRIPE,
        "            if not isinstance(known, NotFound):\n",
        "            if not known:\n",
        ("tests/conformance/test_payment_provider.py",),
    ),
    Mutation(
        "every payment counts as verified",
        ACTING,
        "        verified = False\n",
        "        verified = True\n",
        ("tests/unit/test_payment_ownership.py",),
    ),
    Mutation(
        "what an earlier call made counts as made by this run",
        ACTING,
        "verified = not replayed",
        "verified = True",
        ("tests/unit/test_payment_ownership.py",),
    ),
    Mutation(
        "a replay of Stripe's is taken for a new payment",
        STRIPE,
        "return Prepared(intent.id, replayed=is_replay(intent))",
        "return Prepared(intent.id)",
        ("tests/conformance/test_payment_provider.py",),
    ),
    Mutation(
        "a confirmation charges whatever the payment says by then",
        STRIPE,
        '                    "amount_to_confirm": payment.money.amount,\n',
        "",
        ("tests/integration/test_stripe_payments.py",),
    ),
    Mutation(
        "what a replay of our key brings counts as ours",
        STRIPE,
        "if differs := intent_mismatch(intent, payment, livemode=self.livemode):",
        "if differs := None:",
        ("tests/unit/test_payment_ownership.py",),
    ),
    Mutation(
        "what Stripe shows counts as ours",
        STRIPE_ANSWERS,
        "if differs := intent_mismatch(intent, payment, livemode=livemode):",
        "if differs := None:",
        ("tests/unit/test_payment_ownership.py",),
    ),
    Mutation(
        "a payment of the other mode counts as ours",
        STRIPE_ANSWERS,
        "    if livemode is not None:\n",
        "    if False:\n",
        ("tests/unit/test_payment_ownership.py",),
    ),
    Mutation(
        "a refused key on confirm counts as nothing sent",
        STRIPE,
        "if unsent is not None and not rejects_api_key(error):",
        "if unsent is not None:",
        ("tests/unit/test_errors_on_confirm.py",),
    ),
    Mutation(
        "a lock of our own earlier call counts as nothing sent",
        STRIPE_ANSWERS,
        "if error.http_status == _RATE_LIMITED and _error_code(error) != _LOCK_TIMEOUT:",
        "if error.http_status == _RATE_LIMITED:",
        ("tests/unit/test_errors_on_confirm.py",),
    ),
    Mutation(
        "a disputed charge is a plain success",
        STRIPE_ANSWERS,
        'if getattr(charge, "disputed", False):',
        "if False:",
        ("tests/integration/test_stripe_payments.py",),
    ),
    Mutation(
        "only the first page is searched for another payment of the job",
        STRIPE,
        "if not page.has_more or not page.data:",
        "if page:",
        ("tests/integration/test_stripe_payments.py",),
    ),
    Mutation(
        "a search that ended early says that there is no other payment",
        STRIPE,
        "        return found, False\n",
        "        return found, True\n",
        ("tests/integration/test_stripe_payments.py",),
    ),
    Mutation(
        "an answer that trickles in holds a call for ever",
        "functions/oncely/http/request_deadline.py",
        "        self._sock.settimeout(_time_left(self._socket_timeout))\n",
        "        self._sock.settimeout(self._socket_timeout)\n",
        ("tests/integration/test_request_deadline.py",),
    ),
    Mutation(
        "an API key that no header can carry is used",
        "functions/oncely/aws/secrets_manager.py",
        "if not (key.isascii() and key.isprintable()):",
        "if False:",
        ("tests/unit/test_secrets.py",),
    ),
    # A decline must close the payment.
    Mutation(
        "a decline fails the job while its payment is open",
        ACTING,
        "return self._close_declined(outcome) if isinstance(outcome, StillOpen) else outcome",
        "return Declined(outcome.reason, outcome.code) if isinstance(outcome, "
        "StillOpen) else outcome",
        ("tests/unit/test_declined_charges.py",),
    ),
    Mutation(
        "a decline that the reconciler reads fails the job",
        DECIDE,
        "            return _hand_over_to_close(job, policy, outcome, now)\n",
        "            return _fail(job, Declined(outcome.reason, outcome.code))\n",
        (EXPLORER, "-k", "invariants_hold and decline-lost"),
    ),
    Mutation(
        "a cancel without an answer counts as canceled",
        STRIPE,
        'return Ambiguous(f"cancelling {ref}: {describe_error(error)}")',
        'return Declined(f"cancelling {ref}: {describe_error(error)}", code="canceled")',
        ("tests/conformance/test_payment_provider.py",),
    ),
    Mutation(
        "a run that should only close confirms once more",
        RUN,
        "        if job.closing is not None:\n",
        "        if False:\n",
        ("tests/unit/test_declined_charges.py", "tests/unit/test_manual_resolution.py"),
    ),
    Mutation(
        "a row forgets that it only waits to be closed",
        DECIDE,
        'return {"closing": closing}',
        "return {}",
        ("tests/unit/test_declined_charges.py",),
    ),
    Mutation(
        "a payment of somebody else is canceled",
        STRIPE,
        "            if not isinstance(known, NotFound | StillOpen):\n",
        "            if not known:\n",
        ("tests/conformance/test_payment_provider.py",),
    ),
    Mutation(
        "an operator fails a job whose payment is open",
        "functions/oncely/operate/repairer.py",
        "            case Repair.MARK_FAILED if needs_closing(row, self.contract.policy):\n",
        "            case Repair.MARK_FAILED if False:\n",
        ("tests/unit/test_manual_resolution.py",),
    ),
    Mutation(
        "an operator fails a job whose other payment took the money",
        STRIPE,
        "return flag_duplicate_payments(answer, ref, others) if others else answer",
        "return answer",
        ("tests/conformance/test_payment_provider.py",),
    ),
    Mutation(
        "an operator fails an open job that nobody here can read",
        "functions/oncely/domain/repairs.py",
        "        case Status.NEEDS_REVIEW if repair is Repair.MARK_FAILED and may_be_open:\n",
        "        case Status.NEEDS_REVIEW if False:\n",
        ("tests/unit/test_unreadable_jobs.py",),
    ),
    # Identity.
    Mutation(
        "provider keys of two deployments are the same",
        KEYS,
        "plain = _SEPARATOR.join((deployment, *parts) if deployment else parts)",
        "plain = _SEPARATOR.join(parts)",
        ("tests/unit/test_two_deployments.py",),
    ),
    Mutation(
        "a payment of another deployment counts as ours",
        STRIPE_ANSWERS,
        '        "deployment": (deployment, payment.deployment),\n',
        "",
        ("tests/conformance/test_payment_provider.py",),
    ),
    Mutation(
        "payments do not name their deployment",
        STRIPE,
        'return {**named, "deployment": payment.deployment} if payment.deployment else named',
        "return named",
        ("tests/conformance/test_payment_provider.py",),
    ),
    Mutation(
        "a later claim changes the deployment of a row",
        CLAIMS,
        "deployment=row.deployment or claim.deployment,",
        "deployment=claim.deployment,",
        ("tests/unit/test_two_deployments.py",),
    ),
    Mutation(
        "a row of another deployment is worked",
        DECIDE,
        "    if escalation := escalate_if_other_deployment(job, policy, deployment):\n",
        "    if escalation := None:\n",
        ("tests/unit/test_two_deployments.py",),
    ),
    Mutation(
        "a payment of another deployment ends a job in a sweep",
        RECONCILE,
        "if elsewhere := escalate_if_other_deployment(row, self.contract.policy, deployment):",
        "if elsewhere := None:",
        ("tests/unit/test_two_deployments.py",),
    ),
    Mutation(
        "mails of two deployments share a tag",
        KEYS,
        'text = _SEPARATOR.join((deployment or "", job, str(fence)))',
        "text = _SEPARATOR.join((job, str(fence)))",
        ("tests/unit/test_receipt_send.py",),
    ),
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
        "fingerprint=None if precheck.values is None else fingerprint(precheck.values),",
        "fingerprint=fingerprint(self.message.to_dict()),",
        ("tests/unit/test_conflicting_messages.py",),
    ),
    Mutation(
        "a conflict is answered like a duplicate",
        CLAIMS,
        "    if has_conflict(row, claim):\n",
        "    if not row.status:\n",
        ("tests/unit/test_claim_rules.py",),
    ),
)
