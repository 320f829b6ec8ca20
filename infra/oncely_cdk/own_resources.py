"""A team's own queues and worker functions: what is refused about them, and what they get."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from oncely_cdk.function_code import ARCHITECTURE, PYTHON, CodeLayers
from oncely_cdk.guardrails import lease_seconds, max_run_seconds
from oncely_cdk.job_function import GrantedFunction, refuse_large_environment
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.stages import VISIBILITY_FACTOR, OncelySettings, StageError

# What AWS uses if a template says nothing.
_DEFAULT_TIMEOUT: Final = 3
_DEFAULT_VISIBILITY: Final = 30
_DEFAULT_RETENTION: Final = 4 * 86_400
_AWS_MANAGED_KEY: Final = "alias/aws/sqs"


@dataclass(frozen=True)
class OwnResources:
    """Queues and workers by the names of queues. Raises StageError with one sentence."""

    stage: OncelySettings
    queues: Mapping[str, sqs.IQueue]
    workers: Mapping[str, lambda_.IFunction]

    def check(self, scope: Construct, required: RequiredResources) -> None:
        faults = (fault for name in required.queues for fault in self._faults(name, scope))
        if fault := next(faults, None):
            raise StageError(fault)
        for name in required.queues:
            self._check_times(name, required.for_queue(name))
        for argument, given in {"queues": self.queues, "workers": self.workers}.items():
            paths = [one.node.path for one in given.values()]
            if len(set(paths)) < len(paths):
                raise StageError(
                    f"{argument} has one resource under two names, and a worker runs the jobs of "
                    "one queue: create one for each name"
                )

    def queue(self, name: str) -> sqs.Queue | None:
        queue = self.queues.get(name)
        return queue if isinstance(queue, sqs.Queue) else None

    def worker(self, name: str) -> lambda_.Function | None:
        function = self.workers.get(name)
        return function if isinstance(function, lambda_.Function) else None

    def _faults(self, name: str, scope: Construct) -> Iterator[str]:
        if (queue := self.queues.get(name)) is not None:
            yield from (f"queues has {name}, {fault}" for fault in self._queue_faults(queue, scope))
        if (function := self.workers.get(name)) is not None:
            yield from (f"workers has {name}, {fault}" for fault in _worker_faults(function, scope))

    def _queue_faults(self, queue: sqs.IQueue, scope: Construct) -> Iterator[str]:
        if not _is_of_stack(queue, scope) or not isinstance(queue, sqs.Queue):
            yield (
                "which this stack does not create: Oncely sets its redrive policy, so give an "
                "sqs.Queue of the same stack"
            )
            return
        resource = queue_resource(queue)
        if resource.redrive_policy is not None:
            yield (
                "which has its own dead-letter queue: remove that, because Oncely records each "
                "dead letter in the row of its job"
            )
        if resource.fifo_queue:
            yield "which is a FIFO queue, where a waiting job blocks others: use a standard queue"
        known = resource.kms_master_key_id in {None, _AWS_MANAGED_KEY}
        if not known and queue.encryption_master_key is None:
            yield (
                "whose KMS key is known only to the template, so permission to use it "
                "cannot be granted: pass it as encryption_master_key"
            )
        retention = resource.message_retention_period or _DEFAULT_RETENTION
        if retention > self.stage.queue_retention_days * 86_400:
            yield (
                f"which keeps messages for {retention / 86_400:g} days, longer than the setting "
                f"queue_retention_days ({self.stage.queue_retention_days} days): raise that one, "
                "which the proofs of jobs must outlive"
            )

    def _check_times(self, name: str, required: RequiredResources) -> None:
        queue, function = self.queue(name), self.worker(name)
        if queue is None and function is None:
            return
        timeout: float = self.stage.worker_timeout_seconds
        if function is not None:
            timeout = function.timeout.to_seconds() if function.timeout else _DEFAULT_TIMEOUT
        longest, job_type = max_run_seconds(required.contracts)
        if timeout <= longest:
            raise StageError(
                f"workers has {name} with a timeout of {timeout:g} s, but it must be more than "
                f"{longest:g} s, the longest run of {job_type}"
            )
        visibility: float = self.stage.visibility_timeout_seconds
        owner = f"worker_timeout_seconds gives the queue {name}"
        if queue is not None:
            visibility = queue_resource(queue).visibility_timeout or _DEFAULT_VISIBILITY
            owner = f"queues has {name} with"
        lease = lease_seconds(required.contracts, worker_timeout_seconds=timeout)
        least = max(VISIBILITY_FACTOR * timeout, int(lease) + 1)
        if visibility < least:
            raise StageError(
                f"{owner} a visibility timeout of {visibility:g} s, but it must be at least "
                f"{least:g} s for a worker that may run {timeout:g} s: otherwise a message "
                "reappears while its job still runs"
            )


class OwnFunction(GrantedFunction):
    """A team's function, with the handler `oncely.worker(…)`, Oncely's layers and permissions."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        function: lambda_.Function,
        layers: CodeLayers,
        environment: Mapping[str, str],
        required: RequiredResources,
        sends_to_own_queue: bool,
    ) -> None:
        super().__init__(scope, id_, is_local=layers.stage.is_local)
        self.function = function
        assert isinstance(function.role, iam.Role)  # noqa: S101  # others were refused
        self.role = function.role
        function.add_layers(*layers.for_function(required.providers, imports_jobs=True))
        function.invalidate_version_based_on(layers.digest(required.providers, imports_jobs=True))
        variables = {
            **environment,
            **layers.stamp_env_vars(own_jobs=required.contracts),
            "POWERTOOLS_SERVICE_NAME": Stack.of(self).stack_name,
        }
        for name, value in variables.items():
            function.add_environment(name, value)
        refuse_large_environment(function, variables)
        if sends_to_own_queue:
            resource = function.node.default_child
            assert isinstance(resource, lambda_.CfnFunction)  # noqa: S101  # for the type checker
            resource.recursive_loop = "Allow"


def _worker_faults(function: lambda_.IFunction, scope: Construct) -> Iterator[str]:
    if not _is_of_stack(function, scope) or not isinstance(function, lambda_.Function):
        yield (
            "which this stack does not create: Oncely adds layers and variables, so give a "
            "lambda.Function of the same stack"
        )
        return
    runtime, architecture = function.runtime.name, function.architecture.name
    if (runtime, architecture) != (PYTHON.name, ARCHITECTURE.name):
        yield (
            f"which runs {runtime} on {architecture}, but Oncely's layers are for {PYTHON.name} "
            f"on {ARCHITECTURE.name}: change its runtime and architecture"
        )
    if not isinstance(function.role, iam.Role):
        yield (
            "whose role was imported: Oncely adds permissions, so give it a role that this "
            "stack creates"
        )


def _is_of_stack(resource: IConstruct, scope: Construct) -> bool:
    return Stack.of(resource).node.path == Stack.of(scope).node.path


def queue_resource(queue: sqs.Queue) -> sqs.CfnQueue:
    """Return the resource of the template, for what the queue itself does not show."""
    resource = queue.node.default_child
    assert isinstance(resource, sqs.CfnQueue)  # noqa: S101  # for the type checker
    return resource
