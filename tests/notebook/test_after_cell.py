"""The code of a cell ends before IPython shows its value, its figures or its error: none of that is the user's line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import npuprof
from npuprof import simulator
from npuprof.profiles.profile import Profile
from tests import pace
from tests.notebook.cells import Cells, output

pytestmark = pytest.mark.slow

_SHOWN_S = 0.2
_SETUP = """
import asyncio, time
import numpy as np
from npuprof.simulator import npu
x = npu.ones((64, 64))
class Slow:
    def __repr__(self):
        time.sleep(0.2)
        return str(float(np.sum(np.cos(x))))
class Error(Exception):
    def _render_traceback_(self):
        time.sleep(0.2)
        return ["Error"]
"""
_FIGURES = "get_ipython().events.register('post_execute', draw)"
_DRAW = "def draw():\n    time.sleep(0.2)\n    float(np.sum(np.tan(x)))\n"

# Half a second of device time, of launches alone: no machine is so slow that its code takes longer.
_LONG_WORK = """
from npuprof import simulator
large = simulator.Tensor((16384, 16384), "float16")
for i in range(500):
    simulator.current().device(0).launch("MatMul", inputs=[large, large], outputs=[large])
Slow()
"""

# The code, its kernels, and those that are launched while IPython shows what came of it.
_SHOWS = {
    "figures": ("y = np.sin(x)\nprint(1)", ["Sin"], ["Tan", "ReduceSum"]),
    "a value": ("y = np.sin(x)\nSlow()", ["Sin"], ["Cos", "ReduceSum"]),
    "a value that is awaited": ("async def f():\n    return Slow()\nawait f()", [], ["Cos", "ReduceSum"]),
    "a value of one line": ("Slow()", [], ["Cos", "ReduceSum"]),
    "an assigned value": ("y = np.sin(x)\ny = Slow();", ["Sin"], []),
    "an error": ("y = np.sin(x)\nraise Error", ["Sin"], []),
    "an error in a loop": ("for i in range(3):\n    y = np.sin(x)\n    if i == 2: raise Error", ["Sin"] * 3, []),
    "an awaited error": ("y = np.sin(x)\nawait asyncio.sleep(0)\nraise Error", ["Sin"], []),
    "an interrupt": ("y = np.sin(x)\nclass Stop(KeyboardInterrupt, Error): pass\nraise Stop", ["Sin"], []),
}


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    simulator.reset()
    made = Cells(tmp_path)
    made.run(_SETUP)
    yield made
    made.magics.uninstall()
    simulator.reset()


def _run(cells: Cells, code: str) -> None:
    cells.shell.run_cell(code, store_history=True)


def _by_magic(cells: Cells, code: str, options: str = "") -> Profile:
    _run(cells, f"%%npuprof --collector simulator --no-report {output(cells.folder)} {options}\n{code}")
    return npuprof.last()


def _by_hand(cells: Cells, code: str) -> Profile:
    cells.run(f"%npuprof start --collector simulator --no-report {output(cells.folder)}")
    _run(cells, code)
    cells.run("%npuprof stop")
    return npuprof.last()


@pytest.mark.parametrize("by_hand", [False, True], ids=["by magic", "by hand"])
@pytest.mark.parametrize(("code", "kernels", "afterwards"), _SHOWS.values(), ids=_SHOWS.keys())
def test_what_is_shown_is_no_line(
    cells: Cells, code: str, kernels: list[str], afterwards: list[str], by_hand: bool
) -> None:
    draws = "Tan" in afterwards
    if draws:
        cells.run(_DRAW + _FIGURES)
    run = (_by_hand if by_hand else _by_magic)(cells, code)
    if draws:
        cells.run("get_ipython().events.unregister('post_execute', draw)")
    assert [name.split("_")[-1] for name in run.kernels["op_name"]] == kernels
    after = [each for each in run.info.afterwards if each.end_ns - each.start_ns > _SHOWN_S * 1e9]
    drawn = 1 + by_hand if draws else 0 if code.endswith(";") else 1  # the hook also runs after `%npuprof start`
    assert len(after) >= drawn
    assert sum(each.launches for each in run.info.afterwards) in (len(afterwards), len(afterwards) * drawn)
    assert bool(sum(each.device_ns for each in run.info.afterwards)) == bool(afterwards)
    shown_ns = pace.seconds(_SHOWN_S) * 1e9
    assert run.statements["duration_ns"].sum() < shown_ns
    assert run.summary.wall_ns is not None
    assert run.summary.wall_ns < 2 * shown_ns
    assert not len(run.steps) or run.steps["duration_ns"].sum() < shown_ns
    frame = run.code().to_frame()
    assert frame["host_ns"].sum() < shown_ns


def test_work_that_the_code_launched_counts_to_its_end(cells: Cells) -> None:
    run = _by_magic(cells, _LONG_WORK)
    ends = run.kernels["start_ns"] + run.kernels["duration_ns"]
    assert run.info.stopped_ns is not None
    assert ends.max() > run.info.stopped_ns
    assert (run.kernels["op_name"].str.contains("MatMul")).sum() == 500
    assert [each.launches for each in run.info.afterwards] == [2]


def test_a_run_without_lines_ends_with_its_code_too(cells: Cells) -> None:
    run = _by_magic(cells, "y = np.sin(x)\nSlow()", "--no-lines --no-steps")
    assert len(run.kernels) == 1
    assert run.summary.wall_ns is not None
    assert run.summary.wall_ns < pace.seconds(_SHOWN_S) * 1e9


def test_what_a_saved_run_left_out_stays_out(cells: Cells, tmp_path: Path) -> None:
    run = _by_magic(cells, "y = np.sin(x)\nSlow()")
    again = npuprof.load(run.save(tmp_path / "saved"))
    assert again.info.afterwards == run.info.afterwards
    assert again.info.overhead == run.info.overhead
    assert len(again.kernels) == 1


def test_time_above_the_magic_ends_with_the_code(cells: Cells) -> None:
    began = time.monotonic()
    _run(cells, f"%%time\n%%npuprof --collector simulator --no-report {output(cells.folder)}\ny = np.sin(x)\nSlow()")
    assert time.monotonic() - began > _SHOWN_S
    assert npuprof.last().statements["line"].tolist() == [2, 3]
    assert npuprof.last().statements["duration_ns"].sum() < pace.seconds(_SHOWN_S) * 1e9


def test_time_that_users_notice_is_said(cells: Cells) -> None:
    said = "IPython took another "
    assert said in str(_by_magic(cells, "y = np.sin(x)\nSlow()"))
    assert said in str(_by_magic(cells, "Slow()"))
    assert said in str(_by_hand(cells, "raise Error"))
    for quiet in ("y = np.sin(x)\n1", "import time\ntime.sleep(4)\nSlow()"):
        assert said not in str(_by_magic(cells, quiet))
