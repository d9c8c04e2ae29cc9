"""Read ``minddata_pipeline_summary_*``: MindSpore's sums of its data pipeline, as JSON or as CSV.

Both hold named lists: some have a value per operator of the pipeline, the rest are totals and findings of the vendor.
The CSV has no header, and its rows differ in length.

Source: sources/RESULTS.md section 1.2.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from npuprof.errors import SourceError
from npuprof.sources.files.gzip_file import read_head, read_whole
from npuprof.sources.text.csv_table import note_damage
from npuprof.tables.ledger import STATISTICS
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted
from npuprof.words.texts import repaired_json

NAME = "minddata_pipeline_summary"
_OPERATORS = "pipeline_ops"
_OF_OPERATORS = (
    "op_ids",
    "op_names",
    _OPERATORS,
    "num_workers",
    "queue_average_size",
    "queue_utilization_pct",
    "queue_empty_freq_pct",
    "children_ids",
    "parent_id",
    "avg_cpu_pct",
    "avg_cpu_pct_per_worker",
)
_ONLY_WITH_CPU = ("avg_cpu_pct", "avg_cpu_pct_per_worker")  # only if the run sampled the CPU
_TEXTS = ("op_names", _OPERATORS, "children_ids")
_MAX_BYTES = 64 << 20
_HEAD_BYTES = 1 << 12


def holds_pipeline(path: Path) -> bool:
    """Check by its first bytes whether a file is such a summary."""
    head = read_head(path, _HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith((b"op_ids,", b'{"op_ids"', b'{\n    "op_ids"')) or (
        head.startswith(b"{") and b'"op_ids"' in head and b'"pipeline_ops"' in head
    )


def read_pipeline_summary(path: Path, notes: Notes) -> dict[str, pd.DataFrame]:
    """Read the file; the ledger counts operators and findings.

    Returns
    -------
    ``minddata_pipeline_summary``: a row for each operator of the pipeline;
    ``minddata_pipeline_findings``: `key` and `value` of everything else, as text.
    """
    lists = _load(path, notes)
    count = len(lists.get(_OPERATORS, ()))
    if not count:
        raise SourceError(f"{path} lists no operator of a data pipeline; is it another file?")
    columns = {name: _column(name, lists[name]) for name in _OF_OPERATORS if len(lists.get(name, ())) == count}
    for name in _OF_OPERATORS:
        values = lists.get(name, ())
        unreadable = 0 if name in _TEXTS else _count_no_numbers(values)
        if name not in columns and (values or name not in _ONLY_WITH_CPU):
            notes.warning(
                path.name,
                f"{name!r} has {counted(len(values), 'value')} for {counted(count, 'operator')}; kept as findings",
            )
        elif unreadable:
            notes.warning(path.name, f"{name!r}: a value is no number", unreadable)
    findings = [(key, str(value)) for key, values in lists.items() if key not in columns for value in values]
    notes.ledger.read(path.name, count + len(findings))
    notes.ledger.keep(path.name, STATISTICS, count + len(findings))
    return {
        NAME: pd.DataFrame(columns),
        "minddata_pipeline_findings": pd.DataFrame(findings, columns=["key", "value"], dtype=object),
    }


def _count_no_numbers(values: Sequence[Any]) -> int:
    """Count values that are neither numbers nor absent."""
    is_known = pd.to_numeric(pd.Series(values, dtype=object), errors="coerce").notna()
    return sum(value not in (None, "None") for value, is_number in zip(values, is_known, strict=True) if not is_number)


def _column(name: str, values: list[Any]) -> Any:
    if name in _TEXTS:
        return pd.array([str(value) for value in values], dtype=object)
    numbers = pd.to_numeric(pd.Series(values, dtype=object), errors="coerce").astype("float64")
    return numbers.mask(numbers == -1) if name != "parent_id" else numbers  # -1: not measured


def _load(path: Path, notes: Notes) -> dict[str, list[Any]]:
    try:
        content, problem = read_whole(path, _MAX_BYTES)
        if problem:
            notes.warning(path.name, problem)
        if not content.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"{"):
            note_damage(path, notes, content)
        text = content.decode("utf-8-sig", "replace")
        plain = msgspec.json.decode(repaired_json(text.encode())) if text.lstrip().startswith("{") else _rows(text)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}; check the file and its rights") from error
    except (msgspec.DecodeError, UnicodeDecodeError, csv.Error, RecursionError) as error:
        raise SourceError(f"{path} is damaged: {problem or error}; analyse the result again") from error
    return {str(key): value if isinstance(value, list) else [value] for key, value in plain.items()}


def _rows(text: str) -> dict[str, list[Any]]:
    lines = csv.reader(io.StringIO(text.replace("\0", ""), newline=""))
    return {row[0]: list(row[1:]) for row in lines if row}
