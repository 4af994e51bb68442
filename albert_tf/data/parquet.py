"""Reads the rows of Parquet files with pyarrow (extra `parquet`), which is imported on first use."""

from __future__ import annotations

import contextlib
import importlib.util
from typing import Any, Iterator, Sequence

from albert_tf.utils.files import check_is_file, open_binary

_BATCH = 1024  # rows that are made to Python objects at a time
_BUFFER_BYTES = 1 << 20


def read_parquet(path: str, columns: Sequence[str] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file, each with its number (from 1). It is read as the rows are taken, one row group after another.

    Values are texts, numbers, booleans, None, and lists of these. Bytes that are UTF-8, dates, times and decimals
    become texts, as in a CSV file.

    Without `columns`, all are read, and those that cannot become text stay as they are.
    """
    check_is_file(path)
    if importlib.util.find_spec("pyarrow") is None:
        raise ValueError(f"{path}: Parquet files need the package pyarrow, which is not installed: pip install pyarrow")
    import pyarrow
    import pyarrow.parquet

    try:
        # By default, pyarrow would read all row groups ahead.
        with contextlib.closing(open_binary(path)) as file, pyarrow.parquet.ParquetFile(
                file, pre_buffer=False, buffer_size=_BUFFER_BYTES) as table:
            names = table.schema_arrow.names
            for column in columns or ():
                if column not in names:
                    raise ValueError(f"{path}: no column {column!r} among {', '.join(map(repr, names))}")
            number = 0
            for group in range(table.num_row_groups):
                for batch in table.iter_batches(_BATCH, row_groups=[group], columns=columns):
                    arrays = [_readable(values, name, path, columns is None) for name, values
                              in zip(batch.schema.names, batch.columns)]
                    for row in pyarrow.RecordBatch.from_arrays(arrays, batch.schema.names).to_pylist():
                        number += 1
                        yield number, row
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _readable(values: Any, name: str, path: str, is_optional: bool) -> Any:
    """A column as texts or numbers, or lists of them; if it is optional and cannot become text, unchanged."""
    import pyarrow

    try:
        return values.cast(_readable_type(values.type))
    except pyarrow.ArrowException as error:
        if is_optional:
            return values
        raise ValueError(f"{path}: the column {name!r} has the type {values.type}, which cannot become text: {error}"
                         ) from None


def _readable_type(column_type: Any) -> Any:
    """The type itself for texts and numbers, or lists of them; else text."""
    from pyarrow import list_, string, types

    if types.is_dictionary(column_type):
        return _readable_type(column_type.value_type)
    if types.is_list(column_type) or types.is_large_list(column_type) or types.is_fixed_size_list(column_type):
        return list_(_readable_type(column_type.value_type))
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
    return column_type if any(test(column_type) for test in tests) else string()
