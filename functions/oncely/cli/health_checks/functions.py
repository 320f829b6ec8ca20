"""Checks that functions run, receive events, and have enough time and concurrency."""

from collections.abc import Iterator
from typing import Final

from oncely.cli.health_checks.deployed import AwsDescription, DeployedStack
from oncely.plugins.health import Finding, failed, passed, warned

# The queue workers have their own limits. This is for the reconciler, which resolves 10 jobs
# concurrently, the stream, the schedule and the admin page.
OTHER_FUNCTIONS_CONCURRENCY: Final = 20
_DEPLOY: Final = "deploy the stack again"
_PARTIAL_FAILURES: Final = "ReportBatchItemFailures"
# The readers of the job table's stream, by a part of their handler's name.
_STREAM_READERS: Final = {"publisher": "publish_ended", "history": "archive_history"}


def check_functions(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the state of each function."""
    healthy = 0
    for function in deployed.functions:
        faults = list(_check_function(deployed, function))
        yield from faults
        healthy += not faults
    yield passed("functions", f"{healthy} of {len(deployed.functions)} are active")


def _check_function(deployed: DeployedStack, function: AwsDescription) -> Iterator[Finding]:
    name = str(function["FunctionName"])
    check = f"function {name}"
    states = (function.get("State", "Active"), function.get("LastUpdateStatus", "Successful"))
    # Lambda makes a function inactive after weeks without a call. The next call activates it.
    if states[0] not in {"Active", "Inactive"} or states[1] != "Successful":
        reason = function.get("StateReason") or function.get("LastUpdateStatusReason") or states
        yield failed(check, f"not running: {reason}", _DEPLOY)
    found = deployed.connection.client("lambda").get_function_concurrency(FunctionName=name)
    if found.get("ReservedConcurrentExecutions") == 0:
        yield failed(
            check,
            "reserved concurrency is 0, so it never runs",
            f"aws lambda delete-function-concurrency --function-name {name}",
        )
    yield from _check_timeout(deployed, function, check)


def _check_timeout(
    deployed: DeployedStack, function: AwsDescription, check: str
) -> Iterator[Finding]:
    queue = function.get("Environment", {}).get("Variables", {}).get("QUEUE_NAME")
    for contract_type in deployed.contracts:
        needed = contract_type.max_duration().total_seconds()
        if contract_type.resources.queue == queue and needed >= int(function["Timeout"]):
            yield failed(
                check,
                f"a {contract_type.job_type} job may take {needed:g} s, but the function times "
                f"out after {function['Timeout']} s",
                _DEPLOY,
            )


def check_event_sources(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the event source mapping of each queue and of the job table's stream."""
    urls = {name: deployed.queue_url(name) for name in deployed.queue_names}
    urls["dead letters"] = deployed.connection.outputs.get("DeadLetterQueueUrl")
    urls["rejects"] = deployed.connection.outputs.get("RejectsQueueUrl")
    urls["gaps"] = deployed.connection.outputs.get("GapsQueueUrl")
    for name, url in urls.items():
        if url is not None:
            yield _check_mapping(
                f"event source {name}", deployed.mapping_for(deployed.queue(url)["QueueArn"])
            )
    for name, handler in _STREAM_READERS.items():
        yield _check_mapping(f"event source stream, {name}", _stream_mapping(deployed, handler))


def _stream_mapping(deployed: DeployedStack, handler: str) -> AwsDescription | None:
    for mapping in deployed.event_source_mappings:
        name = (deployed.function_for(mapping) or {}).get("Handler", "")
        if "/stream/" in mapping.get("EventSourceArn", "") and handler in name:
            return mapping
    return None


def _check_mapping(check: str, mapping: AwsDescription | None) -> Finding:
    if mapping is None:
        return failed(check, "has no event source mapping", _DEPLOY)
    fix = f"aws lambda update-event-source-mapping --uuid {mapping['UUID']} --enabled"
    state = mapping["State"]
    if state in {"Disabled", "Disabling"}:
        return failed(check, "event source mapping is disabled", fix)
    if state != "Enabled":
        return warned(check, f"event source mapping is {state}", "check again in a minute")
    if _PARTIAL_FAILURES not in mapping.get("FunctionResponseTypes", []):
        return failed(
            check, f"{_PARTIAL_FAILURES} is off: one failure redelivers the whole batch", _DEPLOY
        )
    return passed(check, "event source mapping is enabled")


def check_concurrency(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the account's concurrency limit, which is often 10 in a new account."""
    if deployed.connection.is_local:
        return
    check = "concurrency"
    limits = deployed.connection.client("lambda").get_account_settings()["AccountLimit"]
    limit = int(limits["ConcurrentExecutions"])
    scaling = (one.get("ScalingConfig", {}) for one in deployed.event_source_mappings)
    workers = sum(one.get("MaximumConcurrency", 0) for one in scaling)
    needed = workers + OTHER_FUNCTIONS_CONCURRENCY
    if limit >= needed:
        yield passed(check, f"the account limit is {limit:,}")
        return
    yield warned(
        check,
        f"the account limit is {limit}, but this stack may need {needed}: under load, functions "
        "are throttled and messages are delayed or dead-lettered",
        # AWS's code for the quota "Concurrent executions".
        "aws service-quotas request-service-quota-increase --service-code lambda "
        "--quota-code L-B99A9384 --desired-value 1000",
    )
