"""Whether the functions run, are fed, and have the time that a job may take."""

from collections.abc import Iterator
from typing import Final

from ops_cli.checkup.deployed import Deployed, Facts
from ops_cli.checkup.findings import Finding, broken, ok, warning

_DEPLOY: Final = "deploy the stack again"
_PARTIAL: Final = "ReportBatchItemFailures"
# What is read from the job table's stream, by the folder of the function that does it.
_STREAM_READERS: Final = {"what is owed": "publish_ended", "the history": "archive_history"}


def functions(deployed: Deployed) -> Iterator[Finding]:
    """Each function's own state."""
    sound = 0
    for function in deployed.functions:
        faults = list(_function(deployed, function))
        yield from faults
        sound += not faults
    yield ok("functions", f"{sound} of {len(deployed.functions)} are active and may run")


def _function(deployed: Deployed, function: Facts) -> Iterator[Finding]:
    name = str(function["FunctionName"])
    about = f"function {name}"
    states = (function.get("State", "Active"), function.get("LastUpdateStatus", "Successful"))
    # Lambda lets a function that nobody called for weeks rest; the next call wakes it.
    if states[0] not in {"Active", "Inactive"} or states[1] != "Successful":
        why = function.get("StateReason") or function.get("LastUpdateStatusReason") or states
        yield broken(about, f"it does not run: {why}", _DEPLOY)
    reserved = _reserved(deployed, name)
    if reserved == 0:
        yield broken(
            about,
            "its reserved concurrency is 0, so it never runs",
            f"aws lambda delete-function-concurrency --function-name {name}",
        )
    yield from _time(deployed, function, about)


def _reserved(deployed: Deployed, name: str) -> int | None:
    found: Facts = deployed.place.client("lambda").get_function_concurrency(FunctionName=name)
    reserved = found.get("ReservedConcurrentExecutions")
    return None if reserved is None else int(reserved)


def _time(deployed: Deployed, function: Facts, about: str) -> Iterator[Finding]:
    """A worker must have time for one job at every timeout, or it dies halfway."""
    queue = function.get("Environment", {}).get("Variables", {}).get("QUEUE_NAME")
    for kind in deployed.contracts:
        needed = kind.time_needed().total_seconds()
        if kind.needs.queue == queue and needed >= int(function["Timeout"]):
            yield broken(
                about,
                f"one {kind.job_type} may take {needed:g} s, it is stopped after "
                f"{function['Timeout']} s",
                _DEPLOY,
            )


def sources(deployed: Deployed) -> Iterator[Finding]:
    """Whether each queue, and the job table's stream, feeds its function."""
    urls = {name: deployed.queue_url(name) for name in deployed.queue_names}
    urls["dead letters"] = deployed.place.outputs.get("DeadLetterQueueUrl")
    urls["rejects"] = deployed.place.outputs.get("RejectsQueueUrl")
    urls["gaps"] = deployed.place.outputs.get("GapsQueueUrl")
    for name, url in urls.items():
        if url is not None:
            yield _source(f"queue {name}", deployed.mapping_of(deployed.queue(url)["QueueArn"]))
    for name, entry in _STREAM_READERS.items():
        yield _source(f"stream of the job table, {name}", _stream_mapping(deployed, entry))


def _stream_mapping(deployed: Deployed, entry: str) -> Facts | None:
    """What feeds a function from the stream."""
    for mapping in deployed.mappings:
        function = deployed.function_of(mapping) or {}
        if "/stream/" in mapping.get("EventSourceArn", "") and entry in function.get("Handler", ""):
            return mapping
    return None


def _source(about: str, mapping: Facts | None) -> Finding:
    if mapping is None:
        return broken(about, "no function is fed from it", _DEPLOY)
    mend = f"aws lambda update-event-source-mapping --uuid {mapping['UUID']} --enabled"
    state = mapping["State"]
    if state in {"Disabled", "Disabling"}:
        return broken(about, "its function is not fed: the mapping is off", mend)
    if state != "Enabled":
        return warning(about, f"its mapping is {state}", "look again in a minute")
    if _PARTIAL not in mapping.get("FunctionResponseTypes", []):
        return broken(about, "one bad message brings its whole batch back", _DEPLOY)
    return ok(about, "feeds its function")
