"""Every AWS adapter raises the engine's own errors, and no other module uses botocore's."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from inspect import isfunction
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from oncely.alerts.budget import Alert, AlertCause, AlertKind
from oncely.contracts.settings import Settings
from oncely.core.due import DueAction
from oncely.core.errors import NotConfiguredError, UnavailableError
from oncely.core.inserter import UniqueWindow
from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair
from oncely.core.table_guard import TableFacts, TableIdentity
from oncely.gates.gate import GateState, Pause, PauseAction, PauseEntry
from oncely.history.erasure_log import ErasureEntry
from oncely.history.gaps import BackfillProgress, HistoryGap
from oncely.operate.bulk_repairer import BulkRun, SelectedJob
from oncely.operate.daily_audit import StoredAudit
from oncely.plugins.events import ChangeKind, EffectChange
from oncely.ports import Ports
from oncely_cdk.paths import REPOSITORY
from tests.conformance.samples import KEY, add_note, make_claim, make_ready_job, paid_order_write
from tests.unit.samples import NOW

NAME: Final = "the-resource"
SETTINGS: Final = Settings(
    jobs_table=NAME,
    gates_table=NAME,
    stack_name=NAME,
    dead_letter_queue_url=NAME,
    archive_bucket=NAME,
    alert_topic_arn=NAME,
    event_bus_name=NAME,
    reconciler_arn=NAME,
    rejects_queue_url=NAME,
    queue_url=NAME,
    user_pool_id=NAME,
    access_log_secret=NAME,
    queues={"payments": NAME},
    tables={"orders": NAME},
    secrets={"stripe": NAME},
)
JOB: Final = make_ready_job()
NOTED: Final = add_note(JOB)
WINDOW: Final = UniqueWindow(name="report:1", now=NOW, until=NOW)
GAP: Final = HistoryGap(name="gap", recorded_at=NOW)
FACTS: Final = TableFacts(name=NAME, table_id="T1", has_stream=True)
IDENTITY: Final = TableIdentity(deployment="0123", table_id="T1")
UNKNOWN: Final = (Status.UNKNOWN,)
KIND: Final = AlertKind(cause=AlertCause.REVIEW)
RUN: Final = BulkRun(
    run_id="1",
    repair=Repair.RESUBMIT,
    reason="outage",
    actor="ada",
    created_at=NOW,
    jobs=(SelectedJob(KEY, 1),),
)
ENTRY: Final = ErasureEntry(job_key=KEY, requested_at=NOW, actor="operator:ada")
OPEN: Final = GateState(opened_at=NOW, probe_at=NOW)
PAUSE: Final = Pause(
    target="payment.charge",
    entries=(PauseEntry(at=NOW, action=PauseAction.PAUSE, actor="ada", reason="wrong prices"),),
)
AUDIT: Final = StoredAudit(since=NOW, until=NOW, differences=2)
WEEK: Final[Any] = {"since": NOW, "until": NOW + timedelta(days=7), "job_type": None, "limit": 1}
# One call of each method of each port.
CHANGE: Final = EffectChange(
    kind=ChangeKind.DISPUTED, deployment="dev", job_key=KEY, ref="pi_1", summary="dp_1"
)
CALLS: Final[dict[str, Callable[[Any], object]]] = {
    "alert_budget.count": lambda port: port.count(KIND, now=NOW),
    "alert_budget.keep": lambda port: port.keep(KIND, KEY, until=NOW),
    "alert_budget.reserve": lambda port: port.reserve(KIND, KEY, now=NOW, until=NOW),
    "audit_reports.read_audit": lambda port: port.read_audit(AUDIT.name),
    "audit_reports.recent_audits": lambda port: port.recent_audits(limit=1),
    "audit_reports.save_audit": lambda port: port.save_audit(AUDIT, []),
    "bulk_runs.get": lambda port: port.get("1"),
    "bulk_runs.save": lambda port: port.save(RUN),
    "due_index.due": lambda port: list(port.due(DueAction.LOOK_UP, 0, since=None, until=NOW)),
    "erasable_archive.delete_rejects": lambda port: list(
        port.delete_rejects(lambda _: True, dry_run=True)
    ),
    "erasable_archive.redact_history": lambda port: list(
        port.redact_history(lambda line: line, dry_run=True)
    ),
    "erasure_log.erased": lambda port: port.erased(),
    "erasure_log.record": lambda port: port.record(ENTRY),
    "erasure_log.record_run": lambda port: port.record_run({}, at=NOW),
    "event_bus.publish": lambda port: port.publish(JOB),
    "event_bus.publish_change": lambda port: port.publish_change(JOB, CHANGE),
    "gate_table.change_circuit": lambda port: port.change_circuit("acme:effects", OPEN),
    "gate_table.lease": lambda port: port.lease(
        "acme:effects", count=1, interval=timedelta(seconds=1), now=NOW, latest=NOW
    ),
    "gate_table.read": lambda port: port.read(),
    "gate_table.write_pause": lambda port: port.write_pause(PAUSE),
    "history.about": lambda port: port.about("1"),
    "history.backfill_progress": lambda port: port.backfill_progress(),
    "history.lines": lambda port: list(port.lines()),
    "history.names": lambda port: list(port.names()),
    "history.read": lambda port: list(port.read(["history/a.jsonl.gz"])),
    "history.newest": lambda port: port.newest(),
    "history.open_gaps": lambda port: port.open_gaps(),
    "history.recent": lambda port: port.recent(**WEEK),
    "history.close_gap": lambda port: port.close_gap(GAP, at=NOW),
    "history.put": lambda port: port.put(NOW.date(), "payment.charge", "1", []),
    "history.record_gap": lambda port: port.record_gap(GAP),
    "history.save_backfill": lambda port: port.save_backfill(
        BackfillProgress(generation="T1", started_at=NOW)
    ),
    "hourly_metrics.by_hour": lambda port: port.by_hour(since=NOW, until=NOW),
    "job_index.by_customer": lambda port: port.by_customer("1", limit=1),
    "job_index.by_reference": lambda port: port.by_reference("1", limit=1),
    "job_index.by_status": lambda port: list(port.by_status(UNKNOWN)),
    "job_index.by_subject": lambda port: port.by_subject("1", limit=1),
    "job_index.count": lambda port: port.count(UNKNOWN, since=None, limit=1),
    "job_index.get_many": lambda port: port.get_many([KEY]),
    "job_inserter.insert": lambda port: port.insert(JOB),
    "job_inserter.insert_unique": lambda port: port.insert_unique(JOB, WINDOW),
    "job_store.claim": lambda port: port.claim(make_claim()),
    "job_store.swap": lambda port: port.swap(JOB, NOTED),
    "job_store.conditional_write": lambda port: port.swap(
        JOB, NOTED, business_writes=[paid_order_write()]
    ),
    "job_store.create": lambda port: port.create(JOB),
    "job_store.get": lambda port: port.get(KEY),
    "job_store.read": lambda port: port.read(KEY),
    "message_sender.send": lambda port: port.send(["{}"]),
    "message_source.redeliver_after": lambda port: port.redeliver_after("1", delay=timedelta()),
    "notifier.notify": lambda port: port.notify(Alert(subject="s", text="t")),
    "queue_depths.depths": lambda port: port.depths(),
    "stored_rejects.count_rejects": lambda port: port.count_rejects(since=NOW, until=NOW, limit=1),
    "stored_rejects.read_reject": lambda port: port.read_reject("2026/11/16/1"),
    "stored_rejects.recent_rejects": lambda port: port.recent_rejects(
        since=NOW, until=NOW, limit=1
    ),
    "stored_rejects.resent": lambda port: port.resent(["2026/11/16/1"]),
    "stored_rejects.job_rejects": lambda port: port.job_rejects(KEY, limit=1),
    "stored_rejects.reserve_resend": lambda port: port.reserve_resend(
        "2026/11/16/1", actor="operator:ada"
    ),
    "stored_rejects.save_reject": lambda port: port.save_reject("1", {}, at=NOW),
    "reject_queue.reject": lambda port: port.reject("{}", reason="no", message_id="1"),
    "row_scan.pages": lambda port: list(port.pages()),
    "sweep_leases.acquire": lambda port: port.acquire(0, holder="me", now=NOW, until=NOW),
    "sweep_leases.release": lambda port: port.release(0, holder="me"),
    "sweeps.start": lambda port: port.start({}),
    "table.delete_partition": lambda port: port.delete_partition(
        {"record_id": "1"}, sort="event_id", dry_run=True
    ),
    "table.get": lambda port: port.get({"order_id": "1"}),
    "table.query_index": lambda port: list(
        port.query_index("due", partitions=("due", ["0"]), max_sort_key=("at", "1"))
    ),
    "table.update": lambda port: port.update(paid_order_write()),
    "table_generation.__call__": lambda port: port(),
    "table_identity.facts": lambda port: port.facts(),
    "table_identity.identity": lambda port: port.identity(),
    "table_identity.is_empty": lambda port: port.is_empty(),
    "table_identity.with_protection": lambda port: port.with_protection(FACTS),
    "table_identity.set_lookup": lambda port: port.set_lookup("a.b", "proved", expected=None),
    "table_identity.write": lambda port: port.write(IDENTITY, replacing=None),
    "user_directory.groups": lambda port: port.groups("ada"),
}
# These return what was not sent, and their callers send it again.
RETURNED: Final = {"message_sender.send": [False], "notifier.notify": False}
ALWAYS_RETURNED: Final = {"notifier.notify", "job_store.conditional_write"}


def service_error(code: str, status: int = 400) -> ClientError:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "Call")


OUTAGES: Final = (
    service_error("ThrottlingException"),
    service_error("", 503),
    EndpointConnectionError(endpoint_url="https://service.test"),
)
REFUSALS: Final = (
    service_error("AccessDeniedException"),
    service_error("UnrecognizedClientException"),
    service_error("ExpiredTokenException"),
    service_error("ResourceNotFoundException"),
    NoCredentialsError(),
)


class FailingClient:
    """A client of any service, and the set of all clients: whatever is called fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, _: str) -> "FailingClient":
        return self

    def get_paginator(self, _: str) -> "FailingClient":
        return self

    def paginate(self, **_: object) -> Iterator[object]:
        yield self()

    def __call__(self, **_: object) -> object:
        raise self.error


