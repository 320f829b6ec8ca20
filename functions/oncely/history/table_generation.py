"""The generation of the job table: its DynamoDB id, which a restored copy does not share."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncely.core.aws_errors import translated

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True)
class TableGenerationReader:
    """Read once per stream: a replacement table has a new stream."""

    client: "DynamoDBClient"
    table: str
    _known: dict[str, str] = field(default_factory=dict)

    def __call__(self, stream_arn: str | None = None) -> str:
        """Return the `TableId` of the table with this stream.

        The records of a stream outlive their table by a day. The table's id is then unknown, so
        the stream's name is returned instead.
        """
        stream = stream_arn or ""
        if stream not in self._known:
            table_id, latest = self._describe()
            is_current = stream_arn is None or stream_arn == latest
            self._known[stream] = table_id if is_current else f"stream-{stream.rpartition('/')[2]}"
        return self._known[stream]

    def _describe(self) -> tuple[str, str | None]:
        check = "that it exists and that dynamodb:DescribeTable is granted"
        with translated("the job table", name=self.table, check=check):
            table = self.client.describe_table(TableName=self.table)["Table"]
        return table["TableId"], table.get("LatestStreamArn")
