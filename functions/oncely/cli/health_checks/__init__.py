"""The checks of `oncely doctor`. Each module covers one part of a deployed stack."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from oncely.cli.health_checks.alerts import check_alarms, check_alert_subscriptions
from oncely.cli.health_checks.business_tables import (
    check_columns,
    check_keys,
    check_sparse_indexes,
)
from oncely.cli.health_checks.deployed import DeployedStack
from oncely.cli.health_checks.functions import (
    check_concurrency,
    check_event_sources,
    check_functions,
)
from oncely.cli.health_checks.jobs import check_gates, check_jobs, check_reconciler
from oncely.cli.health_checks.providers import check_providers, check_secrets
from oncely.cli.health_checks.queues import check_queues
from oncely.cli.health_checks.retention import check_history, check_retention
from oncely.cli.health_checks.stack import check_job_settings, check_outputs, check_stack
from oncely.cli.health_checks.tables import check_tables
from oncely.plugins.health import Finding

Check: TypeAlias = Callable[[DeployedStack], Iterator[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    check_stack,
    check_outputs,
    check_job_settings,
    check_queues,
    check_functions,
    check_event_sources,
    check_concurrency,
    check_tables,
    check_keys,
    check_columns,
    check_sparse_indexes,
    check_retention,
    check_history,
    check_secrets,
    check_providers,
    check_reconciler,
    check_alarms,
    check_alert_subscriptions,
    check_gates,
    check_jobs,
)
