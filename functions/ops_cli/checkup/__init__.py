"""What `oncely doctor` looks at: each module checks one part of a deployed stack."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from ops_cli.checkup.alarms import check_alarms
from ops_cli.checkup.concurrency import check_concurrency
from ops_cli.checkup.deployed import DeployedStack
from ops_cli.checkup.findings import Finding
from ops_cli.checkup.functions import check_event_sources, check_functions
from ops_cli.checkup.history import check_history
from ops_cli.checkup.jobs import check_jobs
from ops_cli.checkup.keys import check_provider_secrets
from ops_cli.checkup.mail import check_mail_account, check_sender
from ops_cli.checkup.orders import check_orders
from ops_cli.checkup.people import check_alert_subscriptions
from ops_cli.checkup.queues import check_queues
from ops_cli.checkup.retention import check_retention
from ops_cli.checkup.stack import check_outputs, check_stack
from ops_cli.checkup.sweeps import check_reconciler
from ops_cli.checkup.tables import check_tables

Check: TypeAlias = Callable[[DeployedStack], Iterator[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    check_stack,
    check_outputs,
    check_queues,
    check_functions,
    check_event_sources,
    check_concurrency,
    check_tables,
    check_orders,
    check_retention,
    check_history,
    check_provider_secrets,
    check_mail_account,
    check_sender,
    check_reconciler,
    check_alarms,
    check_alert_subscriptions,
    check_jobs,
)
