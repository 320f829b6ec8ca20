"""What `oncely doctor` looks at: each module checks one part of a deployed stack."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from oncely.cli.checkup.alarms import check_alarms
from oncely.cli.checkup.alert_subscriptions import check_alert_subscriptions
from oncely.cli.checkup.concurrency import check_concurrency
from oncely.cli.checkup.deployed import DeployedStack
from oncely.cli.checkup.findings import Finding
from oncely.cli.checkup.functions import check_event_sources, check_functions
from oncely.cli.checkup.history import check_history
from oncely.cli.checkup.jobs import check_jobs
from oncely.cli.checkup.mail import check_mail_account, check_sender
from oncely.cli.checkup.orders import check_orders
from oncely.cli.checkup.provider_secrets import check_provider_secrets
from oncely.cli.checkup.queues import check_queues
from oncely.cli.checkup.reconciler_runs import check_reconciler
from oncely.cli.checkup.retention import check_retention
from oncely.cli.checkup.stack import check_outputs, check_stack
from oncely.cli.checkup.tables import check_tables

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
