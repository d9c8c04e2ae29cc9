"""The parts of iterations are a frame of their own, and not lost among slices of unknown kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuprof
from tests.sources.msprof.results import STAMP, device_trace
from tests.sources.trace.maker import NPU, ns

PARTS = [
    ("FP_BP 4", 91, 50, "FP_BP Time"),
    ("Iteration Refresh 4", 95, 20, "Iteration Refresh"),
    ("Reduce_4_0", 93, 7, "Reduce"),
]
EXPECTED = [
    ["fp_bp", "FP_BP 4", ns(91), 50_000],
    ["reduce", "Reduce_4_0", ns(93), 7000],
    ["refresh", "Iteration Refresh 4", ns(95), 20_000],
]


@pytest.mark.slow
def test_parts_of_iterations_are_kept_whichever_way_the_timeline_is_given(tmp_path: Path) -> None:
    maker = device_trace()
    for name, start, duration, category in PARTS * 2:  # old files repeat them
        maker.slice(NPU, 70007, name, start, duration, category, **{"Iteration ID": 4})
    output = tmp_path / "PROF_1" / "mindstudio_profiler_output"
    output.mkdir(parents=True)
    for path in (tmp_path / "PROF_1", maker.write(output / f"msprof_{STAMP}.json")):
        maker.write(output / f"msprof_{STAMP}.json")
        run = npuprof.load(path)
        assert run.statistics["iteration_parts"].to_numpy().tolist() == EXPECTED
        assert run.steps["step"].tolist() == [4]
        assert not run.notes["message"].str.contains("belongs to no table").any()


def test_a_timeline_without_iterations_has_no_such_frame(tmp_path: Path) -> None:
    assert "iteration_parts" not in npuprof.load(device_trace().write(tmp_path / "trace.json")).statistics
