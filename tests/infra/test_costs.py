"""What costs extra is off, as docs/costs.md says."""

from oncely_cdk.paths import REPOSITORY
from tests.infra.assembly import Assembly

COSTS = (REPOSITORY / "docs" / "costs.md").read_text(encoding="utf-8")


def test_dashboard_is_off_by_default(prod: Assembly) -> None:
    assert prod.of_type("AWS::CloudWatch::Dashboard") == {}
    assert "| dashboard |" not in COSTS
    assert "`-c dashboard=true` adds a dashboard: 3.00 a month" in COSTS
