"""What docs/costs.md says about a month in which nothing happens is what the stack has."""

from infra import REPOSITORY
from oncely import signals
from oncely.contracts import CONTRACTS
from oncely.services.outcomes import Same
from oncely.settings import camel
from tests.infra.assembly import Assembly

SHIPPED = {f"Alarms/OldestMessage{queue}" for queue in ("Payments", "Sync", "Mail")}
COSTS = (REPOSITORY / "docs" / "costs.md").read_text(encoding="utf-8")


def test_the_alarms_are_counted(prod: Assembly) -> None:
    # The page is about the jobs that ship; a queue of the reader's own adds an alarm.
    own = {f"Alarms/OldestMessage{camel(kind.needs.queue)}" for kind in CONTRACTS} - SHIPPED
    found = prod.of_type("AWS::CloudWatch::Alarm")
    alarms = [alarm for path, alarm in found.items() if path not in own]
    watched = sum(
        sum("MetricStat" in one for one in alarm["Properties"].get("Metrics", ())) or 1
        for alarm in alarms
    )

    assert f"| alarms | {len(alarms)}, one of them over three metrics |" in COSTS
    assert f"over three metrics | {watched * 0.10:.2f} |" in COSTS


def test_the_dashboard_is_off_unless_asked_for(prod: Assembly) -> None:
    assert prod.of_type("AWS::CloudWatch::Dashboard") == {}
    assert "| dashboard |" not in COSTS
    assert "`-c dashboard=true` adds a dashboard: 3.00 a month" in COSTS


def test_the_metrics_are_counted() -> None:
    names = {name for name, value in vars(signals).items() if isinstance(value, str)}
    metrics = {name for name in names if name.isupper()} - {"NAMESPACE"}
    # The age of the oldest has its own line; repetitions have reasons too.
    more = len(metrics - {"OLDEST_UNRESOLVED_AGE"}) + len(Same)

    assert f"up to {more} more metrics are emitted: {more * 0.30:.2f} a month" in COSTS
