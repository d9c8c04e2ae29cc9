"""The ranges by which torch_npu records operations become a column of ``operators``."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.sources.framework.correlation import add_flops
from npuprof.tables.notes import Notes
from tests.sources.trace.maker import CANN, small_trace


def operators(*rows: tuple[str, int, int, int, str]) -> pd.DataFrame:
    """Build the table from name, start, end, thread and kind."""
    frame = pd.DataFrame(rows, columns=["name", "start_ns", "end_ns", "thread_id", "kind"])
    frame["duration_ns"] = frame["end_ns"] - frame["start_ns"]
    frame["id"] = range(len(frame))
    return tables.build("operators", {name: frame[name] for name in frame if name != "end_ns"})


def marks(*rows: tuple[str, int, int, int, str]) -> pd.DataFrame:
    """Build the table from message, start, end, thread and domain."""
    frame = pd.DataFrame(rows, columns=["message", "start_ns", "end_ns", "thread_id", "domain"])
    frame["duration_ns"] = frame["end_ns"] - frame["start_ns"]
    return tables.build("marks", {name: frame[name] for name in frame if name != "end_ns"})


def test_range_belongs_to_its_outermost_operator() -> None:
    frames = {
        "operators": operators(
            ("around", 0, 1000, 1, "op"),
            ("aten::empty", 105, 110, 1, "op"),  # before, and shorter
            ("aten::linear", 120, 180, 1, "op"),
            ("aten::addmm", 120, 180, 1, "op"),
            ("queued", 130, 190, 1, "enqueue"),
            ("elsewhere", 120, 195, 2, "op"),
            ("aten::mm", 300, 350, 1, "op"),
            ("later", 340, 420, 1, "op"),  # ends after the range
            ("aten::bmm", 500, 510, 2, "op"),
        ),
        "marks": marks(
            ("1024-linear", 100, 200, 1, "mfu_flops"),
            ("576460752303423489-mm", 300, 400, 1, "mfu_flops"),
            ("0-bmm", 500, 510, 2, "mfu_flops"),
            ("77-linear", 340, 420, 1, "default"),
        ),
    }
    notes = Notes()
    add_flops(frames, notes)
    flops = frames["operators"].set_index("name")["flops"].dropna()
    assert flops.to_dict() == {"aten::linear": 1024, "aten::mm": 576460752303423489, "aten::bmm": 0}
    assert not len(notes)


def test_ranges_without_a_figure_or_an_operator_are_counted() -> None:
    frames = {
        "operators": operators(("aten::mm", 300, 350, 1, "op")),
        "marks": marks(*((text, 0, 10, 1, "mfu_flops") for text in ("5-mm", "6-mm", "linear", f"{10**30}-mm"))),
    }
    notes = Notes()
    add_flops(frames, notes)
    assert frames["operators"]["flops"].isna().all()
    told = notes.to_frame()
    assert told["severity"].tolist() == ["warning", "warning"]
    assert told["count"].tolist() == [2, 2]
    assert len(frames["marks"]) == 4


def test_a_run_without_such_ranges_has_no_column() -> None:
    frames = {"operators": operators(("aten::mm", 0, 9, 1, "op")), "marks": marks(("epoch", 0, 9, 1, "default"))}
    add_flops(frames, Notes())
    assert "flops" not in frames["operators"]


@pytest.mark.slow
@pytest.mark.parametrize("steps", [None, 7])
def test_a_result_of_torch_npu_has_the_column(tmp_path: Path, steps: int | None) -> None:
    maker = small_trace()
    maker.process(CANN + 1, "MsTx", "CPU", 11)
    of_range = {"event_type": "start/end", "domain": "mfu_flops", "Category": 4294967295}
    maker.slice(CANN + 1, 1, "36-mm", 9, 45, **of_range)
    output = tmp_path / "host_1_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    maker.write(output / "trace_view.json")
    run = npuprof.load(output.parent, steps=steps)
    assert run.operators.set_index("name")["flops"].dropna().to_dict() == {"aten::mm": 36}
    assert run.marks["message"].tolist() == ["36-mm"]
