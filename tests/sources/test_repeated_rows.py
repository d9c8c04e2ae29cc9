"""A file that was merged with itself doubles sums: no row is missing, and a warning tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import npuprof
from tests.sources.msprof.results import STAMP, SUMMARY_HEAD, csv, kernel
from tests.sources.trace.maker import HOST, NPU, TraceMaker

_ROWS = 30


def _trace(path: Path, times: int) -> Path:
    maker = TraceMaker()
    maker.process(NPU, "Ascend Hardware", "NPU 0", 13)
    maker.process(HOST, "CANN", "CPU")
    for row in range(_ROWS):
        maker.slice(HOST, 1, f"launch{row % 3}", 5 * row, 2, **{"Thread Id": 1, "level": "node", "connection_id": row})
        maker.slice(NPU, 2, f"Add{row % 3}", 5 * row + 3, 4, **{"Task Type": "AI_CORE", "Task Id": row, "Stream Id": 2})
    path.write_text(json.dumps([event for event in maker.events for _ in range(times)]))
    return path


def _told(path: Path) -> dict[str, int]:
    notes = npuprof.load(path).notes
    told = notes[notes["message"].str.contains("occurs more than once: a file was merged with itself")]
    assert (told["severity"] == "warning").all()
    return dict(zip(told["source"], told["count"].tolist(), strict=True))


@pytest.mark.slow
def test_events_that_are_there_twice_in_one_list_are_reported(tmp_path: Path) -> None:
    assert not _told(_trace(tmp_path / "trace_view.json", 1))
    told = _told(_trace(tmp_path / "trace_view.json", 2))
    assert told["tasks"] == told["api"] == _ROWS


@pytest.mark.slow
def test_rows_of_a_csv_that_are_there_twice_without_a_second_header_are_reported(tmp_path: Path) -> None:
    rows = [kernel(f"Add{row % 3}", 100 + 20 * row, 10, task=row) for row in range(_ROWS)]
    path = tmp_path / f"op_summary_{STAMP}.csv"
    assert not _told(csv(path, SUMMARY_HEAD, rows))
    assert _told(csv(path, SUMMARY_HEAD, [*rows, *rows]))["kernels"] == _ROWS


@pytest.mark.slow
def test_kernels_that_are_alike_and_run_one_after_another_are_no_repetition(tmp_path: Path) -> None:
    rows = [kernel("Add", 100 + 20 * row, 10) for row in range(_ROWS)]
    assert not _told(csv(tmp_path / f"op_summary_{STAMP}.csv", SUMMARY_HEAD, rows))


def test_a_table_of_few_rows_is_a_repetition_only_if_no_row_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / f"op_summary_{STAMP}.csv"
    rows = [kernel("Add", 100, 10), kernel("Mul", 120, 10)]
    assert _told(csv(path, SUMMARY_HEAD, [*rows, *rows])) == {"kernels": 2}
    assert not _told(csv(path, SUMMARY_HEAD, [*rows, rows[0]]))
