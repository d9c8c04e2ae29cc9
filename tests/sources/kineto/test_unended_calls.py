"""Python calls whose return is missing: torch ends them with the recording, and they hold what others called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import npuprof
from tests.sources.kineto.traces import KinetoTrace

_MAIN, _STEP, _LOST, _LATER = "main.py(1): main", "main.py(10): step", "main.py(20): lost", "main.py(30): later"


def _trace(path: Path, calls: Sequence[tuple[str, float, float, int, int]]) -> npuprof.Profile:
    """Write Python calls (name, start, duration, id, id of the caller) with an operator in the last of them."""
    trace = KinetoTrace()
    for name, at, lasting, id_, parent in calls:
        trace.slice("python_function", name, at, lasting, Python_id=id_, Python_parent_id=parent or None)
    for number, at in enumerate((12, 62)):
        trace.operator(f"aten::op{number}", at, 2, number + 1)
    return npuprof.load(trace.write(path / "t.pt.trace.json"))


@pytest.mark.parametrize(
    ("calls", "kept"),
    [
        pytest.param(  # the lost call outlives its caller
            [(_MAIN, 0, 100, 1, 0), (_STEP, 10, 20, 2, 1), (_LOST, 11, 89, 3, 2), (_LATER, 60, 10, 4, 1)],
            {_LOST: (19, _STEP), _LATER: (10, _MAIN)},
            id="outlives-caller",
        ),
        pytest.param(  # and is the recorded caller of what came later
            [(_MAIN, 0, 100, 1, 0), (_STEP, 10, 20, 2, 1), (_LOST, 11, 89, 3, 2), (_LATER, 60, 10, 4, 3)],
            {_LOST: (19, _STEP), _LATER: (10, _MAIN)},
            id="adopts-later-calls",
        ),
        pytest.param(  # it overlaps the next call of its caller
            [(_MAIN, 0, 100, 1, 0), (_LOST, 11, 89, 3, 1), (_LATER, 60, 10, 4, 1)],
            {_LOST: (49, _MAIN), _LATER: (10, _MAIN)},
            id="overlaps-next-call",
        ),
        pytest.param(  # two are lost, one in the other
            [(_MAIN, 0, 100, 1, 0), (_STEP, 10, 90, 2, 1), (_LOST, 11, 89, 3, 2), (_LATER, 60, 10, 4, 1)],
            {_STEP: (50, _MAIN), _LOST: (49, _STEP), _LATER: (10, _MAIN)},
            id="two-lost",
        ),
    ],
)
def test_ends_calls_without_return(
    tmp_path: Path, calls: list[tuple[str, float, float, int, int]], kept: dict[str, tuple[int, str]]
) -> None:
    run = _trace(tmp_path, calls)
    python = run.python.set_index("name")
    names = dict(zip(run.python["id"], run.python["name"], strict=True))
    for name, (lasting, caller) in kept.items():
        assert (python["duration_ns"][name], names[python["parent_id"][name]]) == (lasting * 1000, caller)
    assert _LOST not in run.operators["stack"].iloc[1]
    assert _LATER in run.operators["stack"].iloc[1]
    assert run.notes["message"].str.contains("no return").sum() == 1


def test_keeps_rounded_nesting(tmp_path: Path) -> None:
    calls = [(_MAIN, 0, 100, 1, 0), (_STEP, 10, 20, 2, 1), (_LOST, 11, 20, 3, 2), (_LATER, 30, 71, 4, 1)]
    run = _trace(tmp_path, calls)
    assert run.python["duration_ns"].tolist() == [100_000, 20_000, 20_000, 71_000]
    assert not run.notes["message"].str.contains("no return").any()
