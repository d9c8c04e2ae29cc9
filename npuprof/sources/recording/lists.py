"""Files of lists that npuprof writes into a recording: Parquet with one row, and journals with a JSON object a line."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from npuprof.errors import SourceError
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted

_MAX_BYTES = 1 << 30


def read(path: Path, kinds: Mapping[str, str], newer: Collection[str] = ()) -> dict[str, Any]:
    """Read the lists in the file's single row: arrays of integers, and lists of strings."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    expected = {name: pa.list_(pa.type_for_alias(kind)) for name, kind in kinds.items()}
    try:
        with path.open("rb") as stream, pq.ParquetFile(stream) as file:  # Arrow accepts only UTF-8 paths
            schema, metadata = file.schema_arrow, file.metadata
            absent = {name for name in newer if name not in schema.names}
            for name, kind in expected.items():
                if name in absent:
                    continue
                if name not in schema.names or schema.field(name).type != kind:
                    raise damage_error(path, f"has no column {name} of type {kind}")
            size_bytes = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
            if metadata.num_rows != 1 or size_bytes > _MAX_BYTES:
                raise damage_error(
                    path,
                    f"has {counted(metadata.num_rows, 'row')} of {size_bytes:,} bytes, not 1 of at most {_MAX_BYTES:,}",
                )
            table = file.read(columns=[name for name in expected if name not in absent]).combine_chunks()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:  # the last part of a column's name
        raise damage_error(path, f"cannot be read ({error})") from error
    columns = {name: table.column(name).combine_chunks().flatten() for name in table.column_names}
    if broken := [name for name, values in columns.items() if values.null_count]:
        raise damage_error(path, f"lacks values in {', '.join(broken)}")
    try:
        return arrays({name: [] for name in absent}, kinds, path) | {
            name: values.to_pylist() if kinds[name] == "string" else values.to_numpy().astype(np.int64)
            for name, values in columns.items()
        }
    except UnicodeDecodeError as error:
        raise damage_error(path, f"has a text that is no UTF-8 ({error.reason})") from error


def read_journal(path: Path, kinds: Mapping[str, str], notes: Notes, source: str) -> dict[str, Any]:
    """Concatenate the lists of all lines of a journal; each line continues the lists of those before.

    Lists of numbers may be packed: the base64 of their bytes.
    """
    fields: list[Any] = [
        (name, list[str] if kind == "string" else list[int] | str, msgspec.field(default_factory=list))
        for name, kind in kinds.items()
    ]
    decode = msgspec.json.Decoder(msgspec.defstruct("Line", fields)).decode
    try:
        with path.open("rb") as file:
            lines = file.read(_MAX_BYTES).splitlines()
    except OSError as error:
        raise damage_error(path, f"cannot be read ({error})") from error
    parts = []
    for line in lines:
        try:
            line_lists = decode(line)
            parts.append({name: _unpacked(getattr(line_lists, name)) for name in kinds})
        except (msgspec.DecodeError, ValueError, RecursionError):  # no UTF-8, no base64
            notes.warning(
                source, "rows after a damaged line cannot be separated, and are left out", len(lines) - len(parts)
            )
            break
    joined = {name: list(chain.from_iterable(part[name] for part in parts)) for name in kinds}
    return arrays(joined, kinds, path)


def _unpacked(column: list[Any] | str) -> list[Any]:
    return np.frombuffer(b64decode(column, validate=True), "<i8").tolist() if isinstance(column, str) else column


def arrays(columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str], path: Path) -> dict[str, Any]:
    """Return the columns as :func:`read` does, from lists."""
    try:
        return {
            name: values if kinds[name] == "string" else np.array(values, np.int64) for name, values in columns.items()
        }
    except OverflowError as error:
        raise damage_error(path, "has numbers of more than 64 bits") from error


def damage_error(path: Path, reason: str) -> SourceError:
    """Return the error for a damaged file."""
    return SourceError(f"{path} {reason}: it is damaged or was not written by npuprof; record again")
