"""Files of lists: Parquet with one row, whose columns are lists of integers or texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npuprof.files import atomic


def write(path: Path, columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]) -> None:
    """Write the columns as a private file, atomically."""
    import pyarrow as pa  # imported here, so that starting does not wait for it
    import pyarrow.parquet as pq

    types = {name: pa.list_(pa.type_for_alias(kinds.get(name, "string"))) for name in columns}
    table = pa.table({name: pa.array([values], type=types[name]) for name, values in columns.items()})
    with atomic.replacing(path) as file:
        pq.write_table(table, file, compression="zstd")