def ports_failing_with(error: Exception, settings: Settings = SETTINGS) -> Ports:
    clients: Any = FailingClient(error)
    ports = Ports(settings, clients)
    ports._job_store = replace(ports.job_store(), sleep=lambda _: None)  # noqa: SLF001  # no pauses
    return ports


def port(ports: Ports, name: str) -> object:
    arguments = {"table": ["orders"], "message_sender": ["payments"], "job_store": []}
    found = getattr(ports, name)
    return found(*arguments[name]) if name in arguments else found


def call(ports: Ports, name: str) -> object:
    return CALLS[name](port(ports, name.partition(".")[0]))


def test_every_method_of_every_port_is_called() -> None:
    ports = ports_failing_with(REFUSALS[0])
    lazy = [name for name, value in vars(Ports).items() if isinstance(value, cached_property)]
    names = {"job_store", "message_sender", "table", *lazy} - {"gate", "table_guard"}
    methods = {
        f"{name}.{method}"
        for name in names
        if not name.startswith("_")
        for method, value in vars(type(port(ports, name))).items()
        if isfunction(value) and (not method.startswith("_") or method == "__call__")
    }

    assert set(CALLS) == methods


@pytest.mark.parametrize("error", OUTAGES, ids=repr)
@pytest.mark.parametrize("name", CALLS)
def test_outage_is_unavailable_and_names_resource(name: str, error: Exception) -> None:
    ports = ports_failing_with(error)
    if name in RETURNED:
        assert call(ports, name) == RETURNED[name]
        return
    # The text is for support agents. The note, which `match` searches too, is for engineers.
    with pytest.raises(
        UnavailableError, match=rf"\n.*: {NAME}|throttling the row of {KEY}"
    ) as raised:
        call(ports, name)
    assert NAME not in str(raised.value)


