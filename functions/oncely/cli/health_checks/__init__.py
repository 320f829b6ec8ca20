"""The checks of `oncely doctor`. Each module covers one part of a deployed stack."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from oncely.cli.health_checks.alerts import check_alarms, check_alert_subscriptions
from oncely.cli.health_checks.deployed import DeployedStack
from oncely.cli.health_checks.functions import (
    check_concurrency,
    check_event_sources,
    check_functions,
)
from oncely.cli.health_checks.jobs import check_jobs, check_reconciler
from oncely.cli.health_checks.providers import check_providers, check_secrets
from oncely.cli.health_checks.queues import check_queues
from oncely.cli.health_checks.retention import check_history, check_retention
from oncely.cli.health_checks.stack import check_outputs, check_stack
from oncely.cli.health_checks.tables import check_sparse_indexes, check_tables
from oncely.health import Finding

Check: TypeAlias = Callable[[DeployedStack], Iterator[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    check_stack,
    check_outputs,
    check_queues,
    check_functions,
    check_event_sources,
    check_concurrency,
    check_tables,
    check_sparse_indexes,
    check_retention,
    check_history,
    check_secrets,
    check_providers,
    check_reconciler,
    check_alarms,
    check_alert_subscriptions,
    check_jobs,
)
