"""What `oncely doctor` looks at: each module checks one part of a deployed stack."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from ops_cli.checkup.alarms import alarms
from ops_cli.checkup.concurrency import concurrency
from ops_cli.checkup.deployed import Deployed
from ops_cli.checkup.findings import Finding
from ops_cli.checkup.functions import functions, sources
from ops_cli.checkup.history import history
from ops_cli.checkup.jobs import jobs
from ops_cli.checkup.keys import keys
from ops_cli.checkup.mail import mail, sender
from ops_cli.checkup.orders import orders
from ops_cli.checkup.people import people
from ops_cli.checkup.queues import queues
from ops_cli.checkup.retention import retention
from ops_cli.checkup.stack import outputs, stack
from ops_cli.checkup.sweeps import sweeps
from ops_cli.checkup.tables import tables

Check: TypeAlias = Callable[[Deployed], Iterator[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    stack,
    outputs,
    queues,
    functions,
    sources,
    concurrency,
    tables,
    orders,
    retention,
    history,
    keys,
    mail,
    sender,
    sweeps,
    alarms,
    people,
    jobs,
)