@pytest.mark.parametrize("error", REFUSALS, ids=repr)
@pytest.mark.parametrize("name", sorted(set(CALLS) - ALWAYS_RETURNED))
def test_refusal_says_what_to_check(name: str, error: Exception) -> None:
    with pytest.raises(NotConfiguredError, match=r"cannot be used .*: check "):
        call(ports_failing_with(error), name)


@pytest.mark.parametrize("error", OUTAGES, ids=repr)
def test_secret_is_unavailable_in_outage(error: Exception) -> None:
    with pytest.raises(UnavailableError, match=NAME):
        ports_failing_with(error).secret("stripe")
    with pytest.raises(UnavailableError, match=NAME):
        ports_failing_with(error).access_log_key()


def test_only_translator_knows_errors_of_botocore() -> None:
    importing = {
        str(path.relative_to(REPOSITORY))
        for root in ("functions", "infra")
        for path in (REPOSITORY / root).rglob("*.py")
        if re.search("botocore.exceptions|botocore import exceptions", path.read_text("utf-8"))
    }

    assert importing == {
        "functions/oncely/core/aws_errors.py",
        "functions/oncely/cli/errors.py",  # explains how to sign in
        "functions/oncely/providers/ses/mailer.py",  # a provider's response is an outcome
        # They raise what botocore raises.
        "functions/oncely/providers/ses/sandbox/model.py",
        "functions/oncely/testing/memory_aws/calls.py",
        "functions/oncely/testing/memory_aws/wire.py",
    }
