"""What `--output DIR` writes: tables (`verify.diff_tables`) and the HTML page.

Tables are Parquet if pyarrow is installed, otherwise JSON lines with the same columns.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kmirror.common.errors import KmirrorError
from kmirror.verify.cluster_prints import KnownPrints
from kmirror.verify.diff_tables import (
    CHUNKS,
    DIFFERENCES,
    PARTITIONS,
    SEGMENTS,
    Columns,
    PrintedLog,
    Table,
    chunk_columns,
    difference_columns,
    known_prints,
    partition_columns,
    segment_columns,
)
from kmirror.verify.verdict import PartitionVerdict

PAGE_NAME: Final = "report.html"


def has_parquet() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def write_tables(folder: str, verdicts: Sequence[PartitionVerdict], printed: Sequence[PrintedLog]) -> None:
    """Write all tables to `folder`; KmirrorError or OSError if it cannot be written."""
    write_table_files(
        folder,
        {
            PARTITIONS: partition_columns(verdicts, printed),
            DIFFERENCES: difference_columns(verdicts),
            CHUNKS: chunk_columns(printed),
            SEGMENTS: segment_columns(printed),
        },
    )


def write_table_files(folder: str, tables: Mapping[Table, Columns]) -> None:
    """Write one file per table, and replace earlier ones."""
    if has_parquet():
        from kmirror.spark.tables import write_parquet

        write_parquet(folder, tables)
        return
    if "://" in folder:
        raise KmirrorError(f"{folder} is remote, and writing that needs pyarrow; install kmirror[spark]")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for table, columns in tables.items():
        _write_lines(Path(folder) / f"{table.name}.jsonl", table, columns)


def write_pages(file: Path | None, folder: str | None, page: Callable[[], str]) -> None:
    """Write the HTML report to `file`, and as `report.html` to `folder`, if they are given.

    `folder` is that of --output and exists.
    """
    if file is None and folder is None:
        return
    data = page().encode(errors="backslashreplace")  # file names may be invalid text
    if file is not None:
        file.write_bytes(data)
    if folder is not None and "://" in folder:
        from kmirror.spark.tables import write_file

        write_file(folder, PAGE_NAME, data)
    elif folder is not None:
        new = Path(folder) / f"{PAGE_NAME}.new"
        new.write_bytes(data)
        os.replace(new, Path(folder) / PAGE_NAME)


def read_known(folder: str) -> KnownPrints:
    """Returns what the previous run knew of the segments.

    Empty if there was none, or if its tables make no sense.
    """
    try:
        tables = read_table_files(folder, (SEGMENTS, CHUNKS))
        return known_prints(tables[SEGMENTS], tables[CHUNKS]) if tables is not None else {}
    except (KeyError, ValueError, TypeError, IndexError):
        return {}  # not ours, or half written: read everything


def read_table_files(folder: str, tables: Sequence[Table]) -> dict[Table, Columns] | None:
    """Returns what `write_table_files` wrote; None if a table is missing."""
    if has_parquet():
        from kmirror.spark.tables import read_parquet

        found = read_parquet(folder, tables)
        if found is not None:
            return found
    paths = [Path(folder) / f"{table.name}.jsonl" for table in tables]
    if "://" in folder or not all(path.is_file() for path in paths):
        return None
    return {table: _read_lines(path, table) for table, path in zip(tables, paths)}


def _write_lines(path: Path, table: Table, columns: Columns) -> None:
    names = [column.name for column in table.columns]
    values = [_plain(columns[name]) for name in names]
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        for row in zip(*values):
            file.write(json.dumps(dict(zip(names, row))) + "\n")
    os.replace(new, path)


def _plain(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values


def _read_lines(path: Path, table: Table) -> Columns:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {column.name: [row[column.name] for row in rows] for column in table.columns}
