"""The bucket of the archive on any S3, and a hook before its requests."""

from collections.abc import Callable, Mapping
from typing import Any

from oncely.aws.objects import S3Objects
from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.memory_aws.calls import perform_directly
from oncely.testing.memory_aws.services import MemoryBucket
from tests.support.erasing import new_bucket, object_versions

Hook = Callable[[Mapping[str, Any]], None]


class ArchiveHarness:
    """A new bucket: of the account in memory, or of an engine if there is no account."""

    def __init__(self, client: Any, account: MemoryAws | None = None) -> None:  # noqa: ANN401  # boto3's
        self.client = client
        self.account = account
        self.name = self.new(versioned=True)

    def new(self, *, versioned: bool) -> str:
        if self.account is None:
            return new_bucket(self.client, versioned=versioned)
        name = f"archive-{len(self.account.s3.buckets)}"
        self.account.s3.buckets[name] = MemoryBucket(versioned=versioned)
        return name

    @property
    def objects(self) -> S3Objects:
        return S3Objects(self.client, self.name)

    def texts(self) -> list[str]:
        return [text for _, text in object_versions(self.client, self.name)]

    def set_hook(self, operation: str, hook: Hook | None) -> None:
        """Call the hook with the arguments of each call. None removes it."""
        if self.account is not None:

            def intercept(call: Any, perform: Any) -> Any:  # noqa: ANN401  # of any call
                if hook is not None and call.operation == operation:
                    hook(call.request)
                return perform()

            self.account.intercept = intercept if hook is not None else perform_directly
            return
        event, unique = f"before-parameter-build.s3.{operation.title().replace('_', '')}", "hook"
        events = self.client.meta.events
        if hook is None:
            events.unregister(event, unique_id=unique)
            return
        wanted = hook

        def before(params: Mapping[str, Any], **_: object) -> None:
            wanted(params)

        events.register(event, before, unique_id=unique)
