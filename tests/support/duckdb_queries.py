"""The DuckDB queries of docs/archive.md, over objects of the history in a folder."""

from contextlib import chdir
from pathlib import Path
from typing import Any

import duckdb

from tests.docs.pages import page

ARCHIVE = page("docs/archive.md")


def sql_blocks(section: str) -> list[str]:
    _, _, after = ARCHIVE.text.partition(f"\n## {section}\n")
    text = after.partition("\n## ")[0]
    return [
        block.text for block in ARCHIVE.blocks() if block.language == "sql" and block.text in text
    ]


def query(folder: Path, *, index: int, **replacements: str) -> list[dict[str, Any]]:
    """Run the page's view and then one of its queries. `instead` replaces values."""
    view, *queries = sql_blocks("Query with DuckDB")
    asked = queries[index]
    for old, new in replacements.items():
        assert old in asked
        asked = asked.replace(old, new)
    with chdir(folder), duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(view)
        found = connection.execute(asked)
        columns = [column[0] for column in found.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]


def download(client: Any, bucket: str, folder: Path) -> None:  # noqa: ANN401  # boto3's client
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="history/day=")
    for found in pages:
        for one in found.get("Contents", []):
            path = folder / one["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(client.get_object(Bucket=bucket, Key=one["Key"])["Body"].read())


ORDER_QUERY, OPERATOR_QUERY, ENDED_QUERY = range(3)
