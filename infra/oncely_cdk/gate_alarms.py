"""The alarms on what the gates hold."""

from collections.abc import Iterable, Iterator

from oncely.aws import signals
from oncely.contracts.settings import pascal_case
from oncely.plugins.provider import AnyProvider
from oncely_cdk.alarms import AlarmSpec, JobMetrics


def gate_alarms(metrics: JobMetrics, providers: Iterable[AnyProvider]) -> Iterator[AlarmSpec]:
    """Alarms on what is held: one for all pauses, and one for each provider."""
    yield AlarmSpec(
        name=signals.PAUSED,
        metric=metrics(signals.PAUSED, statistic="Maximum"),
        impact=(
            "Nothing is lost. An operator paused a job type, a queue or a provider: its effects "
            "do not run until someone resumes it."
        ),
        runbook_section="paused-jobs",
        next_step="gates",
    )
    for plugin in providers:
        yield AlarmSpec(
            name=f"{signals.CIRCUIT_OPEN}{pascal_case(plugin.name)}",
            metric=metrics(signals.CIRCUIT_OPEN, statistic="Maximum", provider=plugin.name),
            impact=(
                f"No jobs are lost. {plugin.profile.name} does not respond, and its jobs wait. The "
                "metric counts the seconds."
            ),
            runbook_section="provider-does-not-respond",
            next_step="gates",
        )
