"""Whether the functions run, are fed, and have the time that a job may take."""

from collections.abc import Iterator
from typing import Final

from oncely.cli.checkup.deployed import AwsDescription, DeployedStack
from oncely.cli.checkup.findings import Finding, failed, passed, warned

_DEPLOY: Final = "deploy the stack again"
_PARTIAL: Final = "ReportBatchItemFailures"
# What is read from the job table's stream, by the folder of the function that does it.
_STREAM_READERS: Final = {"what is owed": "publish_ended", "the history": "archive_history"}


def check_functions(deployed: DeployedStack) -> Iterator[Finding]:
    """Each function's own state."""
    sound = 0
    for function in deployed.functions:
        faults = list(_check_function(deployed, function))
        yield from faults
        sound += not faults
    yield passed("functions", f"{sound} of {len(deployed.functions)} are active and may run")


def _check_function(deployed: DeployedStack, function: AwsDescription) -> Iterator[Finding]:
    name = str(function["FunctionName"])
    check = f"function {name}"
    states = (function.get("State", "Active"), function.get("LastUpdateStatus", "Successful"))
    # Lambda lets a function that nobody called for weeks rest; the next call wakes it.
    if states[0] not in {"Active", "Inactive"} or states[1] != "Successful":
        reason = function.get("StateReason") or function.get("LastUpdateStatusReason") or states
        yield failed(check, f"it does not run: {reason}", _DEPLOY)
    reserved = _reserved(deployed, name)
    if reserved == 0:
        yield failed(
            check,
            "its reserved concurrency is 0, so it never runs",
            f"aws lambda delete-function-concurrency --function-name {name}",
        )
    yield from _check_time(deployed, function, check)


def _reserved(deployed: DeployedStack, name: str) -> int | None:
    found: AwsDescription = deployed.connection.client("lambda").get_function_concurrency(
        FunctionName=name
    )
    reserved = found.get("ReservedConcurrentExecutions")
    return None if reserved is None else int(reserved)


def _check_time(deployed: DeployedStack, function: AwsDescription, check: str) -> Iterator[Finding]:
    """A worker must have time for one job at every timeout, or it dies halfway."""
    queue = function.get("Environment", {}).get("Variables", {}).get("QUEUE_NAME")
    for contract_type in deployed.contracts:
        needed = contract_type.max_duration().total_seconds()
        if contract_type.resources.queue == queue and needed >= int(function["Timeout"]):
            yield failed(
                check,
                f"one {contract_type.job_type} may take {needed:g} s, it is stopped after "
                f"{function['Timeout']} s",
                _DEPLOY,
            )


def check_event_sources(deployed: DeployedStack) -> Iterator[Finding]:
    """Whether each queue, and the job table's stream, feeds its function."""
    urls = {name: deployed.queue_url(name) for name in deployed.queue_names}
    urls["dead letters"] = deployed.connection.outputs.get("DeadLetterQueueUrl")
    urls["rejects"] = deployed.connection.outputs.get("RejectsQueueUrl")
    urls["gaps"] = deployed.connection.outputs.get("GapsQueueUrl")
    for name, url in urls.items():
        if url is not None:
            yield _check_mapping(
                f"queue {name}", deployed.mapping_for(deployed.queue(url)["QueueArn"])
            )
    for name, entry in _STREAM_READERS.items():
        yield _check_mapping(f"stream of the job table, {name}", _stream_mapping(deployed, entry))


def _stream_mapping(deployed: DeployedStack, entry: str) -> AwsDescription | None:
    """What feeds a function from the stream."""
    for mapping in deployed.event_source_mappings:
        function = deployed.function_for(mapping) or {}
        if "/stream/" in mapping.get("EventSourceArn", "") and entry in function.get("Handler", ""):
            return mapping
    return None


def _check_mapping(check: str, mapping: AwsDescription | None) -> Finding:
    if mapping is None:
        return failed(check, "no function is fed from it", _DEPLOY)
    fix = f"aws lambda update-event-source-mapping --uuid {mapping['UUID']} --enabled"
    state = mapping["State"]
    if state in {"Disabled", "Disabling"}:
        return failed(check, "its function is not fed: the mapping is off", fix)
    if state != "Enabled":
        return warned(check, f"its mapping is {state}", "look again in a minute")
    if _PARTIAL not in mapping.get("FunctionResponseTypes", []):
        return failed(check, "one bad message brings its whole batch back", _DEPLOY)
    return passed(check, "feeds its function")
