"""Checks that business tables, and a sample of their rows, are as the jobs expect."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from oncely.cli.health_checks.deployed import AwsDescription, DeployedStack
from oncely.contracts.settings import pascal_case
from oncely.contracts.table_schema import Column, ColumnType, IndexSchema, KeySchema, TableSchema
from oncely.plugins.health import Finding, failed, passed, warned

# Samples: a business table may have millions of rows.
MAX_ROWS: Final = 5_000
_PAGE_SIZE: Final = 1_000
_MAX_SHOWN: Final = 3
_NULL: Final = "NULL"
_MAP: Final = "correct it, or map the columns in the stage's file; see docs/tables.md"


def check_keys(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the keys and indexes of business tables, including those of other teams."""
    client = deployed.connection.client("dynamodb")
    for name, (table, schema) in _tables(deployed).items():
        described = client.describe_table(TableName=table)["Table"]
        check = f"keys of {name}"
        if faults := list(_key_faults(schema, deployed.columns(name), described)):
            yield failed(check, "; ".join(faults), _MAP)
        else:
            yield passed(check, "matches what the jobs expect")


def check_columns(deployed: DeployedStack) -> Iterator[Finding]:
    """Check a sample of the rows for the columns that the jobs read."""
    client = deployed.connection.client("dynamodb")
    for name, (table, schema) in _tables(deployed).items():
        if not schema.columns:
            continue
        columns = deployed.columns(name)
        names = {f"#{n}": columns.get(c.name, c.name) for n, c in enumerate(schema.columns)}
        rows: list[AwsDescription] = client.scan(
            TableName=table,
            Limit=_PAGE_SIZE,
            ProjectionExpression=", ".join(names),
            ExpressionAttributeNames=names,
        )["Items"]
        yield _check_columns(schema, columns, rows)


def check_sparse_indexes(deployed: DeployedStack) -> Iterator[Finding]:
    """Check a sample for rows that an index should contain but cannot.

    A row with the sort key of an index and without its partition key is never found through it.
    """
    for table, schema in _tables(deployed).values():
        for index in schema.indexes:
            if index.key.sort is not None:
                yield _check_sparse_index(deployed, table, schema, index)


def _tables(deployed: DeployedStack) -> dict[str, tuple[str, TableSchema]]:
    outputs = deployed.connection.outputs
    return {
        name: (table, schema)
        for name, schema in deployed.table_schemas.items()
        if (table := outputs.get(f"{pascal_case(name)}TableName"))
    }


def _key_faults(
    schema: TableSchema, columns: Mapping[str, str], described: AwsDescription
) -> Iterator[str]:
    types = {
        one["AttributeName"]: one["AttributeType"] for one in described["AttributeDefinitions"]
    }
    there = {one["IndexName"]: one for one in described.get("GlobalSecondaryIndexes", [])}
    yield from _key_fault("the table", schema.key, columns, described["KeySchema"], types)
    for index in schema.indexes:
        if (found := there.get(index.name)) is None:
            continue  # reported with the table
        part = f"index {index.name}"
        yield from _key_fault(part, index.key, columns, found["KeySchema"], types)
        projection = found["Projection"]
        projected = projection.get("NonKeyAttributes", ())
        left_out = {columns.get(one, one) for one in index.include} - set(projected)
        if left_out and projection["ProjectionType"] != "ALL":
            yield f"{part} does not project {', '.join(sorted(left_out))}"


def _key_fault(
    part: str,
    key: KeySchema,
    columns: Mapping[str, str],
    found: list[Mapping[str, str]],
    types: Mapping[str, str],
) -> Iterator[str]:
    wanted = [columns.get(name, name) for name in key.names]
    actual = [one["AttributeName"] for one in found]
    if actual != wanted:
        yield f"{part} has the key {', '.join(actual)}, but the jobs use {', '.join(wanted)}"
    elif others := [name for name in actual if types[name] != ColumnType.TEXT]:
        yield f"{part} has a key that is not a string: {', '.join(others)}"


def _check_columns(
    schema: TableSchema, columns: Mapping[str, str], rows: list[AwsDescription]
) -> Finding:
    check = f"columns of {schema.name}"
    unusable: list[str] = []
    partly: list[str] = []
    for column in schema.columns:
        name = columns.get(column.name, column.name)
        found = [kind for row in rows if (kind := _type(row.get(name))) is not None]
        wrong = sum(kind != column.type for kind in found)
        if wrong:
            fault = (
                f"{name} is not of type {column.type.label} in {wrong} of {len(rows)} sampled rows"
            )
            (unusable if wrong == len(found) else partly).append(fault)
        elif column.required and rows and not found:
            unusable.append(f"none of {len(rows)} sampled rows has {_label(column, name)}")
    if unusable:
        return failed(check, "; ".join([*unusable, *partly]), _MAP)
    if partly:
        return warned(check, "; ".join(partly), "correct these rows: their jobs need review")
    return passed(check, f"{len(rows)} rows sampled, with every column that the jobs need")


def _type(value: Mapping[str, Any] | None) -> str | None:
    """DynamoDB's type of a value. Returns None if there is none."""
    kind = next(iter(value or {}), None)
    return None if kind == _NULL else kind


def _label(column: Column, name: str) -> str:
    return name if name == column.name else f"{name}, the column for {column.name}"


def _check_sparse_index(
    deployed: DeployedStack, table: str, schema: TableSchema, index: IndexSchema
) -> Finding:
    columns = deployed.columns(schema.name)
    partition, sort, row_key = (
        columns.get(name, name)
        for name in (index.key.partition, index.key.sort or "", schema.key.partition)
    )
    read, found = 0, []
    pages = (
        deployed.connection.client("dynamodb")
        .get_paginator("scan")
        .paginate(
            TableName=table,
            FilterExpression="attribute_exists(#sort) AND attribute_not_exists(#partition)",
            ProjectionExpression="#key",
            ExpressionAttributeNames={"#sort": sort, "#partition": partition, "#key": row_key},
            PaginationConfig={"PageSize": _PAGE_SIZE},
        )
    )
    for page in pages:
        read += page["ScannedCount"]
        found += [row[row_key]["S"] for row in page["Items"]]
        if read >= MAX_ROWS:
            break
    check = f"index {index.name} of {schema.name}"
    if not found:
        return passed(check, f"{read} rows sampled, none has {sort} without {partition}")
    return warned(
        check,
        f"{len(found)} of {read} sampled rows have {sort} without {partition} "
        f"({', '.join(found[:_MAX_SHOWN])}): the reconciler cannot find them if their message "
        "is lost",
        f"set {partition} in the producer too; see docs/send-jobs.md",
    )
