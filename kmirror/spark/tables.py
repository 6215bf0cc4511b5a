"""Tables as Parquet files: one file per table, small enough for one machine (verdicts and
fingerprints, never records)."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from kmirror.verify.diff_tables import Columns, Table

SUFFIX = ".parquet"


def write_parquet(folder: str, tables: Mapping[Table, Columns]) -> None:
    """Writes tables to `folder` (a path or a URI), which is created if needed. Files of earlier
    runs are replaced, each atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files, path = _open(folder)
    files.create_dir(path, recursive=True)
    types = {"int64": pa.int64(), "int32": pa.int32(), "string": pa.string(), "bool": pa.bool_(), "double": pa.float64()}
    for table, columns in tables.items():
        schema = pa.schema([pa.field(one.name, types[one.type], metadata={"meaning": one.meaning}) for one in table.columns])
        arrays = [pa.array(columns[one.name], type=types[one.type]) for one in table.columns]
        name = posixpath.join(path, table.name + SUFFIX)
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), f"{name}.new", filesystem=files, compression="zstd")
        files.move(f"{name}.new", name)


def write_file(folder: str, name: str, data: bytes) -> None:
    """Writes a file of any content atomically into an existing folder (a path or a URI)."""
    files, path = _open(folder)
    target = posixpath.join(path, name)
    with files.open_output_stream(f"{target}.new") as stream:
        stream.write(data)
    files.move(f"{target}.new", target)


def _open(folder: str) -> tuple[Any, str]:
    """Returns (pyarrow's file system, the path on it)."""
    from pyarrow.fs import FileSystem

    return FileSystem.from_uri(folder) if "://" in folder else (FileSystem.from_uri("file:///")[0], folder)


def read_parquet(folder: str, tables: Sequence[Table]) -> dict[Table, Columns] | None:
    """Returns what an earlier run wrote; None if a table is missing."""
    import pyarrow.parquet as pq
    from pyarrow.fs import FileType

    files, path = _open(folder)
    names = [posixpath.join(path, table.name + SUFFIX) for table in tables]
    if any(files.get_file_info(name).type is not FileType.File for name in names):
        return None
    found: dict[Table, Columns] = {}
    for table, name in zip(tables, names):
        read = pq.read_table(name, filesystem=files)
        found[table] = {one.name: _values(read.column(one.name), one.type) for one in table.columns if one.name in read.column_names}
    return found


def _values(column: Any, kind: str) -> Any:
    return column.to_numpy() if kind == "int64" and not column.null_count else column.to_pylist()
