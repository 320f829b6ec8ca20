"""Guards of what reaches us from producers, providers and AWS, and of how we reach them."""

from typing import Final

from tests.mutants.mutation import Mutation

FRESH: Final = "functions/oncely/http/fresh_connections.py"
HUBSPOT: Final = "functions/oncely/providers/hubspot/crm.py"
KEYS: Final = "functions/oncely/domain/keys.py"
SES: Final = "functions/oncely/providers/ses/mailer.py"
SES_PLUGIN: Final = "functions/oncely/providers/ses/plugin.py"
REGISTRY: Final = "functions/oncely/registry.py"
DOCTOR: Final = ("tests/unit/test_command_doctor.py",)
POISON: Final = ("tests/unit/test_poison_messages.py",)

BOUNDARIES: Final = (
    # Connections.
    Mutation(
        "a mail is sent over a connection that was idle",
        SES,
        "with closing(made) as client:",
        "for client in [self.__dict__.setdefault('kept', made)]:",
        ("tests/integration/test_ses_mailer.py", "-k", "forgot"),
    ),
    Mutation(
        "HubSpot is called over a connection that was idle",
        FRESH,
        "with apply_deadline(PoolManager(num_pools=1, **self.connection_pool_kw)) as once:",
        "for once in [super()]:",
        ("tests/integration/test_hubspot_crm.py", "-k", "forgot"),
    ),
    Mutation(
        "an answer of HubSpot's that trickles in holds a call",
        HUBSPOT,
        "            _ = response.data  # read within the deadline, and kept\n",
        "",
        ("tests/integration/test_request_deadline.py", "-k", "hubspot"),
    ),
    # Answers.
    Mutation(
        "an error of our SES account counts as a decline",
        SES,
        "if status in _UNAUTHORIZED or _is_misconfigured(error):",
        "if status in _UNAUTHORIZED:",
        ("tests/integration/test_ses_mailer.py", "-k", "configuration"),
    ),
    Mutation(
        "a mail for which no client could be made may have been sent",
        SES,
        "            return _not_sent(error)\n        try:\n",
        "            return Ambiguous(str(error))\n        try:\n",
        ("tests/integration/test_ses_mailer.py", "-k", "failed_client_creation"),
    ),
    Mutation(
        "a sender that is not verified counts as a decline",
        SES,
        "return code in _MISCONFIGURED or (text is not None and text in message.lower())",
        "return code in _MISCONFIGURED",
        ("tests/integration/test_ses_mailer.py", "-k", "configuration"),
    ),
    Mutation(
        "orders whose ids look alike share a mail tag",
        KEYS,
        "return hashlib.sha256(text.encode()).hexdigest()",
        'return re.sub("[^A-Za-z0-9_-]", "_", text)',
        ("tests/unit/test_receipt_send.py",),
    ),
    Mutation(
        "all claims of a job share a mail tag",
        KEYS,
        "return hashlib.sha256(text.encode()).hexdigest()",
        "return hashlib.sha256(job.encode()).hexdigest()",
        ("tests/unit/test_receipt_send.py",),
    ),
    # Rights.
    Mutation(
        "a mail may be sent from any address of the account",
        SES_PLUGIN,
        'string_equals={"ses:FromAddress": address},',
        "string_equals={},",
        ("tests/infra/test_permissions.py", "-k", "mail"),
    ),
    Mutation(
        "mail is refused when its identity has a configuration set",
        SES_PLUGIN,
        'for resource in ("identity", "configuration-set")',
        'for resource in ("identity",)',
        ("tests/infra/test_permissions.py", "-k", "every_resource"),
    ),
    # What a first deployment lacks.
    Mutation(
        "a sender that is not verified looks healthy",
        "functions/oncely/providers/ses/health.py",
        'if found.get("VerifiedForSendingStatus"):',
        "if found:",
        DOCTOR,
    ),
    Mutation(
        "an account in the SES sandbox looks healthy",
        "functions/oncely/providers/ses/health.py",
        'if account.get("ProductionAccessEnabled"):',
        "if account:",
        DOCTOR,
    ),
    Mutation(
        "an account that throttles the stack looks healthy",
        "functions/oncely/cli/health_checks/functions.py",
        "if limit >= needed:",
        "if limit:",
        DOCTOR,
    ),
    Mutation(
        "a key that no header can carry looks healthy",
        "functions/oncely/cli/health_checks/providers.py",
        "if not (value.isascii() and value.isprintable()):",
        "if False:",
        DOCTOR,
    ),
    # Messages.
    Mutation(
        "a number that cannot be stored is taken",
        REGISTRY,
        "if fault := number_fault(text):",
        'if fault := "":',
        POISON,
    ),
    Mutation(
        "a number that is rounded to one that cannot be stored is taken",
        REGISTRY,
        "    _check_number(repr(number))",
        "    del text",
        POISON,
    ),
    Mutation(
        "an empty name is taken",
        REGISTRY,
        'if "" in found:',
        "if None in found:",
        POISON,
    ),
    Mutation(
        "a message that is nested too deep is taken",
        REGISTRY,
        "if is_too_deep(decoded):",
        "if not decoded:",
        POISON,
    ),
    Mutation(
        "a record without an object of properties is taken",
        "functions/oncely/jobs/sync_contact.py",
        'if not isinstance(record.get("properties", {}), dict):',
        "if not record:",
        POISON,
    ),
    # The package.
    Mutation(
        "a missing testing extra is not explained",
        "functions/oncely/testing/schedule.py",
        'pip install "oncely[testing]"',
        "see the docs",
        ("tests/unit/test_producer_package.py", "-k", "extra_is_missing"),
    ),
)
